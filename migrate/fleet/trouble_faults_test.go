package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
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
				gate := redistest.NewGate()
				wire := f.w.Wire(redistest.Rule{Command: "EVALSHA", Do: redistest.HoldRequest(gate)})
				said := make(chan *Report)
				go func() {
					r, err := c.slow(bg, wire.Pool(), f.options(Options{Go: true}))
					if err != nil {
						t.Error(err)
					}
					said <- r
				}()
				<-gate.Reached()
				if r, err := c.fast(bg, f.w.Pool(), f.options(Options{Go: true})); err != nil || !r.Moved {
					t.Errorf("the first: %v, closed by %q", err, rules(r.Gate))
				}
				gate.Open()
				r := <-said
				closed(t, r.Gate, "raced")
				if got := f.at(c.to); r.Moved || got.Epoch != epoch+1 {
					t.Errorf("moved %v, the record says epoch %d after %d", r.Moved, got.Epoch, epoch)
				}
			})
		})
	}
}

// TestNamespacesThatBeginAtOnceDoNotOverlap: neither saw the other's record
// before it wrote its own.
func TestNamespacesThatBeginAtOnceDoNotOverlap(t *testing.T) {
	inBubble(t, func(f *fleet) {
		gate := redistest.NewGate()
		wire := f.w.Wire(redistest.Rule{Command: "EVALSHA", Do: redistest.HoldRequest(gate)})
		said := make(chan *Report)
		go func() {
			r, err := Init(bg, wire.Pool(), f.options(Options{Namespace: "stock"}))
			if err != nil {
				t.Error(err)
			}
			said <- r
		}()
		<-gate.Reached()
		if r := f.init(Options{Namespace: "stockeu"}); !r.Moved {
			t.Error(rules(r.Gate))
		}
		gate.Open()
		r := <-said
		closed(t, r.Gate, "namespace")
		if r.Moved || f.w.Mini.Exists(record.Key("stock")) || !f.w.Mini.Exists(record.Key("stockeu")) {
			t.Errorf("moved %v, keys %q", r.Moved, f.w.Mini.Keys())
		}
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

// TestKeysOfAnotherDialectAreNamedAndHeld: a survey finds values in another
// unit, which getsetlock clients never take over.
func TestKeysOfAnotherDialectAreNamedAndHeld(t *testing.T) {
	inBubble(t, func(f *fleet) {
		crew := newCrew(f, verbCase{from: migrate.Observe})
		end := f.w.ServerNow().Add(time.Minute)
		for i, text := range []string{
			fmt.Sprint(end.Unix()), fmt.Sprintf("8f14e45f-ceea-467f-9f6f-1c2b3d4e5f60:%d", end.UnixMilli()),
			"1"} {
			crew.set(fmt.Sprintf("stock:%d", i), text)
		}
		s, err := newSurveyor(newMux(f),
			&facts{namespace: "stock", dialect: dialect.Jedis(), now: f.w.ServerNow()})
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.look(bg)
		if err != nil || v.Others != 3 || v.Stamps != 0 {
			t.Errorf("%+v (%v)", v, err)
		}
		// Of these the clients with a uuid would take our guards for nothing,
		// also where they lock by other keys.
		r := f.advance(Options{Namespace: "", Go: true})
		if closed(t, r.Gate, "dialect"); r.Moved ||
			!strings.Contains(fmt.Sprint(r.Gate.Blocks), `"stock:1"`) {
			t.Errorf("moved %v: %v", r.Moved, r.Gate.Blocks)
		}
		b, err := migrate.New(f.w.Pool(),
			migrate.Config{Phases: crew.all[0], Clock: f.w.Clock(redistest.Skew{})})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		f.w.Pass(5 * time.Minute) // longer than any lease
		for i := range 3 {
			if _, err := b.Contract().Try(bg, fmt.Sprintf("stock:%d", i), leaseOfOurs); !errors.Is(err,
				lock.ErrHeld) {
				t.Errorf("stock:%d: %v", i, err)
			}
		}
	})
}
