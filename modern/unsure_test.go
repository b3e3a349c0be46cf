// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

// names fails the test unless err wraps ErrHeld and its text has the words.
func names(t *testing.T, err error, words string) {
	t.Helper()
	said := ""
	if err != nil {
		said = err.Error()
	}
	if !errors.Is(err, lock.ErrHeld) || !strings.Contains(said, words) {
		t.Errorf("error %q; it should wrap ErrHeld and say %q", said, words)
	}
}

// on returns a backend on a connection with faults.
func on(t *testing.T, w *redistest.World, cfg modern.Config, rules ...redistest.Rule) (*modern.Backend,
	*redistest.Wire) {
	t.Helper()
	wire := w.Wire(rules...)
	b := openOn(t, wire.Pool(), cfg)
	return b, wire
}

func unsure(t *testing.T, err error) backend.Grant {
	t.Helper()
	var u *backend.UnsureError
	if !errors.As(err, &u) {
		t.Fatalf("%v; it should be an UnsureError", err)
	}
	return u.Grant
}

var forms = map[string]modern.Config{
	"plain": {}, "fence": {Fence: true}, "fair": {Fair: true}, "fair fence": {Fair: true, Fence: true},
}

// inForms runs f in each form, in a bubble of its own.
func inForms(t *testing.T, f func(t *testing.T, w *redistest.World, cfg modern.Config)) {
	t.Helper()
	for name, cfg := range forms {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) { f(t, w, cfg) })
		})
	}
}

// writes picks the command that takes a key, in each form.
func writes(c redistest.Command) bool {
	script := c.Is("EVALSHA") || c.Is("EVAL")
	return c.Is("SET") || script && (len(c) == 10 && c[2] == "2" || len(c) == 14)
}

func TestAttemptWithoutReplyIsUndone(t *testing.T) {
	for name, cfg := range forms {
		for fault, do := range map[string]redistest.Action{
			"cut before": redistest.CutBefore, "cut after": redistest.CutAfter,
			"cut within": redistest.CutWithin} {
			t.Run(name+" "+fault, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *redistest.World) {
					b, wire := on(t, w, cfg)
					free(t, try(t, b, "k")) // the server then knows the scripts
					wire.Fault(redistest.Rule{When: writes, Do: do})
					_, err := b.Contract().Try(bg, "k", ttl)
					g := unsure(t, err)
					err = g.Release(bg)
					executed := fault != "cut before"
					if executed && err != nil || !executed && !errors.Is(err, lock.ErrLost) {
						t.Errorf("Release: %v", err)
					}
					free(t, try(t, b, "k"))
				})
			})
		}
	}
}

func TestLateReplyDecidesAnAttempt(t *testing.T) {
	for name, cfg := range forms {
		for what, later := range map[string]time.Duration{
			"refused": -1, "taken": 0, "taken by a clock that is read anew": time.Second} {
			t.Run(name+" "+what, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *redistest.World) {
					b, wire := on(t, w, cfg)
					holder := try(t, b, "k")
					taken := later >= 0
					if taken {
						free(t, holder)
						w.Pass(later)
					}
					gate := redistest.NewGate()
					wire.Fault(redistest.Rule{When: writes, Do: redistest.HoldReply(gate)})
					ctx, cancel := context.WithCancel(bg)
					go func() { <-gate.Reached(); cancel() }()
					_, err := b.Contract().Try(ctx, "k", ttl)
					g := unsure(t, err)
					go gate.Open()
					if err := g.Release(bg); err != nil {
						t.Errorf("Release of an attempt that is decided: %v", err)
					}
					if !taken {
						if !w.Mini.Exists("k") {
							t.Error("another client's key was deleted")
						}
						free(t, holder)
					}
				})
			})
		}
	}
}

// The attempt arrives late, on a connection that takes no more calls. The undo
// follows it there and does not wait for its reply.
func TestUndoFollowsItsAttemptAtOnce(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		b, wire := on(t, w, cfg)
		free(t, try(t, b, "k"))
		w.Pass(3 * time.Second) // a young connection is kept
		gate := redistest.NewGate()
		wire.Fault(redistest.Rule{When: writes, Do: redistest.HoldRequest(gate)})
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		_, err := b.Contract().Try(ctx, "k", ttl)
		undone := make(chan error)
		go func() { undone <- unsure(t, err).Release(bg) }()
		synctest.Wait()
		gate.Open()
		if err := <-undone; err != nil || w.Mini.Exists("k") {
			t.Errorf("%v; the key exists: %v", err, w.Mini.Exists("k"))
		}
	})
}

func TestSharedGrantIsReleasedInEveryForm(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		b := open(t, w, cfg)
		g, last := try(t, b, "k"), int64(0)
		for n := 0; n < 20; n++ {
			fence := g.(backend.Fenced).Fence()
			if cfg.Fence && fence <= last {
				t.Errorf("fence %d after %d", fence, last)
			}
			last = fence
			next, ok := g.(backend.Sharer).Share()
			if !ok {
				if !cfg.Fence || n != 7 {
					t.Errorf("not shared for the %dth time", n+1)
				}
				break
			}
			if _, err := next.Extend(bg, ttl); err != nil {
				t.Error(err)
			}
			g = next
		}
		free(t, g)
		if again := try(t, b, "k"); cfg.Fence && again.(backend.Fenced).Fence() <= last {
			t.Errorf("fence %d after %d", again.(backend.Fenced).Fence(), last)
		} else {
			free(t, again)
		}
		if info, err := b.Inspect(bg, "k"); err != nil || len(info.Habits) > 0 {
			t.Errorf("habits %q, error %v", info.Habits, err)
		}
	})
}

func TestBrokenCounterLeavesTheKeyFree(t *testing.T) {
	for name, cfg := range forms {
		if !cfg.Fence {
			continue
		}
		for what, put := range map[string]func(*redistest.World){
			"text": func(w *redistest.World) { w.Mini.Set("gsl:fence::{m5p}", "abc") },
			"huge": func(w *redistest.World) { w.Mini.Set("gsl:fence::{m5p}", "9999999999999999999") },
			"list": func(w *redistest.World) { w.Mini.Push("gsl:fence::{m5p}", "1") },
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *redistest.World) {
					b := open(t, w, cfg)
					put(w)
					p := enter(t, b, "k")
					_, fromPlace := p.Try(bg, ttl)
					_, err := b.Contract().Try(bg, "k", ttl)
					for _, err := range []error{fromPlace, err} {
						var unsure *backend.UnsureError
						if err == nil || errors.Is(err, lock.ErrHeld) || errors.As(err, &unsure) {
							t.Errorf("error %v", err)
						}
					}
					if err := p.Leave(bg); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

func TestRepeatedReleaseIsNotTakenForALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{})
		free(t, try(t, b, "k"))
		g := try(t, b, "k")
		wire.Fault(
			redistest.Rule{When: func(c redistest.Command) bool { return c.Is("EVALSHA") },
				Do: redistest.CutAfter})
		if err := g.Release(bg); err == nil || errors.Is(err, lock.ErrLost) {
			t.Errorf("Release without a reply: %v", err)
		}
		if _, ok := g.(backend.Sharer).Share(); ok {
			t.Error("a grant whose release is under way was handed over")
		}
		free(t, g)
		if info, err := b.Inspect(bg, "k"); err != nil || len(info.Habits) > 0 {
			t.Errorf("habits %q, error %v", info.Habits, err)
		}
	})
}

func TestClusterNodesRefusalIsCertain(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{})
		wire.Fault(redistest.Rule{Command: "SET", Do: redistest.Answer("MOVED 12 10.0.0.1:6379")})
		_, err := b.Contract().Try(bg, "k", ttl)
		var u *backend.UnsureError
		if err == nil || errors.As(err, &u) || !strings.Contains(err.Error(), "MOVED") {
			t.Errorf("error %v", err)
		}
	})
}
