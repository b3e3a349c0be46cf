// SPDX-License-Identifier: Apache-2.0

package twokey_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

const (
	ttl   = 20 * time.Second
	lease = time.Minute
	month = 30 * 24 * time.Hour
	keyM  = "{k}:gsl"
)

var (
	bg        = context.Background()
	tombstone = dialect.Jedis().Tombstone()
)

// strategy is one way to hold the key.
type strategy struct {
	name string
	twokey.Strategy
	tomb bool // a tombstone is on L before
}

var (
	stamp   = strategy{"stamp", twokey.Stamp, false}
	guard   = strategy{"guard", twokey.Guard, false}
	sealing = strategy{"tombstone, missing", twokey.Tombstone, false}
	sealed  = strategy{"tombstone", twokey.Tombstone, true}
	alone   = strategy{"nothing", twokey.Nothing, false}

	all    = []strategy{stamp, guard, {"guard over a tombstone", twokey.Guard, true}, sealing, sealed, alone}
	marked = []strategy{stamp, guard, sealing}         // write what they hold by
	onL    = []strategy{stamp, guard, sealing, sealed} // hold by what is on L
)

// rig is a server in a bubble and engines on it, with the keys L and M of the
// lock k.
type rig struct {
	*testing.T
	by   strategy
	w    *redistest.World
	wire *redistest.Wire
}

// each runs a test by several strategies.
func each(t *testing.T, by []strategy, test func(r *rig)) {
	t.Helper()
	for _, s := range by {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := redistest.Bubble(t)
				r := &rig{t, s, w, w.Wire()}
				r.entomb()
				test(r)
			})
		})
	}
}

// entomb puts a tombstone on L where the strategy begins with one.
func (r *rig) entomb() {
	if r.by.tomb {
		r.set("k", tombstone)
		r.expire("k", month)
	}
}

// engine is a program that is known to be within a second of the server's
// clock.
func (r *rig) engine(change ...func(*twokey.Settings)) *program {
	r.Helper()
	s := twokey.Settings{Package: "test", Dialect: dialect.Jedis(),
		Terms: dialect.Terms{Lease: lease, Behind: time.Second}, Clock: r.w.Clock(redistest.Skew{})}
	for _, f := range change {
		f(&s)
	}
	e, err := twokey.New(r.wire.Pool(), s)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { e.Close() })
	return &program{e, r.by.Strategy}
}

func speaks(d dialect.Dialect) func(*twokey.Settings) {
	return func(s *twokey.Settings) { s.Dialect = d }
}

func settling(s *twokey.Settings) { s.SettleAlways = true }

// program takes locks by one strategy, as a backend does.
type program struct {
	*twokey.Engine
	by twokey.Strategy
}

func (p *program) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := p.Take(ctx, key, twokey.Attempt{Strategy: p.by, TTL: ttl})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// warm makes the server learn the scripts, so that what the next one meets is
// no NOSCRIPT.
func (r *rig) warm(p *program) *program {
	r.Helper()
	g, err := p.Try(bg, "warm", ttl)
	if err != nil {
		r.Fatal(err)
	}
	if _, err := g.Extend(bg, ttl); err != nil {
		r.Fatal(err)
	}
	r.release(g)
	return p
}

func (r *rig) take(p *program) *twokey.Grant {
	r.Helper()
	g, err := p.Try(bg, "k", ttl)
	if err != nil {
		r.Fatalf("Try: %v", err)
	}
	return g.(*twokey.Grant)
}

func (r *rig) release(g backend.Grant) {
	r.Helper()
	if err := g.Release(bg); err != nil {
		r.Fatalf("Release: %v", err)
	}
}

func (r *rig) held(p *program) *lock.HeldError {
	r.Helper()
	g, err := p.Try(bg, "k", ttl)
	return r.wantHeld(g, err)
}

func (r *rig) wantHeld(g backend.Grant, err error) *lock.HeldError {
	r.Helper()
	var held *lock.HeldError
	if !errors.As(err, &held) || !errors.Is(err, lock.ErrHeld) || g != nil {
		r.Fatalf("%v, %v (%T), want a HeldError", g, err, err)
	}
	return held
}

func (r *rig) wantLost(err error) *twokey.LostError {
	r.Helper()
	var lost *twokey.LostError
	if !errors.As(err, &lost) || !errors.Is(err, lock.ErrLost) {
		r.Fatalf("%v (%T), want a LostError", err, err)
	}
	return lost
}

func (r *rig) wantUnsure(err error) backend.Grant {
	r.Helper()
	var unsure *backend.UnsureError
	if !errors.As(err, &unsure) || unsure.Grant == nil {
		r.Fatalf("%v (%T), want an UnsureError", err, err)
	}
	return unsure.Grant
}

// stamp is what an old client of the Jedis dialect writes whose lease ends so
// long after the server's clock.
func (r *rig) stamp(ahead time.Duration) string {
	return strconv.FormatInt(r.w.ServerNow().Add(ahead).UnixMilli(), 10)
}

func (r *rig) set(key, value string)              { r.w.ServerNow(); r.w.Mini.Set(key, value) }
func (r *rig) get(key string) string              { r.w.ServerNow(); v, _ := r.w.Mini.Get(key); return v }
func (r *rig) del(key string)                     { r.w.ServerNow(); r.w.Mini.Del(key) }
func (r *rig) left(key string) time.Duration      { r.w.ServerNow(); return r.w.Mini.TTL(key) }
func (r *rig) expire(key string, d time.Duration) { r.w.ServerNow(); r.w.Mini.SetTTL(key, d) }

// wantKeys says what both keys must hold; "" is nothing.
func (r *rig) wantKeys(l, m string) {
	r.Helper()
	if got := r.get("k"); got != l {
		r.Errorf("L is %q, want %q", got, l)
	}
	if got := r.get(keyM); got != m {
		r.Errorf("M is %q, want %q", got, m)
	}
}

// leaves is what a release leaves on L.
func (r *rig) leaves() string {
	if r.by.Strategy == twokey.Tombstone {
		return tombstone
	}
	return ""
}

// during makes an attempt and does something while it settles.
func (r *rig) during(p *program, ctx context.Context, f func()) (g backend.Grant, err error) {
	done := make(chan struct{})
	go func() { defer close(done); g, err = p.Try(ctx, "k", ttl) }()
	r.w.Pass(100 * time.Millisecond)
	f()
	<-done
	return g, err
}

// between makes f happen right before the nth script from now on reaches the
// server.
func (r *rig) between(nth int, f func()) {
	gate := redistest.NewGate()
	r.wire.Fault(redistest.Rule{Command: "EVALSHA", Nth: nth, Do: redistest.HoldRequest(gate)})
	go func() { <-gate.Reached(); f(); gate.Open() }()
}

// fault makes something happen to the next script.
func (r *rig) fault(do redistest.Action) {
	r.wire.Fault(redistest.Rule{Command: "EVALSHA", Do: do})
}
