// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"context"
	"errors"
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

func TestClientInspectsAndFreesAKey(t *testing.T) {
	m := miniredis.RunT(t)
	open := func() *lock.Client {
		c, err := modern.Open(t.Context(), "redis://"+m.Addr(),
			modern.Options{Backend: modern.Config{Note: "host7 job"}}) // Value has the note, Token has not
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		return c
	}
	holder, operator := open(), open()
	if info, err := operator.Inspect(t.Context(), "k"); err != nil || info.Held != nil || info.Value != "" {
		t.Errorf("a free key: %+v, %v", info, err)
	}
	l, err := holder.TryAcquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	info, err := operator.Inspect(t.Context(), "k")
	var held *lock.HeldError
	if err != nil || info.Value != l.Token() || !errors.As(info.Held, &held) || held.Owner != l.Token() {
		t.Errorf("%+v, %v", info, err)
	}
	if d, ok := info.Detail.(modern.Info); !ok || d.Token+" host7 job" != l.Token() || d.Left <= 0 {
		t.Errorf("detail: %+v", info.Detail)
	}
	if freed, err := operator.ForceRelease(t.Context(), "k", "another"); freed || err != nil {
		t.Errorf("another value: %v, %v", freed, err)
	}
	if freed, err := operator.ForceRelease(t.Context(), "k", info.Value); !freed || err != nil {
		t.Errorf("%v, %v", freed, err)
	}
	if err := l.Release(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("the holder's release: %v", err)
	}
}
