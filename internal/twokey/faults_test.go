// SPDX-License-Identifier: Apache-2.0

package twokey_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Faults in every step: no other client can hold, or the lease is reported
// lost.

var faults = map[string]redistest.Action{
	"cut before": redistest.CutBefore, "cut after": redistest.CutAfter, "cut within": redistest.CutWithin,
	"cut behind the reply": redistest.CutReplied, "silence": redistest.Silence,
	"script cache flushed": redistest.Answer(redistest.NoScript),
	"loading":              redistest.Answer(redistest.Loading),
	"read only":            redistest.Answer(redistest.ReadOnly),
	"no memory":            redistest.Answer(redistest.OOM),
	"no right":             redistest.Answer(redistest.NoPerm),
}

// eachFault runs a test by every strategy under each fault of the next script.
func eachFault(t *testing.T, test func(r *rig, do redistest.Action)) {
	t.Helper()
	for name, do := range faults {
		t.Run(name, func(t *testing.T) { each(t, all, func(r *rig) { test(r, do) }) })
	}
}

// undo releases until the answer is certain, or the TTL has passed, as a Client
// does.
func (r *rig) undo(g backend.Grant) {
	r.Helper()
	r.wire.Calm()
	for passed := time.Duration(0); passed <= ttl; passed += time.Second {
		if g.Release(bg) == nil {
			break
		}
		r.w.Pass(time.Second)
	}
	if m := r.get(keyM); m != "" {
		r.Errorf("M is left: %q", m)
	}
}

// stranger looks whether another program would be let in now.
func (r *rig) stranger() (free bool) {
	r.Helper()
	p := r.engine()
	g, err := p.Try(bg, "k", ttl)
	if err == nil {
		r.release(g)
		return true
	}
	r.wantHeld(g, err)
	return false
}

func TestReleaseUndoesAttemptUnderEachFault(t *testing.T) {
	eachFault(t, func(r *rig, do redistest.Action) {
		p := r.warm(r.engine())
		r.fault(do)
		g, err := p.Try(bg, "k", ttl)
		var unsure *backend.UnsureError
		switch {
		case err == nil:
			if r.stranger() {
				r.Error("another was let in beside the grant")
			}
		case errors.As(err, &unsure):
			g = unsure.Grant
		case errors.Is(err, lock.ErrHeld):
			r.Errorf("%v", err)
		default:
			if m := r.get(keyM); m != "" || !strings.Contains(err.Error(), `"k"`) {
				r.Errorf("%v, and M is %q", err, m)
			}
			r.wire.Calm()
			return
		}
		r.undo(g)
		if !r.stranger() {
			r.Error("the key is not free afterwards")
		}
	})
}

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

func TestReleaseUndoesTakeoverWithLostReply(t *testing.T) {
	each(t, marked, func(r *rig) {
		p := r.warm(r.engine())
		r.set("k", r.stamp(-time.Minute))
		r.wire.Fault(redistest.Rule{Command: "EVALSHA", Nth: 2, Do: redistest.CutAfter})
		_, err := p.Try(bg, "k", ttl)
		r.undo(r.wantUnsure(err))
		r.wantKeys(r.leaves(), "")
	})
}

func TestReleaseUndoesSettleWithLostReply(t *testing.T) {
	for _, do := range []redistest.Action{redistest.CutBefore, redistest.CutAfter} {
		each(t, marked, func(r *rig) {
			p := r.warm(r.engine(settling))
			_, err := r.during(p, bg, func() { r.fault(do) })
			r.undo(r.wantUnsure(err))
			r.wantKeys(r.leaves(), "")
		})
	}
}

func TestFaultsOfARenewalLetNobodyIn(t *testing.T) {
	eachFault(t, func(r *rig, do redistest.Action) {
		g := r.take(r.warm(r.engine()))
		r.w.Pass(ttl / 4)
		r.fault(do)
		term, err := g.Extend(bg, ttl)
		if errors.Is(err, lock.ErrLost) {
			r.Fatalf("%v", err)
		}
		if err != nil && term != (backend.Term{}) {
			r.Errorf("a term beside %v", err)
		}
		r.wire.Calm()
		r.w.Pass(ttl / 4) // within the first TTL, renewed or not
		if r.stranger() {
			r.Error("another was let in")
		}
		// M says which bytes are the grant's, whether the renewal ran or not.
		if _, err := g.Extend(bg, ttl); err != nil {
			r.Errorf("the next renewal: %v", err)
		}
		r.release(g)
	})
}

func TestFaultsOfAReleaseFreeNobodyElsesKey(t *testing.T) {
	eachFault(t, func(r *rig, do redistest.Action) {
		var g backend.Grant = r.take(r.warm(r.engine()))
		r.fault(do)
		err := g.Release(bg)
		r.wire.Calm()
		if err != nil {
			if heir, shared := g.(backend.Sharer).Share(); shared {
				g = heir
				if !answered(err) {
					r.Error("a grant whose release was sent was handed on")
				}
			}
		}
		other := r.engine()
		next, taken := other.Try(bg, "k", ttl)
		if err == nil && taken != nil {
			r.Errorf("released, and yet %v", taken)
		}
		m := r.get(keyM)
		for range 3 {
			if err := g.Release(bg); err == nil || errors.Is(err, lock.ErrLost) {
				break
			}
		}
		if taken != nil {
			m = ""
		}
		if got := r.get(keyM); got != m {
			r.Errorf("M is %q, want %q", got, m)
		}
		if taken == nil {
			if _, err := next.Extend(bg, ttl); err != nil {
				r.Errorf("the next holder: %v", err)
			}
			r.release(next)
		}
	})
}

// answered: the server said that it executed nothing.
func answered(err error) bool { return strings.Contains(err.Error(), "the server") }

func TestServerThatComesBackEmptyIsALostLease(t *testing.T) {
	each(t, all, func(r *rig) {
		p := r.warm(r.engine())
		g := r.take(p)
		r.w.Mini.FlushAll()
		r.wire.Cut()
		_, err := g.Extend(bg, ttl)
		if err != nil && !errors.Is(err, lock.ErrLost) {
			_, err = g.Extend(bg, ttl) // on a new connection
		}
		if lost := r.wantLost(err); !lost.Mark {
			r.Errorf("%v", lost)
		}
		if n := p.Count.Taken.Load(); n != 1 || p.Count.Lost() != 1 {
			r.Errorf("counted %d times", n)
		}
		r.wantLost(g.Release(bg))
		r.wantKeys("", "")
	})
}

// The connection is given up while the attempt's command is on its way.
func TestSecondReleaseUndoesLateAttempt(t *testing.T) {
	each(t, all, func(r *rig) {
		p := r.warm(r.engine(func(s *twokey.Settings) { s.Timeout = 100 * time.Millisecond }))
		gate := redistest.NewGate()
		r.fault(redistest.HoldRequest(gate))
		_, err := p.Try(bg, "k", ttl)
		g := r.wantUnsure(err)
		if err := g.Release(bg); err == nil || errors.Is(err, lock.ErrLost) {
			r.Errorf("%v while the command was on its way", err)
		}
		gate.Open()
		r.undo(g)
	})
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
