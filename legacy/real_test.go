// SPDX-License-Identifier: Apache-2.0

//go:build real

package legacy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/watches"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// onEach runs a test on every server version that fleets really run.
func onEach(t *testing.T, test func(t *testing.T, s *redistest.Server, b redistest.Binary)) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) { test(t, b.Start(t, redistest.Options{}), b) })
	}
}

func newBackend(t *testing.T, s *redistest.Server, cfg legacy.Config) *legacy.Backend {
	t.Helper()
	b, err := legacy.New(s.Pool(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// A server without memory refuses new locks, but neither renewals nor releases,
// also those that leave the key to old clients.
func TestFullServerRenewsAndReleasesHeldKeys(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server, _ redistest.Binary) {
		s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
		b := newBackend(t, s, legacy.Config{Mode: legacy.Hardened, Terms: dialect.Terms{Lease: time.Minute}})
		g, err := b.Contract().Try(bg, "k", 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		left, err := b.Contract().Try(bg, "left", 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		s.Do("CONFIG", "SET", "maxmemory", 1)
		if _, err := b.Contract().Try(bg, "other", 20*time.Second); !wire.IsOOM(err) {
			t.Errorf("a new lock: %v", err)
		}
		if term, err := g.Extend(bg, 25*time.Second); err != nil || term.TTL < 24*time.Second {
			t.Errorf("Extend: %v %v", term, err)
		}
		if err := g.Release(bg); err != nil {
			t.Errorf("Release: %v", err)
		}
		if err := left.(backend.Yielder).ReleaseTo(bg, time.Minute); err != nil {
			t.Errorf("ReleaseTo: %v", err)
		}
		s.Do("CONFIG", "SET", "maxmemory", 0)
		s.Do("DEL", legacy.MarkKey("left"))
		redistest.NoKeys(t, s.Pool())
	})
}

func TestHardenedLifeOnEveryServer(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server, _ redistest.Binary) {
		for _, d := range dialect.Presets() {
			if d.NeedsSettleEvery() {
				continue // its settle would take real time
			}
			b := newBackend(t, s, legacy.Config{
				Mode: legacy.Hardened, Dialect: d, Terms: dialect.Terms{Lease: time.Minute}})
			key, began := "life:"+d.Name, time.Now()
			g, err := b.Contract().Try(bg, key, 20*time.Second)
			if err != nil {
				t.Fatalf("%s: %v", d.Name, err)
			}
			o, err := b.Observe(bg, key)
			if err != nil || !o.Ours() || d.HasStamp() && o.Err != nil {
				t.Errorf("%s: %v %v: %+v", d.Name, err, o.Err, o.Observation)
			}
			if d.HasStamp() {
				least, most := o.Stamp.Expiry.Sub(o.ServerNow()), o.Stamp.Expiry.Sub(began)
				if most < day+19*time.Second || least > day+23*time.Second {
					t.Errorf("%s: stamped %v to %v ahead: %s", d.Name, least, most, o.Value)
				}
			}
			if _, err := b.Contract().Try(bg, key, 20*time.Second); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("%s: %v", d.Name, err)
			}
			if term, err := g.Extend(bg, 25*time.Second); err != nil || term.TTL < 24*time.Second {
				t.Errorf("%s: %v %v", d.Name, term, err)
			}
			if err := g.Release(bg); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
			if o, err := b.Observe(bg, key); err != nil || o.MarkExists || o.Exists && !d.NeverReleases() {
				t.Errorf("%s: left %+v %v", d.Name, o.Observation, err)
			}
		}
	})
}

func TestHardenedWakesAndWatchesWhereServerTracks(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server, bin redistest.Binary) {
		b := newBackend(t, s, legacy.Config{Mode: legacy.Hardened})
		other := newBackend(t, s, legacy.Config{Mode: legacy.Hardened})
		s.Do("SETNX", "stock", "99")
		woken := make(chan struct{}, 9)
		wake := func() { woken <- struct{}{} }
		cancel, free, err := b.Contract().(backend.Waker).Await(bg, "stock", wake)
		if !bin.Tracking {
			if !errors.Is(err, backend.ErrNoWake) {
				t.Errorf("%v", err)
			}
			return
		}
		if err != nil || free {
			t.Fatal(free, err)
		}
		defer cancel()
		s.Do("DEL", "stock")
		await(t, woken)
		g, err := other.Contract().Try(bg, "stock", 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Extend(bg, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		stop, err := watches.One(bg, other.Contract().(backend.Waker), g, wake)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		s.Do("GETSET", "stock", "1")
		await(t, woken)
		if _, err := watches.One(bg, other.Contract().(backend.Waker), g, wake); !errors.Is(err,
			lock.ErrLost) {
			t.Error(err)
		}
	})
}

func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(bg, redistest.Patience)
	defer cancel()
	select {
	case <-c:
	case <-ctx.Done():
		t.Fatal("not woken")
	}
}
