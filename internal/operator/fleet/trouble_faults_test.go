// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// Two operators at once, missing rights, names without a slot. For each the
// verb says what to do, and leaves nothing half done.

// TestSecondOfTwoOperatorsIsRefused: one operator's step waits in front of the
// server, until the other has taken the same or the opposite step.
func TestSecondOfTwoOperatorsIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		from       migrate.Phase
		slow, fast func(context.Context, *redis.Pool, Options) (*Report, error)
		to         migrate.Phase
	}{
		"init":               {migrate.NoPhase, Init, Init, migrate.Observe},
		"init after clean":   {migrate.Clean, Init, Init, migrate.Observe},
		"advance":            {migrate.Dual, Advance, Advance, migrate.Sealed},
		"back":               {migrate.Sealed, Back, Back, migrate.Dual},
		"clean":              {migrate.Modern, CleanUp, CleanUp, migrate.Clean},
		"advance, then back": {migrate.Dual, Back, Advance, migrate.Sealed},
		"back, then advance": {migrate.Dual, Advance, Back, migrate.Observe},
		"back, then clean":   {migrate.Modern, CleanUp, Back, migrate.Sealed},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fleet) {
				crew := newCrew(f, verbCase{from: c.from})
				epoch := crew.all[0].State().Epoch
				r, err := f.overtaken(c.slow, Options{Go: true}, redistest.Rule{Command: "EVALSHA"}, func() {
					r, err := c.fast(bg, f.w.Pool(), f.options(Options{Go: true}))
					if err != nil || !r.Moved {
						t.Errorf("the first: %v, closed by %q", err, rules(r.Gate))
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				closed(t, r.Gate, "raced")
				if got := f.at(c.to); r.Moved || got.Epoch != epoch+1 {
					t.Errorf("moved %v, the record says epoch %d after %d", r.Moved, got.Epoch, epoch)
				}
			})
		})
	}
}

// TestMemberOfANamespaceThatWasTakenBack: two overlapping namespaces began at
// once, and a member of the one acted before its record was taken back. The
// record goes although the member has changed it meanwhile, and no gate of the
// other namespace opens while the member acts.
func TestMemberOfANamespaceThatWasTakenBack(t *testing.T) {
	inBubble(t, func(f *fleet) {
		m := f.join(migrate.MemberConfig{Namespace: "stock"})
		if _, _, err := m.Begin(bg, leaseOfOurs); !errors.Is(err, migrate.ErrNoPhase) {
			t.Errorf("before there is a record it gets a phase, %v", err)
		}
		writes, drops := redistest.NewGate(), redistest.NewGate()
		isDrop := func(c redistest.Command) bool { return slices.Contains(c, record.Drop.SHA()) }
		wire := f.w.Wire(redistest.Rule{Command: "EVALSHA", Do: redistest.HoldRequest(writes)},
			redistest.Rule{Command: "EVALSHA", When: isDrop, Do: redistest.HoldRequest(drops)})
		said := make(chan *Report)
		go func() {
			r, err := Init(bg, wire.Pool(), f.options(Options{Namespace: "stock"}))
			if err != nil {
				t.Error(err)
			}
			said <- r
		}()
		<-writes.Reached()
		other := f.join(migrate.MemberConfig{Namespace: "stock.eu"})
		if r := f.init(Options{Namespace: "stock.eu"}); !r.Moved {
			t.Error(rules(r.Gate))
		}
		writes.Open()
		<-drops.Reached()
		_, end, err := m.Begin(bg, 2*leaseOfOurs) // raises the record's greatest lease
		if err != nil {
			t.Fatal(err)
		}
		end()
		drops.Open()
		r := <-said
		closed(t, r.Gate, "namespace")
		if f.w.Mini.Exists(record.Key("stock")) {
			t.Error("the record stands")
		}
		f.beats()
		if p, err := m.Phase(bg); p != migrate.Observe || other.State().Phase != migrate.Observe {
			t.Fatalf("the member acts by %v, %v", p, err)
		}
		to := Options{Namespace: "stock.eu"}
		r = f.advance(to)
		closed(t, r.Gate, "namespace")
		if what := fmt.Sprint(r.Gate); !strings.Contains(what, m.ID()+" by observe") {
			t.Error(what)
		}
		if err := m.Goodbye(bg); err != nil {
			t.Error(err)
		}
		closed(t, f.advance(to).Gate)
	})
}

// TestABridgeSaysWhatTheServerRefuses, in every step, and holds nothing by it.
func TestABridgeSaysWhatTheServerRefuses(t *testing.T) {
	for refusal, words := range map[string]string{
		redistest.NoPerm: "the user needs rights on the keys",
		"CROSSSLOT Keys in request don't hash to the same slot": "lies in another slot",
	} {
		for _, p := range []migrate.Phase{migrate.Dual, migrate.Sealed, migrate.Modern, migrate.Clean} {
			inBubble(t, func(f *fleet) {
				wire := f.w.Wire()
				b, err := migrate.New(wire.Pool(),
					migrate.Config{Phases: migrate.Fixed(p), Clock: f.w.Clock(redistest.Skew{})})
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				g, err := b.Contract().Try(bg, "a}b", leaseOfOurs)
				if err != nil {
					t.Fatal(err)
				}
				wire.Fault(redistest.Rule{Command: "EVALSHA", Times: -1, Do: redistest.Answer(refusal)})
				before := f.w.Mini.Dump()
				for what, step := range map[string]func() error{
					"take": func() error {
						_, err := b.Contract().Try(bg, "c}d", leaseOfOurs)
						return err
					},
					"renew":     func() error { _, err := g.Extend(bg, leaseOfOurs); return err },
					"give back": func() error { return g.Release(bg) },
				} {
					err := step()
					says(t, err, words)
					says(t, err, what)
				}
				if after := f.w.Mini.Dump(); after != before {
					t.Errorf("%v: \n%s\nbecame\n%s", p, before, after)
				}
				wire.Calm()
				if err := g.Release(bg); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
