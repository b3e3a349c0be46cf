// SPDX-License-Identifier: Apache-2.0

package names

import (
	"strings"
	"testing"
)

// TestSlotOfKnownKeys has the examples of the Redis documentation: the check
// value of CRC-16/XMODEM, and what CLUSTER KEYSLOT answers.
func TestSlotOfKnownKeys(t *testing.T) {
	for key, want := range map[string]uint16{"123456789": 0x31c3, "somekey": 11058, "foo{hash_tag}": 2515,
		"{user1000}.following": 3443, "{user1000}.followers": 3443, "": 0} {
		if got := Slot(key); got != want {
			t.Errorf("the slot of %q is %d, not %d", key, got, want)
		}
	}
}

var odd = []string{"a", "shop:order:7", "a{b}c", "{a}", "{a}{b}", "a{{b}c", "odd}name", "a{b", "{}x", "{}",
	"}{", "a}b{c}", "{", "}", "ключ", "a b", "\x00\xff"}

// TestNamesOfALockLieInItsSlot, and no two locks share one.
func TestNamesOfALockLieInItsSlot(t *testing.T) {
	of := map[string]string{}
	for _, key := range odd {
		name := InSlot("gsl:queue:shop%3A:", key)
		if got, want := Slot(name), Slot(key); got != want {
			t.Errorf("%q lies in slot %d, and its lock in %d", name, got, want)
		}
		if other, ok := of[name]; ok {
			t.Errorf("%q is of %q and of %q", name, key, other)
		}
		of[name] = key
		shared := OfSlot("gsl:fence:", key)
		if got, want := Slot(shared), Slot(key); got != want {
			t.Errorf("%q lies in slot %d, and the lock %q in %d", shared, got, key, want)
		}
	}
}

// TestNamesStayAsTheyAre: all versions of the program must agree on them.
func TestNamesStayAsTheyAre(t *testing.T) {
	for key, want := range map[string][2]string{
		"nightly":  {"q:{nightly}", "f:{78o}"},
		"a{b}c":    {"q:{b}:a{b}c", "f:{exi}"},
		"odd}name": {"q:{2he}:odd}name", "f:{2he}"},
		"{}x":      {"q:{b2x}:{}x", "f:{b2x}"},
		"a{b":      {"q:{4q2}:a{b", "f:{4q2}"},
	} {
		if got := [2]string{InSlot("q:", key), OfSlot("f:", key)}; got != want {
			t.Errorf("%q: %q", key, got)
		}
	}
}

// TestEverySlotHasATag of three or four characters.
func TestEverySlotHasATag(t *testing.T) {
	for slot, tag := range tags() {
		text := strings.TrimRight(string(tag[:]), "\x00")
		if len(text) < 3 || strings.Trim(text, "0123456789abcdefghijklmnopqrstuvwxyz") != "" {
			t.Fatalf("slot %d has the tag %q", slot, text)
		}
		if got := slotOf(text); int(got) != slot {
			t.Fatalf("the tag %q of slot %d lies in %d", text, slot, got)
		}
	}
}
