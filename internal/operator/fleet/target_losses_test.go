// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

// onWire joins a composed program that has its own wire to the old server.
func (f *fleet) onWire(cfg migrate.MemberConfig, target backend.Store) (mover, *redistest.Wire) {
	f.t.Helper()
	wire, m := f.wired(cfg)
	b, err := migrate.New(wire.Pool(), migrate.Config{Phases: m, Clock: f.w.Clock(redistest.Skew{})})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = b.Close() })
	if target == nil {
		return mover{m, b.Contract()}, wire
	}
	return f.composed(m, b, target), wire
}

// cuts ends what a program sends to the old server.
func cuts(w *redistest.Wire) {
	w.Fault(redistest.Rule{
		When: func(redistest.Command) bool { return true }, Times: -1, Do: redistest.CutBefore})
}

// TestLostRecordKeepsTheTargetOfLeasesOfClean: all members have followed a new
// beginning, and one still holds in the target alone.
func TestLostRecordKeepsTheTargetOfLeasesOfClean(t *testing.T) {
	inBubble(t, func(f *fleet) {
		store := f.store()
		a := f.moves("shop", "etcd", store)
		f.to(migrate.Clean)
		held, err := a.Try(bg, "till", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		f.beats()
		if r := f.init(Options{Go: true}); !r.Moved {
			t.Fatalf("%+v", r.Gate)
		}
		f.beats()
		f.w.Mini.Del(record.Key(""))
		if r := f.init(Options{}); !r.Moved || r.Pending != migrate.Clean || r.Target != "etcd" {
			t.Errorf("pending %v, target %q", r.Pending, r.Target)
		}
		b := f.moves("late", "", nil)
		if both, err := b.Try(bg, "till", time.Second); err == nil {
			t.Error("both hold")
			_ = both.Release(bg)
		}
		if err := held.Release(bg); err != nil {
			t.Error(err)
		}
		f.leaves(b)
		r := f.init(Options{Go: true, Wait: 2 * time.Hour})
		if !r.Over || r.Target != "" {
			t.Errorf("%v, target %q, %+v", r.Over, r.Target, r.Gate)
		}
		if last := r.Notes[len(r.Notes)-1]; !strings.Contains(last, `by the target "etcd" alone`) {
			t.Errorf("who else holds there is not said: %q", r.Notes)
		}
	})
}

// silent is a target that does not answer before something else is done.
type silent struct {
	backend.Backend
	meanwhile func()
}

func (s silent) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	if s.meanwhile != nil {
		s.meanwhile()
	}
	return s.Backend.Try(ctx, key, ttl)
}

// TestAttemptOfAForgottenMemberGetsNoLock: it began in clean. Meanwhile the
// member was silent and was forgotten, and the fleet has begun anew.
func TestAttemptOfAForgottenMemberGetsNoLock(t *testing.T) {
	inBubble(t, func(f *fleet) {
		store := f.store()
		target := &silent{Backend: store.Backend().Contract()}
		a, wire := f.onWire(migrate.MemberConfig{Name: "shop", Target: "etcd"}, backend.Of(target))
		keeper := f.moves("keeper", "etcd", store)
		f.to(migrate.Clean)
		var held backend.Grant
		target.meanwhile = func() {
			target.meanwhile = nil
			cuts(wire)
			f.w.Pass(10 * time.Minute)
			if r := f.init(Options{Go: true, Forget: []string{a.ID()}, Wait: 10 * time.Minute}); !r.Over {
				t.Fatalf("%+v", r.Gate)
			}
			f.beats()
			var err error
			if held, err = f.moves("till", "", nil).Try(bg, "till", 30*time.Second); err != nil {
				t.Fatal(err)
			}
			wire.Calm()
		}
		both, err := a.Try(bg, "till", 30*time.Second)
		if err == nil {
			t.Errorf("both hold: %v", both.Term())
			_ = both.Release(bg)
		}
		var again interface{ Passing() bool }
		if !errors.As(err, &again) || !again.Passing() {
			t.Errorf("%v", err)
		}
		if err := held.Release(bg); err != nil {
			t.Error(err)
		}
		f.beats()
		f.alone("afterwards", a, keeper)
	})
}

// TestForgottenMemberTakesNoLockWithoutARecord: it was silent when the fleet
// went to clean, and the record is lost when it returns.
func TestForgottenMemberTakesNoLockWithoutARecord(t *testing.T) {
	for name, spoil := range map[string]func(*fleet, string){
		"lost":   func(f *fleet, _ string) { f.w.Mini.Del(record.Key("")) },
		"all":    func(f *fleet, _ string) { f.w.Mini.FlushAll() },
		"newer":  func(f *fleet, _ string) { _ = f.w.Mini.Set(record.Key(""), "gsl/9 phase=clean") },
		"before": func(f *fleet, before string) { _ = f.w.Mini.Set(record.Key(""), before) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fleet) {
				a := f.moves("shop", "etcd", f.store())
				b, wire := f.onWire(migrate.MemberConfig{Name: "till"}, nil)
				f.to(migrate.Sealed)
				before := f.at(migrate.Sealed).String()
				if r := f.advance(Options{Go: true, Wait: time.Minute}); !r.Moved {
					t.Fatalf("%+v", r.Gate)
				}
				f.beats()
				cuts(wire)
				f.w.Pass(10 * time.Minute)
				if r := f.clean(Options{Go: true, Forget: []string{b.ID()}, Wait: time.Minute}); !r.Over {
					t.Fatalf("%+v", r.Gate)
				}
				f.beats()
				spoil(f, before)
				wire.Calm()
				f.beats()
				f.alone("returned", a, b)
				if p := b.State().Phase; p != migrate.NoPhase {
					t.Errorf("it says %v; a lost record is written by what members say", p)
				}
			})
		})
	}
}

// TestMemberGoesOnWithoutARecordAfterAShortSilence: the server was away for
// less than the member renews leases, and has lost the record, or everything.
// After a longer silence the member waits for a record.
func TestMemberGoesOnWithoutARecordAfterAShortSilence(t *testing.T) {
	for name, lose := range map[string]func(*fleet){
		"record": func(f *fleet) { f.w.Mini.Del(record.Key("")) },
		"all":    func(f *fleet) { f.w.Mini.FlushAll() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fleet) {
				b, wire := f.onWire(migrate.MemberConfig{Name: "till"}, nil)
				f.to(migrate.Modern)
				for _, away := range []time.Duration{50 * time.Second, 10 * time.Minute} {
					cuts(wire)
					f.w.Pass(away)
					lose(f)
					wire.Calm()
					f.beats()
					held, err := b.Try(bg, "till", time.Second)
					if long := away > time.Minute; (err == nil) == long {
						t.Fatalf("after %v: %v", away, err)
					}
					if err == nil {
						_ = held.Release(bg)
					}
				}
				r := f.init(Options{})
				closed(t, r.Gate, "phase") // the operator has to say it
				if r = f.init(Options{To: migrate.Modern}); !r.Moved || r.Phase != migrate.Modern {
					t.Fatalf("%v, %+v", r.Phase, r.Gate)
				}
				f.beats()
				held, err := b.Try(bg, "till", time.Second)
				if err != nil {
					t.Fatal(err)
				}
				_ = held.Release(bg)
			})
		})
	}
}

// TestForgottenMemberWritesNoLostRecord: it was silent in clean. The others
// began anew, and old clients were started. Then the server lost everything,
// and that member is the first one that comes back. The explorer's trace is
// EachRuleOfASilencePreventsATrace-a-lost-record-by-the-word-of-a-forgotten-member.
func TestForgottenMemberWritesNoLostRecord(t *testing.T) {
	inBubble(t, func(f *fleet) {
		a, wire := f.onWire(migrate.MemberConfig{Name: "till"}, nil)
		b, others := f.onWire(migrate.MemberConfig{Name: "shop"}, nil)
		f.to(migrate.Clean)
		cuts(wire)
		f.w.Pass(10 * time.Minute)
		if r := f.init(Options{Go: true, Forget: []string{a.ID()}, Wait: 10 * time.Minute}); !r.Over {
			t.Fatalf("%+v", r.Gate)
		}
		f.beats()
		cuts(others)
		f.w.Mini.FlushAll()
		wire.Calm()
		f.beats()
		if r := f.init(Options{}); r.Moved {
			t.Fatalf("the record says %v by the word of a forgotten member", r.Phase)
		} else {
			closed(t, r.Gate, "phase")
		}
		others.Calm()
		f.beats()
		for _, to := range []migrate.Phase{migrate.Clean, migrate.NoPhase} {
			r := f.init(Options{To: to})
			if wrong := to != migrate.NoPhase; r.Moved == wrong || !wrong && r.Phase != migrate.Observe {
				t.Errorf("--to %v: moved %v, %v, %+v", to, r.Moved, r.Phase, r.Gate)
			}
		}
		f.beats()
		if p, q := a.State().Phase, b.State().Phase; p != migrate.Observe || q != p {
			t.Errorf("they act by %v and %v", p, q)
		}
	})
}

// frozen is a program's clock. Its next reading is after a long time.
type frozen struct {
	*redistest.Clock
	until func()
}

func (c *frozen) Elapsed() time.Duration {
	if until := c.until; until != nil {
		c.until = nil
		until()
	}
	return c.Clock.Elapsed()
}

// TestAttemptOfAFrozenMemberGetsNoLock: the program stood still after it had
// read its phase, modern, and before it wrote. By its own clock its lease is
// young.
func TestAttemptOfAFrozenMemberGetsNoLock(t *testing.T) {
	inBubble(t, func(f *fleet) {
		a := f.moves("shop", "etcd", f.store())
		wire, m := f.wired(migrate.MemberConfig{Name: "till"})
		clock := &frozen{Clock: f.w.Clock(redistest.Skew{})}
		b, err := migrate.New(f.w.Pool(), migrate.Config{Phases: m, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		f.to(migrate.Modern)
		clock.until = func() {
			cuts(wire)
			f.w.Pass(10 * time.Minute)
			if r := f.clean(Options{Go: true, Forget: []string{m.ID()}, Wait: time.Minute}); !r.Over {
				t.Fatalf("%+v", r.Gate)
			}
			f.beats()
			wire.Calm()
		}
		held, err := b.Contract().Try(bg, "till", 30*time.Second)
		if err == nil {
			t.Error("a lock of modern, in clean")
			_ = held.Release(bg)
		}
		says(t, err, "may have forgotten the member")
		if f.w.Mini.Exists(legacy.MarkKey("till")) || clock.until != nil {
			t.Error("the lock was not given back")
		}
		f.alone("afterwards", a, mover{m, b.Contract()})
	})
}
