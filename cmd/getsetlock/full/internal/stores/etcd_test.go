package stores

import "testing"

func TestLockKeyEndsWithItsLease(t *testing.T) {
	for key, want := range map[string]struct {
		name  string
		lease int64
	}{
		"nightly/2040a207a89ad906":   {"nightly", 0x2040a207a89ad906},
		"nightly/f4a207c682dc05.2":   {"nightly", 0xf4a207c682dc05},
		"shop/stock/f4a207c682dc05":  {"shop/stock", 0xf4a207c682dc05},
		"nightly/0f4a207c682dc05":    {},
		"nightly/F4A207C682DC05":     {},
		"nightly/word":               {},
		"nightly/":                   {},
		"nightly":                    {},
		"/f4a207c682dc05":            {},
		"nightly/2040a207a89ad906ff": {},
	} {
		if name, lease := lockKey(key); name != want.name || lease != want.lease {
			t.Errorf("%s: %q, %x", key, name, lease)
		}
	}
}
