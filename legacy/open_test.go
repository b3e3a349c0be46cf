// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

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

func TestClientInspectsAndFreesAnOldClientsKey(t *testing.T) {
	m := miniredis.RunT(t)
	for _, mode := range []legacy.Mode{legacy.Hardened, legacy.Verbatim} {
		c, err := legacy.Open(t.Context(), "redis://"+m.Addr(),
			legacy.Options{Backend: legacy.Config{Mode: mode}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		stamp := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
		if err := m.Set("k", stamp); err != nil {
			t.Fatal(err)
		}
		info, err := c.Inspect(t.Context(), "k")
		var held *lock.HeldError
		if err != nil || info.Value != stamp || !errors.As(info.Held, &held) || held.Stamp.IsZero() {
			t.Errorf("%v: %+v, %v", mode, info, err)
		}
		if d, ok := info.Detail.(legacy.Observation); !ok || d.Value != stamp {
			t.Errorf("%v: detail: %+v", mode, info.Detail)
		}
		if freed, err := c.ForceRelease(t.Context(), "k", ""); freed || err == nil {
			t.Errorf("%v: no value: %v, %v", mode, freed, err)
		}
		if freed, err := c.ForceRelease(t.Context(), "k", stamp); !freed || err != nil || m.Exists("k") {
			t.Errorf("%v: %v, %v", mode, freed, err)
		}
		if info, err := c.Inspect(t.Context(), "k"); err != nil || info.Held != nil {
			t.Errorf("%v: a free key: %+v, %v", mode, info, err)
		}
	}
}

// Both keys are taken: one answer names the holder, and one call frees both.
func TestClientFreesAHardenedHoldersKeys(t *testing.T) {
	m := miniredis.RunT(t)
	c, err := legacy.Open(t.Context(), "redis://"+m.Addr(), legacy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	l, err := c.TryAcquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.Inspect(t.Context(), "k")
	var held *lock.HeldError
	if err != nil || !errors.As(info.Held, &held) || held.Owner != l.Token() {
		t.Errorf("%+v, %v", info, err)
	}
	if freed, err := c.ForceRelease(t.Context(), "k", info.Value); !freed || err != nil ||
		len(m.Keys()) > 0 {
		t.Errorf("%v, %v; left: %q", freed, err, m.Keys())
	}
	if err := l.Release(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("the holder's release: %v", err)
	}
}
