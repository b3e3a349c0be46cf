// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

func world(make func(*Store) backend.Store) func(*testing.T) *World {
	return func(t *testing.T) *World {
		s := NewStore(lock.Machine)
		return &World{
			Backend: func() backend.Store { return make(s) },
			Pass:    time.Sleep,
			TTL:     10 * time.Second,
			Seize:   func(key string) { s.Seize(key, "thief", time.Hour) },
		}
	}
}

func TestStorePassesItsOwnKit(t *testing.T) {
	t.Run("plain", func(t *testing.T) { RunInBubbles(t, Traits{}, world((*Store).Backend)) })
	t.Run("full", func(t *testing.T) { RunInBubbles(t, Traits{}, world((*Store).Full)) })
	t.Run("sharing", func(t *testing.T) { RunInBubbles(t, Traits{}, world((*Store).Sharing)) })
	t.Run("paced", func(t *testing.T) {
		RunInBubbles(t, Traits{}, world(
			func(s *Store) backend.Store { return s.Paced(5 * time.Millisecond) }))
	})
}

// sessions is a world whose backends live as long as a session of ttl.
func sessions(ttl time.Duration, forgetful bool) func(*testing.T) *World {
	return func(t *testing.T) *World {
		w := world(nil)(t)
		s := NewStore(lock.Machine)
		w.Backend = func() backend.Store {
			b, _ := s.Session(ttl)
			b.Contract().(*session).forgetful = forgetful
			return b
		}
		w.Seize = func(key string) { s.Seize(key, "thief", time.Hour) }
		w.Cut = func(b backend.Store) func() { return b.Contract().(*session).Cut() }
		return w
	}
}

func TestSessionPassesTheKitWithItsTrait(t *testing.T) {
	RunInBubbles(t, Traits{Session: true}, sessions(10*time.Second, false))
}

// A session that forgets what it could not give back keeps both keys for as
// long as it lives.
func TestKitFindsAForgetfulSession(t *testing.T) {
	if os.Getenv("LOCKTEST_FORGETFUL") != "" {
		RunInBubbles(t, Traits{Session: true}, sessions(10*time.Second, true))
		return
	}
	mustFail(t, "TestKitFindsAForgetfulSession", "CutSessionLeavesNothing", "LOCKTEST_FORGETFUL=1")
}

// Keys of this store free themselves.
func TestKitFindsAnUntrueSession(t *testing.T) {
	if os.Getenv("LOCKTEST_UNTRUE") != "" {
		RunInBubbles(t, Traits{Session: true}, func(t *testing.T) *World {
			w := world((*Store).Full)(t)
			w.Cut = func(b backend.Store) func() {
				s := b.Contract().(*full).Store
				s.Order(Fault{Op: "try", Err: errCut, After: true})
				s.Order(Fault{Op: "release", Err: errCut})
				return s.Mend
			}
			return w
		})
		return
	}
	mustFail(t, "TestKitFindsAnUntrueSession", "CutSessionLeavesNothing", "LOCKTEST_UNTRUE=1")
}

// broken breaks one promise of a correct backend.
type broken struct {
	*full
	how string
}

func (b broken) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	switch b.how {
	case "dead context":
		ctx = context.WithoutCancel(ctx)
	case "waits":
		g, err := b.full.Try(ctx, key, ttl)
		if errors.Is(err, lock.ErrHeld) {
			return g, context.DeadlineExceeded
		}
		return b.wrap(g, err)
	case "barging":
		b.Seize(key, "", 0)
	case "beside":
		if g, err := b.full.Try(ctx, key, ttl); err != nil {
			return &grant{}, err
		} else {
			return b.wrap(g, nil)
		}
	}
	return b.wrap(b.full.Try(ctx, key, ttl))
}

func (b broken) wrap(g backend.Grant, err error) (backend.Grant, error) {
	if err != nil {
		return nil, err
	}
	switch b.how {
	case "same token":
		g.(*grant).token = "always the same"
	case "fence":
		g.(*grant).fence = 7
	case "late term":
		g.(*grant).term.Sent.Elapsed += time.Hour
	case "short":
		b.Seize(g.(*grant).key, g.Token(), time.Second)
	case "immortal":
		b.Seize(g.(*grant).key, g.Token(), time.Hour)
	}
	return brokenGrant{g.(*grant), b.how}, nil
}

// Enter returns a place whose grants count as given, and from too late.
func (b broken) Enter(ctx context.Context, key string) (backend.Place, error) {
	p, err := b.full.Enter(ctx, key)
	if err != nil || b.how != "young gift" {
		return p, err
	}
	return givenPlace{p}, nil
}

type givenPlace struct{ backend.Place }

func (p givenPlace) Try(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	g, err := p.Place.Try(ctx, ttl)
	if err == nil {
		t := &g.(*grant).term
		t.Given, t.Sent.Elapsed = true, t.Sent.Elapsed+time.Millisecond
	}
	return g, err
}

func (b broken) ExtendAll(ctx context.Context, gs []backend.Grant, ttl time.Duration) ([]backend.Term,
	[]error) {
	terms, errs := b.full.ExtendAll(ctx, gs, ttl)
	if b.how == "watch until renewal" {
		for _, g := range gs {
			b.full.Unwatch(g)
		}
	}
	if b.how == "batch" {
		errs = make([]error, len(gs))
	}
	return terms, errs
}

func (b broken) Watch(ctx context.Context, gs []backend.Grant, holders []interface{ Touched() }) []error {
	if b.how == "blind watch" {
		return make([]error, len(gs))
	}
	return b.full.Watch(ctx, gs, holders)
}

func (b broken) ReleaseIn(ctx context.Context, g backend.Grant, rest time.Duration) error {
	switch b.how {
	case "no floor":
		return g.Release(ctx)
	case "whole floor":
		rest = time.Hour
	case "blind floor":
		b.Seize(bare(g).key, g.Token(), rest)
	}
	return b.full.ReleaseIn(ctx, g, rest)
}

type brokenGrant struct {
	*grant
	how string
}

func (g brokenGrant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	if g.how == "extend" {
		return backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl}, nil
	}
	return g.grant.Extend(ctx, ttl)
}

func (g brokenGrant) Release(ctx context.Context) error {
	switch g.how {
	case "release by flag":
		g.store.Seize(g.key, "", 0)
	case "no release":
		return nil
	}
	return g.grant.Release(ctx)
}

// mutants maps each way to be wrong to the test that must find it.
var mutants = map[string]string{
	"dead context":        "DeadContextTakesNothing",
	"waits":               "TryReportsAHeldKeyAtOnce",
	"barging":             "OneGrantAmongMany",
	"beside":              "TryReportsAHeldKeyAtOnce",
	"same token":          "TokensDiffer",
	"fence":               "FencesIncrease",
	"late term":           "TermCountsFromBeforeTheWrite",
	"short":               "AbandonedKeyFreesItself",
	"immortal":            "AbandonedKeyFreesItself",
	"young gift":          "QueueServesInOrder",
	"batch":               "BatchReportsEachGrantsOutcome",
	"no floor":            "KeptKeyStaysTaken",
	"whole floor":         "KeptKeyStaysTaken",
	"blind floor":         "KeptKeyStaysTaken",
	"blind watch":         "WatchReportsATouch",
	"watch until renewal": "WatchOutlivesARenewal",
	"extend":              "SeizedGrantIsLost",
	"release by flag":     "LateReleaseSparesTheNextHolder",
	"no release":          "ReleasedKeyIsFree",
}

// TestKitFindsWrongBackends runs the kit on each mutant in a process of its
// own. The kit must fail in the test that the mutant names. If that test lets
// time pass, it must fail on a slow machine too.
func TestKitFindsWrongBackends(t *testing.T) {
	if how := os.Getenv("LOCKTEST_MUTANT"); how != "" {
		stall, _ := time.ParseDuration(os.Getenv("LOCKTEST_STALL"))
		RunInBubbles(t, Traits{}, stalling(stall,
			func(s *Store) backend.Store { return backend.Of(broken{&full{plain{s}}, how}) }))
		return
	}
	for how, name := range mutants {
		stalls := []string{""}
		if slices.Contains(passing, name) {
			stalls = append(stalls, "2s")
		}
		for _, stall := range stalls {
			t.Run(strings.ReplaceAll(how, " ", "-")+stall, func(t *testing.T) {
				t.Parallel()
				mustFail(t, "TestKitFindsWrongBackends", name, "LOCKTEST_MUTANT="+how,
					"LOCKTEST_STALL="+stall)
			})
		}
	}
}

// mustFail runs one test of a kit in a process with these variables, and
// expects it to fail.
func mustFail(t *testing.T, kit, name string, vars ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+kit+"$/^"+name+"$")
	cmd.Env = append(os.Environ(), vars...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("%s did not find the mutant", name)
	} else if !strings.Contains(string(out), "--- FAIL: "+kit+"/"+name) {
		t.Errorf("the kit failed in another test:\n%s", out)
	}
}

// stalling is a world whose machine stalls for the given time whenever time
// passes. Without a stall it runs in its bubble's time.
func stalling(stall time.Duration, make func(*Store) backend.Store) func(*testing.T) *World {
	return func(t *testing.T) *World {
		w := world(make)(t)
		if stall > 0 {
			w.RealTime, w.TTL = true, time.Second
			w.Pass = func(d time.Duration) { <-time.After(d + stall) }
		}
		return w
	}
}

// A stall of 2 s is longer than the first TTL, and within a quarter of a later
// one.
func TestKitExcusesASlowMachine(t *testing.T) {
	RunInBubbles(t, Traits{}, stalling(2*time.Second, (*Store).Full))
}

// A stall of a minute is longer than any TTL: the kit must give up at last.
func TestKitFailsIfTheMachineIsTooSlowForAnyTTL(t *testing.T) {
	if os.Getenv("LOCKTEST_STALL") != "" {
		RunInBubbles(t, Traits{}, stalling(time.Minute, (*Store).Full))
		return
	}
	for _, name := range []string{"AbandonedKeyFreesItself", "ExtendKeepsTheKey",
		"BatchReportsEachGrantsOutcome"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, "TestKitFailsIfTheMachineIsTooSlowForAnyTTL", name, "LOCKTEST_STALL=1m")
		})
	}
}

func TestKitFindsUntrueTraits(t *testing.T) {
	traits := map[string]Traits{
		"ExtendKeepsTheKey":              {NotRenewable: true},
		"LateReleaseSparesTheNextHolder": {LateRelease: true},
		"ReleaseWakes":                   {CannotWake: true},
		"TokensDiffer":                   {SameTokens: true},
	}
	if name := os.Getenv("LOCKTEST_TRAIT"); name != "" {
		RunInBubbles(t, traits[name], world((*Store).Full))
		return
	}
	for name := range traits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, "TestKitFindsUntrueTraits", name, "LOCKTEST_TRAIT="+name)
		})
	}
}

var errAway = errors.New("connection refused")

// A Fault without an Op is a server that is away: no call reaches the store.
func TestFaultWithoutOpFailsEveryCall(t *testing.T) {
	ctx := context.Background()
	s := NewStore(lock.Machine)
	b := &full{plain{s}}
	held, err := b.Try(ctx, "held", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	p, err := b.Enter(ctx, "held")
	if err != nil {
		t.Fatal(err)
	}
	s.Order(Fault{Err: errAway})
	calls := map[string]func() error{
		"try":     func() error { _, err := b.Try(ctx, "free", time.Minute); return err },
		"extend":  func() error { _, err := held.Extend(ctx, time.Minute); return err },
		"release": func() error { return held.Release(ctx) },
		"enter":   func() error { _, err := b.Enter(ctx, "held"); return err },
		"leave":   func() error { return p.Leave(ctx) },
		"await":   func() error { _, _, err := b.Await(ctx, "held", func() {}); return err },
		"watch":   func() error { return b.watchOne(ctx, held.(*grant), func() {}) },
	}
	for _, op := range ops {
		if err := calls[op](); !errors.Is(err, errAway) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if s.Holder("free") != "" || s.Holder("held") != held.Token() {
		t.Error("a call reached the store")
	}
	s.Mend()
	if err := held.Release(ctx); err != nil {
		t.Errorf("after Mend: %v", err)
	}
}

// A fault that never applies would make a test pass that tests nothing.
func TestOrderPanicsAtAFaultWithoutEffect(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		names string
	}{{Fault{Op: "renew", Err: errAway}, `"renew"`}, {Fault{Passes: true}, "Fault.Err"}} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, c.names) {
					t.Errorf("Order(%v) said %q", c.fault, said)
				}
			}()
			NewStore(lock.Machine).Order(c.fault)
		}()
	}
}

// A refused renewal is tried again. If the store answers that the key is not
// the grant's, the lease ends at once.
func TestFaultWithErrLostEndsTheLeaseAtOnce(t *testing.T) {
	for _, c := range []struct {
		err  error
		held bool // after the first renewal
	}{{errAway, true}, {lock.ErrLost, false}} {
		synctest.Test(t, func(t *testing.T) {
			s := NewStore(lock.Machine)
			client, err := lock.New(s.Full(), lock.Config{TTL: 30 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			lease, err := client.Acquire(context.Background(), "k")
			if err != nil {
				t.Fatal(err)
			}
			s.Order(Fault{Op: "extend", Times: 1, Err: c.err})
			time.Sleep(11 * time.Second)
			synctest.Wait()
			if held := lease.Err() == nil; held != c.held {
				t.Errorf("a renewal that ended with %v: held %t", c.err, held)
			}
			_ = lease.Release()
			if err := client.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// An Acquire outlasts trouble that passes, and ends at once at trouble of which
// it knows nothing.
func TestAcquireWaitsWhileTheStoreIsAway(t *testing.T) {
	for _, passes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := NewStore(lock.Machine)
			client, err := lock.New(s.Full(), lock.Config{Wait: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			s.Order(Fault{Err: errAway, Passes: passes})
			time.AfterFunc(5*time.Second, s.Mend)
			lease, err := client.Acquire(context.Background(), "k")
			if taken := err == nil; taken != passes || err != nil && !errors.Is(err, errAway) {
				t.Errorf("trouble that passes %t: taken %t, %v", passes, taken, err)
			}
			if err == nil {
				_ = lease.Release()
			}
			if err := client.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
