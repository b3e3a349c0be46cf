// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

const (
	ttl   = 20 * time.Second
	lease = time.Minute
	day   = 24 * time.Hour // how far a stamp lies beyond its lease
	keyM  = "{k}:gsl"
)

// rig is one hardened backend in a world of mocked time, with a tap on its
// connection. The key is k.
type rig struct {
	*testing.T
	w     *redistest.World
	clock *redistest.Clock
	tap   *tap
	b     *legacy.Backend
}

func newRig(t *testing.T, cfg legacy.Config) *rig {
	t.Helper()
	w := redistest.New(t)
	r := &rig{T: t, w: w, clock: w.Clock(redistest.Skew{}), tap: newTap(w)}
	r.b = r.backend(cfg)
	r.warm()
	return r
}

func (r *rig) backend(cfg legacy.Config) *legacy.Backend {
	r.Helper()
	cfg.Mode, cfg.Clock = legacy.Hardened, r.clock
	if cfg.Terms.Lease == 0 {
		cfg.Terms.Lease = lease
	}
	b, err := legacy.New(r.tap.pool(r.T), cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { b.Close() })
	return b
}

// warm makes the server learn the scripts, so that a test needs to count only
// EVALSHA.
func (r *rig) warm() {
	r.Helper()
	g := r.take("warm")
	if _, err := g.Extend(bg, ttl); err != nil {
		r.Fatal(err)
	}
	if err := g.Release(bg); err != nil {
		r.Fatal(err)
	}
	r.w.Mini.FlushAll()
	r.tap.take()
}

// try makes an attempt and lets its settle pass, if there is one.
func (r *rig) try(key string) (backend.Grant, error) {
	r.Helper()
	return r.tryIn(bg, key, func() { r.w.Tick() })
}

// tryIn makes an attempt and calls settling when the settle begins, if there is
// one.
func (r *rig) tryIn(ctx context.Context, key string, settling func()) (g backend.Grant, err error) {
	r.Helper()
	// The attempt either ends or asks for a timer, whichever comes first.
	done, asked := make(chan struct{}), r.clock.AskedTimes(r.clock.Asked()+1)
	go func() { defer close(done); g, err = r.b.Contract().Try(ctx, key, ttl) }()
	select {
	case <-done:
	case <-asked:
		settling()
		<-done
	}
	return g, err
}

func (r *rig) take(key string) backend.Grant {
	r.Helper()
	g, err := r.try(key)
	if err != nil {
		r.Fatalf("Try: %v", err)
	}
	return g
}

// stamp returns what an old client of the Jedis dialect writes when its lease
// ends that long after the server's present time.
func (r *rig) stamp(ahead time.Duration) string {
	return strconv.FormatInt(r.w.ServerNow().Add(ahead).UnixMilli(), 10)
}

func (r *rig) set(key, value string)      { r.w.Mini.Set(key, value) }
func (r *rig) get(key string) string      { v, _ := r.w.Mini.Get(key); return v }
func (r *rig) exists(key string) bool     { return r.w.Mini.Exists(key) }
func (r *rig) ttlOf(key string) (d int64) { return r.w.Mini.TTL(key).Milliseconds() }

func (r *rig) wantHeld(err error) *lock.HeldError {
	r.Helper()
	var held *lock.HeldError
	if !errors.As(err, &held) || !errors.Is(err, lock.ErrHeld) {
		r.Fatalf("%v (%T), want a HeldError", err, err)
	}
	return held
}

func (r *rig) wantLost(err error) *legacy.LostError {
	r.Helper()
	var lost *legacy.LostError
	if !errors.As(err, &lost) || !errors.Is(err, lock.ErrLost) {
		r.Fatalf("%v (%T), want a LostError", err, err)
	}
	return lost
}

// wantLeft checks that M is gone, and that L has what another client left
// there.
func (r *rig) wantLeft(l string) {
	r.Helper()
	if r.exists(keyM) {
		r.Errorf("M is left: %q", r.get(keyM))
	}
	if got := r.get("k"); got != l {
		r.Errorf("L is %q, want %q", got, l)
	}
}

// jedis is a fleet that is known to be within a second of the server's clock.
func jedis() legacy.Config {
	return legacy.Config{Mode: legacy.Verbatim, Dialect: dialect.Jedis(),
		Terms: dialect.Terms{Behind: time.Second}}
}

// unknown is a fleet whose distance from the server's clock is unknown.
func unknown() legacy.Config { return legacy.Config{Mode: legacy.Verbatim, Dialect: dialect.Jedis()} }
