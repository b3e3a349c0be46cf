package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

// Faults in every step: no other client can hold, or the lease is reported
// lost.

var faults = map[string]redistest.Action{
	"cut before": redistest.CutBefore, "cut after": redistest.CutAfter, "cut within": redistest.CutWithin,
	"cut behind the reply": redistest.CutReplied, "silence": redistest.Silence,
	"script cache flushed": redistest.Answer(redistest.NoScript),
	"loading":              redistest.Answer(redistest.Loading),
	"read only":            redistest.Answer(redistest.ReadOnly),
}

// eachFault runs a test in every phase, with and without a tombstone, under
// each fault of the next script.
func eachFault(t *testing.T, test func(r *rig, p migrate.Phase, fault func())) {
	t.Helper()
	for name, do := range faults {
		for _, tomb := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/tombstone %v", name, tomb), func(t *testing.T) {
				each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
					if tomb && p == migrate.Observe {
						return // takes it for held
					}
					if tomb {
						r.entomb()
					}
					test(r, p, func() { r.wire.Fault(redistest.Rule{Command: "EVALSHA", Do: do}) })
				})
			})
		}
	}
}

// undo releases until the answer is certain, or the TTL has passed, as a Client
// does.
func (r *rig) undo(g backend.Grant) {
	r.Helper()
	r.wire.Calm()
	for passed := time.Duration(0); passed <= ttl; passed += time.Second {
		err := g.Release(background)
		if err == nil {
			break
		}
		r.w.Pass(time.Second)
	}
	if m := r.get(keyM); m != "" {
		r.Errorf("M is left: %q", m)
	}
}

// stranger looks whether another program would be let in now.
func (r *rig) stranger(p migrate.Phase) (free bool) {
	r.Helper()
	b, err := migrate.New(r.w.Pool(), r.config(p))
	if err != nil {
		r.Fatal(err)
	}
	defer b.Close()
	g, err := b.Contract().Try(background, "k", ttl)
	if err == nil {
		r.release(g)
		return true
	}
	r.wantHeld(g, err)
	return false
}

func TestFaultsOfAnAcquisitionAreUndone(t *testing.T) {
	eachFault(t, func(r *rig, p migrate.Phase, fault func()) {
		b := r.bridge(p)
		r.warm(b)
		fault()
		g, err := b.Contract().Try(background, "k", ttl)
		var unsure *backend.UnsureError
		switch {
		case err == nil:
			if r.stranger(p) {
				r.Error("another was let in beside the grant")
			}
		case errors.As(err, &unsure):
			g = unsure.Grant
		case errors.Is(err, lock.ErrHeld):
			r.Errorf("%v", err)
		default:
			if m := r.get(keyM); m != "" {
				r.Errorf("%v, and yet M is %q", err, m)
			}
			r.wire.Calm()
			return
		}
		r.undo(g)
		if !r.stranger(p) {
			r.Error("the key is not free afterwards")
		}
	})
}

func TestFaultsOfARenewalLetNobodyIn(t *testing.T) {
	eachFault(t, func(r *rig, p migrate.Phase, fault func()) {
		b := r.bridge(p)
		r.warm(b)
		g := r.take(b)
		r.w.Pass(ttl / 4)
		fault()
		term, err := g.Extend(background, ttl)
		if errors.Is(err, lock.ErrLost) {
			r.Fatalf("%v", err)
		}
		if err != nil && term != (backend.Term{}) {
			r.Errorf("a term beside %v", err)
		}
		r.wire.Calm()
		r.w.Pass(ttl / 4) // within the first TTL, renewed or not
		if r.stranger(p) {
			r.Error("another was let in")
		}
		if _, err := g.Extend(background, ttl); err != nil {
			r.Errorf("the next renewal: %v", err)
		}
		r.release(g)
	})
}

func TestFaultsOfAReleaseFreeNobodyElsesKey(t *testing.T) {
	eachFault(t, func(r *rig, p migrate.Phase, fault func()) {
		b := r.bridge(p)
		r.warm(b)
		g := r.take(b)
		fault()
		err := g.Release(background)
		r.wire.Calm()
		if sharer, ok := g.(backend.Sharer); ok && err != nil {
			if heir, shared := sharer.Share(); shared {
				g = heir
				if !refusedBeforeItRan(err) {
					r.Error("a grant whose release was sent was handed on")
				}
			}
		}
		other := r.bridge(p)
		next, taken := other.Contract().Try(background, "k", ttl)
		if err == nil && taken != nil {
			r.Errorf("released, and yet %v", taken)
		}
		r.undoBeside(g, taken == nil)
		if taken == nil {
			if _, err := next.Extend(background, ttl); err != nil {
				r.Errorf("the next holder: %v", err)
			}
			r.release(next)
		}
	})
}

// refusedBeforeItRan: the server answered that it executed nothing.
func refusedBeforeItRan(err error) bool {
	return strings.Contains(err.Error(), "LOADING") || strings.Contains(err.Error(), "READONLY")
}

// undoBeside releases again; M may be the next holder's by now.
func (r *rig) undoBeside(g backend.Grant, taken bool) {
	r.Helper()
	m := r.get(keyM)
	for range 3 {
		if err := g.Release(background); err == nil || errors.Is(err, lock.ErrLost) {
			break
		}
	}
	if taken && r.get(keyM) != m {
		r.Errorf("the next holder's M %q became %q", m, r.get(keyM))
	}
	if !taken && r.get(keyM) != "" {
		r.Errorf("M is left: %q", r.get(keyM))
	}
}

func TestAServerThatComesBackEmptyIsALostLease(t *testing.T) {
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		r.warm(b)
		g := r.take(b)
		r.w.Mini.FlushAll()
		r.wire.Cut()
		_, err := g.Extend(background, ttl)
		if err != nil && !errors.Is(err, lock.ErrLost) {
			_, err = g.Extend(background, ttl) // on a new connection
		}
		if lost := r.wantLost(err); !lost.Mark {
			r.Errorf("%v", lost)
		}
		if n := b.Stats().Taken; n != 1 {
			r.Errorf("counted %d times", n)
		}
		r.wantLost(g.Release(background))
		r.wantKeys("", "")
	})
}

func TestALateAcquisitionIsUndoneToo(t *testing.T) {
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		b := r.bridge(p, func(c *migrate.Config) { c.Timeout = 100 * time.Millisecond })
		r.warm(b)
		gate := redistest.NewGate()
		r.wire.Fault(redistest.Rule{Command: "EVALSHA", Do: redistest.HoldRequest(gate)})
		_, err := b.Contract().Try(background, "k", ttl)
		var unsure *backend.UnsureError
		if !errors.As(err, &unsure) {
			r.Fatalf("%v", err)
		}
		if err := unsure.Grant.Release(background); err == nil || errors.Is(err, lock.ErrLost) {
			r.Errorf("%v while the command was on its way", err)
		}
		gate.Open()
		r.undo(unsure.Grant)
	})
}

func TestALateRefusalLeavesTheOtherHolderAlone(t *testing.T) {
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		r.warm(b)
		g := r.take(b)
		gate := redistest.NewGate()
		r.wire.Fault(redistest.Rule{Command: "EVALSHA", Do: redistest.HoldReply(gate)})
		ctx, cancel := context.WithCancel(background)
		go func() { <-gate.Reached(); cancel() }()
		_, err := b.Contract().Try(ctx, "k", ttl)
		var unsure *backend.UnsureError
		if !errors.As(err, &unsure) {
			r.Fatalf("%v", err)
		}
		gate.Open()
		if err := unsure.Grant.Release(background); err != nil {
			r.Errorf("a refusal is certain: %v", err)
		}
		r.release(g)
	})
}

func TestALateSuccessIsGivenBackAtOnce(t *testing.T) {
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		r.warm(b)
		gate := redistest.NewGate()
		r.wire.Fault(redistest.Rule{Command: "EVALSHA", Do: redistest.HoldReply(gate)})
		ctx, cancel := context.WithCancel(background)
		go func() { <-gate.Reached(); cancel() }()
		_, err := b.Contract().Try(ctx, "k", ttl)
		var unsure *backend.UnsureError
		if !errors.As(err, &unsure) {
			r.Fatalf("%v", err)
		}
		gate.Open()
		r.release(unsure.Grant)
		if m := r.get(keyM); m != "" {
			r.Errorf("M is left: %q", m)
		}
	})
}

func TestASecondReleaseAfterALostReplyIsCertain(t *testing.T) {
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		r.warm(b)
		g := r.take(b)
		r.fault()
		if err := g.Release(background); err == nil {
			r.Fatal("certain without a reply")
		}
		r.release(g)
	})
}
