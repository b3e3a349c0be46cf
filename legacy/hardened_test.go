// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// open makes a backend whose clock is the world's, unless cfg says otherwise.
func open(t *testing.T, w *redistest.World, cfg legacy.Config) *legacy.Backend {
	t.Helper()
	if cfg.Clock == nil {
		cfg.Clock = w.Clock(redistest.Skew{})
	}
	b, err := legacy.New(w.Pool(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

var bg = context.Background()

func try(t *testing.T, b *legacy.Backend, key string, ttl time.Duration) backend.Grant {
	t.Helper()
	g, err := b.Contract().Try(bg, key, ttl)
	if err != nil {
		t.Fatalf("Try(%q): %v", key, err)
	}
	return g
}

func TestHardenedWritesDialectBytesWithServerStamp(t *testing.T) {
	for _, d := range dialect.Presets() {
		t.Run(d.Name, func(t *testing.T) {
			w := redistest.New(t)
			w.StepServer(123456789 * time.Microsecond)
			terms := dialect.Terms{Lease: 60 * time.Second}
			clock := w.Clock(redistest.Skew{Offset: -time.Hour})
			b := open(t, w, legacy.Config{Mode: legacy.Hardened, Dialect: d, Terms: terms, Clock: clock})
			var g backend.Grant
			if d.NeedsSettleEvery() {
				done := make(chan backend.Grant)
				go func() { g, _ := b.Contract().Try(bg, "stock", 30*time.Second); done <- g }()
				clock.AwaitTimers(1)
				w.Tick()
				if g = <-done; g == nil {
					t.Fatal("not acquired")
				}
			} else {
				g = try(t, b, "stock", 30*time.Second)
			}
			value, _ := w.Mini.Get("stock")
			if m, _ := w.Mini.Get("{stock}:gsl"); m != g.Token()+" "+value {
				t.Errorf("M is %q; L is %q", m, value)
			}
			if w.Mini.TTL("stock") < w.Mini.TTL("{stock}:gsl") || w.Mini.TTL("{stock}:gsl") <= 0 {
				t.Errorf("TTLs: L %v, M %v", w.Mini.TTL("stock"), w.Mini.TTL("{stock}:gsl"))
			}
			if d.HasStamp() {
				o, err := b.Observe(bg, "stock")
				if err != nil || o.Err != nil {
					t.Fatal(err, o.Err)
				}
				stampedAt := redistest.Start.Add(123456789 * time.Microsecond)
				want, _ := d.Stamp(stampedAt, 30*time.Second+day, o.Stamp.ID)
				if value != want {
					t.Errorf("L is %q, the old client writes %q", value, want)
				}
				if !o.Ours() {
					t.Error("not recognised as a getsetlock client's")
				}
			}
			if err := g.Release(bg); err != nil {
				t.Errorf("Release: %v", err)
			}
			if keys := w.Mini.Keys(); len(keys) > 0 && !d.NeverReleases() {
				t.Errorf("left behind: %v", keys)
			}
		})
	}
}

// The error says what kind of end it reports. A getsetlock client's lease may
// be renewed, an old client's stamp goes by its writer's clock, and a holder
// that lost the lock does not renew.
func TestHeldErrorSaysWhatEndsTheLock(t *testing.T) {
	r := newRig(t, legacy.Config{})
	refused := func() *lock.HeldError {
		t.Helper()
		_, err := r.b.Contract().Try(bg, "k", ttl)
		return r.wantHeld(err)
	}
	r.take("k")
	if e := refused(); !e.Until.Equal(r.clock.Now().Add(ttl)) || e.Final || !e.Stamp.IsZero() {
		t.Errorf("of a getsetlock client: %+v", e)
	}
	mark := r.get("k")
	r.w.Mini.Del("k")
	if e := refused(); !e.Until.Equal(r.clock.Now().Add(ttl)) || !e.Final || !e.Stamp.IsZero() {
		t.Errorf("of a holder whose mark an old client's DEL deleted: %+v", e)
	}
	r.w.Mini.Del(keyM)
	r.set("k", mark)
	r.w.Mini.SetTTL("k", ttl)
	if e := refused(); !e.Until.Equal(r.clock.Now().Add(e.Left)) || !e.Final || !e.Stamp.IsZero() {
		t.Errorf("of a getsetlock client whose token is gone: %+v", e)
	}
	r.w.Mini.Del("k")
	end := r.w.ServerNow().Add(time.Minute).Truncate(time.Millisecond)
	r.set("k", r.stamp(time.Minute))
	if e := refused(); !e.Stamp.Equal(end) || e.Final || !e.Until.IsZero() {
		t.Errorf("of an old client: %+v", e)
	}
	verbatim := open(t, r.w, legacy.Config{Mode: legacy.Verbatim, Clock: r.clock})
	_, err := verbatim.Contract().Try(bg, "k", lease)
	if e := r.wantHeld(err); !e.Stamp.Equal(end) || e.Final || !e.Until.IsZero() {
		t.Errorf("of an old client, seen by a verbatim one: %+v", e)
	}
}

// getsetlock's own keys are not locks: a stamp on a counter would stop every
// fenced lock.
func TestKeysOfGetsetlockAreRefused(t *testing.T) {
	for _, mode := range []legacy.Mode{legacy.Hardened, legacy.Verbatim} {
		r := newRig(t, legacy.Config{Mode: mode})
		if _, err := r.b.Contract().Try(bg, "gsl:fence:", ttl); err == nil ||
			!strings.Contains(err.Error(), "another name") {
			t.Errorf("%v: %v", mode, err)
		}
	}
}
