// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

const (
	ttl   = 20 * time.Second
	lease = time.Minute
	keyM  = "{k}:gsl"
)

var background = context.Background()

// rig is a server in a bubble, and bridges on it, with the keys L and M of the
// lock k.
type rig struct {
	*testing.T
	w    *redistest.World
	wire *redistest.Wire
}

func bridges(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		test(&rig{t, w, w.Wire()})
	})
}

func (r *rig) config(p migrate.Phase) migrate.Config {
	return migrate.Config{
		Phases: migrate.Fixed(p), Dialect: dialect.Jedis(),
		Terms: dialect.Terms{Lease: lease, Behind: time.Second},
		Clock: r.w.Clock(redistest.Skew{}),
	}
}

// bridge is a program in phase p, and change what is special about it.
func (r *rig) bridge(p migrate.Phase, change ...func(*migrate.Config)) *migrate.Bridge {
	r.Helper()
	cfg := r.config(p)
	for _, f := range change {
		f(&cfg)
	}
	b, err := migrate.New(r.wire.Pool(), cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { b.Close() })
	return b
}

func speaks(d dialect.Dialect) func(*migrate.Config) {
	return func(cfg *migrate.Config) { cfg.Dialect = d }
}

func (r *rig) take(b backend.Store) backend.Grant {
	r.Helper()
	g, err := b.Contract().Try(background, "k", ttl)
	if err != nil {
		r.Fatalf("Try: %v", err)
	}
	return g
}

func (r *rig) release(g backend.Grant) {
	r.Helper()
	if err := g.Release(background); err != nil {
		r.Fatalf("Release: %v", err)
	}
}

func (r *rig) held(b backend.Store) *lock.HeldError {
	r.Helper()
	g, err := b.Contract().Try(background, "k", ttl)
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

func (r *rig) wantLost(err error) *legacy.LostError {
	r.Helper()
	var lost *legacy.LostError
	if !errors.As(err, &lost) || !errors.Is(err, lock.ErrLost) {
		r.Fatalf("%v (%T), want a LostError", err, err)
	}
	return lost
}

// stamp is what an old client of the Jedis dialect writes whose lease ends so
// long after the server's clock.
func (r *rig) stamp(ahead time.Duration) string {
	return strconv.FormatInt(r.w.ServerNow().Add(ahead).UnixMilli(), 10)
}

func (r *rig) set(key, value string)              { r.w.ServerNow(); r.w.Mini.Set(key, value) }
func (r *rig) get(key string) string              { r.w.ServerNow(); v, _ := r.w.Mini.Get(key); return v }
func (r *rig) del(key string)                     { r.w.Mini.Del(key) }
func (r *rig) left(key string) time.Duration      { r.w.ServerNow(); return r.w.Mini.TTL(key) }
func (r *rig) expire(key string, d time.Duration) { r.w.ServerNow(); r.w.Mini.SetTTL(key, d) }

var tombstone = dialect.Jedis().Tombstone()

// entomb puts the tombstone on L, as a lease of phase sealed leaves it.
func (r *rig) entomb() {
	r.set("k", tombstone)
	r.expire("k", 30*24*time.Hour)
}

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

func (r *rig) skew() redistest.Skew { return redistest.Skew{} }

// warm makes the server learn a bridge's scripts, so that what the next one
// meets is no NOSCRIPT.
func (r *rig) warm(b *migrate.Bridge) {
	r.Helper()
	g, err := b.Contract().Try(background, "warm", ttl)
	if err != nil {
		r.Fatal(err)
	}
	if _, err := g.Extend(background, ttl); err != nil {
		r.Fatal(err)
	}
	r.release(g)
}

// fault cuts the connection behind the next script, whose reply never comes.
func (r *rig) fault() {
	r.wire.Fault(redistest.Rule{Command: "EVALSHA", Do: redistest.CutAfter})
}
