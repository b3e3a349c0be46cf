// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/polite"
	keys "github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

const gap = 145 * time.Millisecond // of a poll of 100 ms

// politePhases are those in which old clients may wait for a getsetlock
// client's release.
var politePhases = []migrate.Phase{migrate.Observe, migrate.Dual}

func leave(r *rig, g backend.Grant) {
	r.Helper()
	if err := g.(backend.Yielder).ReleaseTo(background, gap); err != nil {
		r.Fatalf("Leave: %v", err)
	}
}

// A hand-over is no release, so its chain ends when a gap is due.
func TestChainOfHandOversEndsWhenAGapIsDue(t *testing.T) {
	bridges(t, func(r *rig) {
		b := r.bridge(migrate.Dual)
		g := r.take(b)
		for range 10 {
			r.w.Pass(101 * time.Millisecond)
			if d := g.(backend.Yielder).YieldFor(0); d != 0 {
				r.Fatalf("it owes %v", d)
			}
			next, ok := g.(backend.Sharer).Share()
			if !ok {
				r.Fatal("not shared")
			}
			g = next
		}
		r.w.Pass(5 * time.Millisecond)
		if d := g.(backend.Yielder).YieldFor(0); d != gap {
			r.Errorf("after a span of work it owes %v", d)
		}
		leave(r, g)
	})
}

// A gap on M is no holder's: the sweep deletes the tombstone.
func TestSweepTakesAGapForNobody(t *testing.T) {
	bridges(t, func(r *rig) {
		for m, want := range map[string]int64{
			polite.Value(strings.Repeat("A", 22)): 1, "left nobody": 0, strings.Repeat("A", 22): 0,
		} {
			r.entomb()
			r.set(keyM, m)
			tomb := r.get("k")
			conn := r.w.Pool().Get()
			got, err := conn.Do("EVAL", keys.SweepLua, 2, "k", keyM, tomb, "1")
			conn.Close()
			if err != nil || got != any(want) {
				r.Errorf("M %q: swept %v, %v", m, got, err)
			}
			r.del("k")
			r.del(keyM)
		}
	})
}

// The gap is on the old clients' server. A client that takes the target
// meanwhile gives it back.
func TestComposedLockLeavesTheOldKey(t *testing.T) {
	composed(t, politePhases, func(r *elsewhere, p migrate.Phase) {
		c := r.compose(p)
		g, err := c.Contract().Try(background, "k", ttl)
		if err != nil {
			r.Fatal(err)
		}
		r.w.Pass(2 * time.Second)
		if d := g.(backend.Yielder).YieldFor(0); d != gap {
			r.Errorf("it owes %v", d)
		}
		if err := g.(backend.Yielder).ReleaseTo(context.Background(), gap); err != nil {
			r.Fatal(err)
		}
		_, err = c.Contract().Try(background, "k", ttl)
		var held *lock.HeldError
		if !errors.As(err, &held) || !held.Vacant {
			r.Errorf("in the gap: %v", err)
		}
		r.w.Pass(gap)
		if g, err = c.Contract().Try(background, "k", ttl); err != nil {
			r.Fatal(err)
		}
		if err := g.Release(background); err != nil {
			r.Error(err)
		}
	})
}
