package modern_test

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

func TestOpenGivesAClientInOneCall(t *testing.T) {
	m := miniredis.RunT(t)
	m.RequireUserAuth("app", "s3cret")
	c, err := modern.Open(t.Context(), "redis://app:s3cret@"+m.Addr(), modern.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	l, err := c.TryAcquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Get("k"); got != l.Token() || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

func TestOpenRefusesWhatNewRefuses(t *testing.T) {
	m := miniredis.RunT(t)
	for _, c := range []struct {
		address, says string
		options       modern.Options
	}{
		{"redis://app:s3cret@" + m.Addr(), "WRONGPASS", modern.Options{}},
		{"http://" + m.Addr(), "must begin with", modern.Options{}},
		{"redis://" + m.Addr(), "Config.Replicas", modern.Options{Backend: modern.Config{Replicas: -1}}},
		{"redis://" + m.Addr(), "Config.TTL", modern.Options{Lock: lock.Config{TTL: -1}}},
	} {
		_, err := modern.Open(t.Context(), c.address, c.options)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", c.address, err)
		}
	}
}
