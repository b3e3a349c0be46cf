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

// rig is one backend in a world of mocked time, with a wire to the server. The
// key is k.
type rig struct {
	*testing.T
	w     *redistest.World
	clock *redistest.Clock
	wire  *redistest.Wire
	b     *legacy.Backend
}

func newRig(t *testing.T, cfg legacy.Config) *rig {
	t.Helper()
	w := redistest.New(t)
	r := &rig{T: t, w: w, clock: w.Clock(redistest.Skew{}), wire: w.Wire()}
	r.b = r.backend(cfg)
	if cfg.Mode == legacy.Hardened {
		r.warm()
	}
	return r
}

func (r *rig) backend(cfg legacy.Config) *legacy.Backend {
	r.Helper()
	cfg.Clock, cfg.Timeout = r.clock, redistest.Patience // however busy the machine is
	if cfg.Terms.Lease == 0 {
		cfg.Terms.Lease = lease
	}
	b, err := legacy.New(r.wire.Pool(), cfg)
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
	r.wire.Forget()
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

// between makes f happen right before the nth script from now on reaches the
// server.
func (r *rig) between(nth int, f func()) {
	gate := redistest.NewGate()
	r.wire.Fault(redistest.Rule{Command: "EVALSHA", Nth: nth, Do: redistest.HoldRequest(gate)})
	go func() { <-gate.Reached(); f(); gate.Open() }()
}

// hardened is a fleet that is known to be within a second of the server's
// clock.
func hardened(d dialect.Dialect) legacy.Config {
	return legacy.Config{Dialect: d, Terms: dialect.Terms{Behind: time.Second}}
}

func jedis() legacy.Config { return hardened(dialect.Jedis()) }

// unknown is a fleet whose distance from the server's clock is unknown.
func unknown() legacy.Config { return legacy.Config{Dialect: dialect.Jedis()} }
