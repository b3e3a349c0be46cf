package legacy_test

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

func TestOpenGivesAClientInOneCall(t *testing.T) {
	m := miniredis.RunT(t)
	m.RequireUserAuth("app", "s3cret")
	c, err := legacy.Open(t.Context(), "redis://app:s3cret@"+m.Addr(), legacy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	l, err := c.TryAcquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if !m.Exists("k") || !m.Exists("{k}:gsl") {
		t.Errorf("the server has %q", m.Keys())
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

func TestOpenRefusesWhatNewRefuses(t *testing.T) {
	m := miniredis.RunT(t)
	for _, c := range []struct {
		address, says string
		options       legacy.Options
	}{
		{"redis://app:s3cret@" + m.Addr(), "WRONGPASS", legacy.Options{}},
		{"http://" + m.Addr(), "must begin with", legacy.Options{}},
		{"redis://" + m.Addr(), "Config.Mode", legacy.Options{Backend: legacy.Config{Mode: -1}}},
		{"redis://" + m.Addr(), "Config.TTL", legacy.Options{Lock: lock.Config{TTL: -1}}},
	} {
		_, err := legacy.Open(t.Context(), c.address, c.options)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", c.address, err)
		}
	}
}
