// SPDX-License-Identifier: Apache-2.0

package twokey_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// A release says only what is certain. The faults in every step are the
// simulation's (internal/sim).

// What a release found and deleted is certain. What it did not find may still
// come.
func TestReleaseIsCertainOnlyOfWhatItFound(t *testing.T) {
	for _, runs := range []bool{false, true} {
		each(t, all, func(r *rig) {
			p := r.warm(r.engine())
			r.fault(map[bool]redistest.Action{false: redistest.CutBefore, true: redistest.CutAfter}[runs])
			_, err := p.Try(bg, "k", ttl)
			g := r.wantUnsure(err)
			if stands := r.get(keyM) != ""; stands != runs {
				r.Fatalf("M stands: %v", stands)
			}
			err = g.Release(bg)
			if runs && err != nil || !runs && (err == nil || errors.Is(err, lock.ErrLost)) {
				r.Errorf("ran %v: %v", runs, err)
			}
		})
	}
}

// A release follows the attempt whose reply has not come, or reads that reply:
// a refusal is certain, and a success is given back at once.
func TestReleaseWaitsForLateReply(t *testing.T) {
	for _, c := range []struct{ free, arrived bool }{
		{false, false}, {false, true}, {true, false}, {true, true},
	} {
		each(t, all, func(r *rig) {
			p := r.warm(r.engine())
			var holder backend.Grant
			if !c.free {
				holder = r.take(p)
			}
			gate := redistest.NewGate()
			r.fault(redistest.HoldReply(gate))
			ctx, cancel := context.WithCancel(bg)
			go func() { <-gate.Reached(); cancel() }()
			_, err := p.Try(ctx, "k", ttl)
			if !errors.Is(err, context.Canceled) {
				r.Errorf("%v", err)
			}
			g := r.wantUnsure(err)
			gate.Open()
			if c.arrived {
				synctest.Wait()
			}
			r.release(g)
			if holder != nil {
				r.release(holder)
			}
			if m := r.get(keyM); m != "" {
				r.Errorf("M is left: %q", m)
			}
		})
	}
}

func TestReleaseWithLostReplyCanBeRepeated(t *testing.T) {
	for _, do := range []redistest.Action{redistest.CutBefore, redistest.CutAfter} {
		each(t, all, func(r *rig) {
			g := r.take(r.warm(r.engine()))
			r.fault(do)
			if err := g.Release(bg); err == nil || errors.Is(err, lock.ErrLost) {
				r.Errorf("certain without a reply: %v", err)
			}
			r.release(g)
			if _, err := g.Extend(bg, ttl); !errors.Is(err, lock.ErrLost) {
				r.Errorf("renewed after its release: %v", err)
			}
		})
	}
}
