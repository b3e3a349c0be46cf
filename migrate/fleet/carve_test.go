package fleet

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

const eu = "order:eu:" // the namespace that most of these tests carve out of the empty one

// heldFor is a lease that outlives some heartbeats.
const heldFor = 50 * time.Second

// program is a service: its member and its bridge.
type program struct {
	*migrate.Member
	bridge *migrate.Bridge
}

func doMerge(ctx context.Context, f *fleet, o Options) (*Report, error) {
	return Merge(ctx, f.w.Pool(), f.options(o))
}

// program joins with a bridge, whose fencing numbers have the namespace's
// counter.
func (f *fleet) program(cfg migrate.MemberConfig) *program {
	f.t.Helper()
	m, err := migrate.Join(bg, f.w.Pool(), f.timed(cfg))
	if err != nil {
		f.t.Fatal(err)
	}
	b, err := migrate.New(f.w.Pool(), migrate.Config{
		Phases: m, Terms: dialect.Terms{Lease: oldLease}, Fence: true, Namespace: cfg.Namespace,
		Clock: f.w.Clock(redistest.Skew{}),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = b.Close(); _ = m.Leave() })
	if err := m.Refresh(bg); err != nil { // its scripts run
		f.t.Fatal(err)
	}
	return &program{m, b}
}

// takes takes a lock and returns its grant.
func (f *fleet) takes(p *program, key string) lock.Grant {
	f.t.Helper()
	g, err := p.bridge.Try(bg, key, heldFor)
	if err != nil {
		f.t.Fatalf("%s: %v", key, err)
	}
	return g
}

func (f *fleet) release(g lock.Grant) {
	f.t.Helper()
	if err := g.Release(bg); err != nil {
		f.t.Error(err)
	}
}

// recordOf reads a record.
func (f *fleet) recordOf(namespace string) migrate.Record {
	f.t.Helper()
	text, err := f.w.Mini.Get(record.Key(namespace))
	if err != nil {
		f.t.Fatalf("no record of %q: %v", namespace, err)
	}
	r, err := migrate.ParseRecord(text)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// passes takes a step that must be open.
func (f *fleet) passes(v verb, o Options) *Report {
	f.t.Helper()
	o.Go = true
	r := f.must(v, o)
	if !r.Moved {
		f.t.Fatalf("namespace %q does not move: %v", o.Namespace, r.Gate.Blocks)
	}
	return r
}

// refused fails unless exactly these rules refuse a step.
func (f *fleet) refused(v verb, o Options, want ...string) {
	f.t.Helper()
	o.Go = true
	r := f.must(v, o)
	if got := rules(r.Gate); r.Moved || !slices.Equal(got, want) {
		f.t.Errorf("namespace %q: moved %v, closed by %q, not by %q: %v", o.Namespace, r.Moved, got, want,
			r.Gate.Blocks)
	}
}

// TestCarvingInheritsThePhaseAndEachStepsAlone goes the whole way: a lease of
// before keeps the longer namespace where it is, and then either steps without
// the other.
func TestCarvingInheritsThePhaseAndEachStepsAlone(t *testing.T) {
	inBubble(t, func(f *fleet) {
		a, b := f.program(migrate.MemberConfig{Also: []string{eu}}),
			f.program(migrate.MemberConfig{Also: []string{eu}})
		f.to(migrate.Dual)
		held := f.takes(a, eu+"1")
		before := f.recordOf("")

		if r := f.must(doInit, Options{Namespace: eu}); r.Moved || !r.Gate.Open {
			t.Errorf("without --go: moved %v, %v", r.Moved, r.Gate.Blocks)
		}
		r := f.passes(doInit, Options{Namespace: eu})
		shorter, longer := f.recordOf(""), f.recordOf(eu)
		if r.Phase != migrate.Dual || longer.Phase != migrate.Dual || longer.Dialect != before.Dialect ||
			longer.Fleet != before.Fleet {
			t.Errorf("it begins with %+v", longer)
		}
		if !slices.Equal(shorter.Except, []string{eu}) || shorter.Epoch != before.Epoch+1 ||
			longer.From != (migrate.Origin{Epoch: shorter.Epoch}) {
			t.Errorf("%q and %q", shorter, longer)
		}

		f.refused(doAdvance, Options{Namespace: eu}, "carved", "phase") // nobody has followed
		f.beats()
		f.refused(doAdvance, Options{Namespace: eu}, "carved") // a lease of before runs
		if _, err := held.Extend(bg, heldFor); err != nil {
			t.Error("the lease of before is not renewed:", err)
		}
		if _, err := a.bridge.Pass(bg, held, heldFor); !errors.Is(err, lock.ErrNotPassed) {
			t.Errorf("the lease of before is handed over: %v", err)
		}
		f.release(held)
		f.beats()
		f.passes(doAdvance, Options{Namespace: eu})
		f.beats()
		if got := a.State(); got.Phase != migrate.Dual || got.Also[eu] != 0 {
			t.Errorf("the shorter one went along: %+v", got)
		}

		g := f.takes(b, eu+"1")
		f.beats()
		if s := b.State(); s.Also[eu] != 1 || len(s.Leases) != 0 {
			t.Errorf("the lease is counted as %+v", s)
		}
		f.release(g)
		if !f.w.Mini.Exists(eu + "1") {
			t.Error("sealed left no tombstone on the key of the longer namespace")
		}
		f.release(f.takes(b, "stock"))
		if f.w.Mini.Exists("stock") {
			t.Error("dual left a tombstone on a key of the shorter namespace")
		}
		f.beats()
		if r := f.passes(doBack, Options{}); r.Phase != migrate.Observe {
			t.Errorf("%v", r.Phase)
		}
		if got := f.recordOf(""); !got.Lists(eu) {
			t.Error("a step of the shorter one forgot what was carved out")
		}
		if got := f.recordOf(eu); got.Phase != migrate.Sealed {
			t.Errorf("a step of the shorter one moved the longer one to %v", got.Phase)
		}
	})
}

func TestMemberThatDoesNotNameItBlocksACarving(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.program(migrate.MemberConfig{Also: []string{eu}})
		silent := f.program(migrate.MemberConfig{})
		f.to(migrate.Observe)
		f.refused(doInit, Options{Namespace: eu}, "also")
		if f.w.Mini.Exists(record.Key(eu)) {
			t.Error("a record was written")
		}
		if err := silent.Leave(); err != nil { // killed: it may come back
			t.Fatal(err)
		}
		f.w.Pass(time.Minute)
		f.refused(doInit, Options{Namespace: eu}, "also")
		f.w.Pass(time.Hour)
		f.passes(doAdvance, Options{Forget: []string{silent.ID()}})
		f.passes(doInit, Options{Namespace: eu})
	})
}

func TestLaterMemberWithoutItRefusesItsKeys(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.program(migrate.MemberConfig{Also: []string{eu}})
		f.to(migrate.Observe)
		f.passes(doInit, Options{Namespace: eu})
		late := f.program(migrate.MemberConfig{})
		_, err := late.bridge.Try(bg, eu+"1", leaseOfOurs)
		if !errors.Is(err, migrate.ErrOutside) || late.Covers(eu+"1") {
			t.Errorf("%v", err)
		}
		says(t, err, "--also")
		f.release(f.takes(late, "order:us:1"))
		alone := f.program(migrate.MemberConfig{Namespace: eu})
		f.release(f.takes(alone, eu+"1"))
	})
}

// TestLaggingMemberKeepsTheCarvedNamespace: clean and observe on one key would
// allow two holders. The lagging member takes the key by the earlier record, so
// the longer namespace may not leave the phase that both had.
func TestLaggingMemberKeepsTheCarvedNamespace(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.program(migrate.MemberConfig{Also: []string{eu}})
		lags := f.program(migrate.MemberConfig{
			Also: []string{eu}, Clock: sleepy{f.w.Clock(redistest.Skew{})}, Every: time.Hour})
		f.to(migrate.Observe)
		if err := lags.Refresh(bg); err != nil {
			t.Fatal(err)
		}
		// the server knows of its leases, so that no attempt asks for the
		// record
		f.release(f.takes(lags, eu+"1"))
		f.passes(doInit, Options{Namespace: eu})
		f.beats()
		g := f.takes(lags, eu+"1")
		for range 3 {
			f.refused(doAdvance, Options{Namespace: eu}, "carved", "phase")
		}
		if s := lags.State(); s.Oldest == 0 || s.Oldest >= f.recordOf(eu).From.Epoch {
			t.Errorf("its lease is not of before: %+v", s)
		}
		// It acknowledges, and its lease goes on.
		if err := lags.Refresh(bg); err != nil {
			t.Fatal(err)
		}
		f.beats()
		f.refused(doAdvance, Options{Namespace: eu}, "carved")
		f.release(g)
		if err := lags.Refresh(bg); err != nil {
			t.Fatal(err)
		}
		f.passes(doAdvance, Options{Namespace: eu})
	})
}

// TestUnlistedRecordCountsForNobody: the second write of a carving failed. The
// shorter one takes no step meanwhile, and the next init writes the phase anew.
func TestUnlistedRecordCountsForNobody(t *testing.T) {
	inBubble(t, func(f *fleet) {
		a := f.program(migrate.MemberConfig{Also: []string{eu}})
		f.to(migrate.Dual)
		lists := func(c redistest.Command) bool {
			return c.Is("EVALSHA") && c[2] == "2" && c[3] == record.Key("")
		}
		wire := f.w.Wire(redistest.Rule{When: lists, Nth: 1, Do: redistest.CutBefore})
		_, err := Init(bg, wire.Pool(), f.options(Options{Namespace: eu, Go: true}))
		if err == nil || f.recordOf("").Lists(eu) || f.recordOf(eu).Phase != migrate.Dual {
			t.Fatalf("not cut between the two writes: %v", err)
		}
		f.beats()
		alone := f.program(migrate.MemberConfig{Namespace: eu})
		if _, err := alone.bridge.Try(bg, eu+"1", leaseOfOurs); !errors.Is(err, migrate.ErrNoPhase) {
			t.Errorf("by an unlisted record: %v", err)
		}
		g := f.takes(a, eu+"1")
		if s := a.State(); s.Also[eu] != 0 || s.Leases[migrate.Dual] != 1 {
			t.Errorf("counted as %+v", s)
		}
		f.release(g)
		f.beats()
		f.refused(doAdvance, Options{Namespace: eu}, "carved", "phase")
		f.refused(doAdvance, Options{}, "namespace")
		f.passes(doInit, Options{Namespace: eu})
		f.beats()
		f.release(f.takes(alone, eu+"1"))
		f.passes(doAdvance, Options{})
	})
}

// TestTwoOperatorsCarveAtOnce: at each command of the one, the other carves the
// same namespace, or another one.
func TestTwoOperatorsCarveAtOnce(t *testing.T) {
	for _, second := range []string{eu, "order:us:"} {
		for nth, sent := 1, 1; nth <= sent; nth += step {
			inBubble(t, func(f *fleet) {
				f.program(migrate.MemberConfig{Also: []string{eu, "order:us:"}})
				f.to(migrate.Dual)
				gate := redistest.NewGate()
				sent = 0
				wire := f.w.Wire(redistest.Rule{
					Nth: nth, Do: redistest.HoldRequest(gate), When: func(redistest.Command) bool {
						sent++
						return true
					}})
				done := make(chan error, 1)
				go func() {
					_, err := Init(bg, wire.Pool(), f.options(Options{Namespace: eu, Go: true}))
					done <- err
				}()
				over := make(chan struct{})
				go func() {
					if err := <-done; err != nil {
						t.Error(err)
					}
					close(over)
				}()
				select {
				case <-gate.Reached():
				case <-over:
				}
				f.must(doInit, Options{Namespace: second, Go: true})
				gate.Open()
				<-over
				shorter := f.recordOf("")
				for _, namespace := range []string{eu, second} {
					if !shorter.Lists(namespace) {
						// it lost the race, and is done by a second call
						f.passes(doInit, Options{Namespace: namespace})
						shorter = f.recordOf("")
					}
					r := f.recordOf(namespace)
					if !shorter.Lists(namespace) || r.Phase != migrate.Dual || r.From.Epoch > shorter.Epoch {
						t.Errorf("command %d: %q, and %q of %q", nth, shorter, r, namespace)
					}
				}
				f.beats()
				for _, namespace := range []string{eu, second} {
					if f.recordOf(namespace).Phase == migrate.Dual {
						f.passes(doAdvance, Options{Namespace: namespace})
					}
				}
			})
		}
	}
}

// TestMergeGivesTheKeysBack in equal phases alone, and when the last lease
// under the longer record has ended.
func TestMergeGivesTheKeysBack(t *testing.T) {
	inBubble(t, func(f *fleet) {
		a := f.program(migrate.MemberConfig{Also: []string{eu}})
		f.to(migrate.Observe)
		f.refused(doMerge, Options{}, "carved")
		f.passes(doInit, Options{Namespace: eu})
		f.beats()
		f.passes(doAdvance, Options{Namespace: eu})
		f.beats()
		f.refused(doMerge, Options{Namespace: eu}, "phase")
		f.passes(doAdvance, Options{})
		f.beats()
		alone := f.program(migrate.MemberConfig{Namespace: eu})
		f.refused(doMerge, Options{Namespace: eu}, "members")
		if err := alone.Goodbye(bg); err != nil {
			t.Fatal(err)
		}
		g := f.takes(a, eu+"1")
		f.beats()
		f.must(doMerge, Options{Namespace: eu})
		if !f.recordOf("").Lists(eu) {
			t.Error("merged without --go")
		}
		f.must(doMerge, Options{Namespace: eu, Go: true})
		if f.recordOf("").Lists(eu) {
			t.Fatal("it is still listed")
		}
		f.beats()
		f.refused(doMerge, Options{Namespace: eu}, "leases")
		f.refused(doAdvance, Options{}, "namespace")
		f.release(f.takes(a, eu+"2")) // by the shorter one's record
		if _, err := g.Extend(bg, heldFor); err != nil {
			t.Error("the lease of before is not renewed:", err)
		}
		f.release(g)
		f.beats()
		if r := f.passes(doMerge, Options{Namespace: eu}); r.Phase != migrate.NoPhase || !r.Over {
			t.Errorf("%+v", r)
		}
		if f.w.Mini.Exists(record.Key(eu)) {
			t.Error("its record is left")
		}
		f.beats()
		f.passes(doAdvance, Options{})
		f.beats()
		f.passes(doInit, Options{Namespace: eu}) // and carved out again, by another phase
		f.beats()
		f.release(f.takes(a, eu+"3"))
		if !f.w.Mini.Exists(eu + "3") {
			t.Error("it did not begin with sealed")
		}
	})
}

// TestGivenBackNamespaceHasNoLoneMembers: a program that joined it alone takes
// no lock any more as soon as it looks.
func TestGivenBackNamespaceHasNoLoneMembers(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.program(migrate.MemberConfig{Also: []string{eu}})
		f.to(migrate.Observe)
		f.passes(doInit, Options{Namespace: eu})
		f.beats()
		f.must(doMerge, Options{Namespace: eu, Go: true})
		alone := f.program(migrate.MemberConfig{Namespace: eu})
		if _, err := alone.bridge.Try(bg, eu+"1", leaseOfOurs); !errors.Is(err, migrate.ErrNoPhase) {
			t.Errorf("%v", err)
		}
	})
}

// TestSweepLeavesTheTombstonesOfTheCarvedNamespace: of the shorter one, back
// deletes its own.
func TestSweepLeavesTheTombstonesOfTheCarvedNamespace(t *testing.T) {
	inBubble(t, func(f *fleet) {
		a := f.program(migrate.MemberConfig{Also: []string{eu}})
		f.to(migrate.Sealed)
		f.passes(doInit, Options{Namespace: eu})
		f.beats()
		f.release(f.takes(a, "stock"))
		f.release(f.takes(a, eu+"1"))
		f.beats()
		f.passes(doBack, Options{Wait: time.Minute})
		if f.w.Mini.Exists("stock") || !f.w.Mini.Exists(eu+"1") {
			t.Errorf("left: %q", f.w.Mini.Keys())
		}
	})
}

// TestCarvingDuringASweepEndsIt: the keys that it would delete may be another
// namespace's.
func TestCarvingDuringASweepEndsIt(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.to(migrate.Observe)
		f.put(eu+"1", nil)
		s, err := newSurveyor(newMux(f), "", dialect.Jedis(), f.w.ServerNow())
		if err != nil {
			t.Fatal(err)
		}
		s.goBy(stored{Record: f.recordOf(""), bytes: f.recordOf("").String()})
		next := f.recordOf("")
		next.Epoch, next.Except = next.Epoch+1, []string{eu}
		f.recorded(next)
		if done, err := s.sweep(bg, true); !errors.Is(err, errRaced) || done.Deleted != 0 {
			t.Errorf("%+v, %v", done, err)
		}
	})
}

// TestNamespacesOfOddNamesAreCarved with all that is escaped in names of keys,
// and one out of a carved one.
func TestNamespacesOfOddNamesAreCarved(t *testing.T) {
	const odd, odder = "{a%3A}:,", "{a%3A}:,-"
	inBubble(t, func(f *fleet) {
		a := f.program(migrate.MemberConfig{Namespace: "{", Also: []string{odd, odder}})
		f.passes(doInit, Options{Namespace: "{"})
		f.beats()
		f.passes(doInit, Options{Namespace: odd})
		f.refused(doInit, Options{Namespace: odder}, "carved")
		f.refused(doInit, Options{Namespace: "{a"}, "also", "namespace")
		f.beats()
		f.passes(doInit, Options{Namespace: odder})
		f.beats()
		for namespace, key := range map[string]string{"{": "{b}", odd: odd + "1", odder: odder + "1"} {
			g := f.takes(a, key)
			s := a.State()
			if got := map[string]int{
				"{": s.Leases[migrate.Observe], odd: s.Also[odd],
				odder: s.Also[odder]}; got[namespace] != 1 || got["{"]+got[odd]+got[odder] != 1 {
				t.Errorf("%q is counted as %v", key, got)
			}
			f.release(g)
		}
		f.beats()
		f.passes(doAdvance, Options{Namespace: odder})
		f.refused(doMerge, Options{Namespace: odd}, "namespace")
	})
}

// TestFencingNumbersOfACarvedNamespaceGoOn, for a program that also names the
// namespace and for one that joined it alone. The server's clock was set back,
// so that only the counter keeps numbers apart.
func TestFencingNumbersOfACarvedNamespaceGoOn(t *testing.T) {
	inBubble(t, func(f *fleet) {
		a := f.program(migrate.MemberConfig{Also: []string{eu}})
		f.to(migrate.Observe)
		number := func(p *program) int64 {
			g := f.takes(p, eu+"1")
			defer f.release(g)
			return g.(lock.Fenced).Fence()
		}
		last := number(a)
		f.w.StepServer(-24 * time.Hour)
		f.passes(doInit, Options{Namespace: eu})
		f.w.Pass(time.Minute)
		alone := f.program(migrate.MemberConfig{Namespace: eu})
		for range 3 {
			for _, p := range []*program{a, alone} {
				if n := number(p); n <= last {
					t.Errorf("%d after %d", n, last)
				} else {
					last = n
				}
			}
		}
		if f.w.Mini.Exists("gsl:fence:order%3Aeu%3A") {
			t.Error("a second counter")
		}
	})
}

// TestLostRecordOfTheShorterListsWhatWasCarved as the longer record and the
// members say.
func TestLostRecordOfTheShorterListsWhatWasCarved(t *testing.T) {
	for name, lose := range map[string]func(f *fleet){
		"it alone": func(f *fleet) { f.w.Mini.Del(record.Key("")) },
		"both":     func(f *fleet) { f.w.Mini.Del(record.Key("")); f.w.Mini.Del(record.Key(eu)) },
		"longer":   func(f *fleet) { f.w.Mini.Del(record.Key(eu)) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fleet) {
				a := f.program(migrate.MemberConfig{Also: []string{eu}})
				f.to(migrate.Observe)
				f.passes(doInit, Options{Namespace: eu})
				f.beats()
				f.passes(doAdvance, Options{Namespace: eu})
				f.beats()
				lose(f)
				f.beats()
				if !f.w.Mini.Exists(record.Key("")) {
					f.must(doInit, Options{})
				}
				for range 4 {
					if !f.w.Mini.Exists(record.Key(eu)) {
						r := f.must(doInit, Options{Namespace: eu, Go: true})
						f.w.Pass(r.Gate.Wait + time.Second) // leases may run of members that were lost
					}
				}
				if r := f.recordOf(""); r.Phase != migrate.Observe || !r.Lists(eu) {
					t.Errorf("%q", r)
				}
				if r := f.recordOf(eu); r.Phase != migrate.Dual {
					t.Errorf("%q", r)
				}
				f.beats()
				g := f.takes(a, eu+"1")
				if s := a.State(); s.Also[eu] != 1 {
					t.Errorf("%+v", s)
				}
				f.release(g)
				for _, namespace := range []string{"", eu} {
					r := f.must(doAdvance, Options{Namespace: namespace})
					f.w.Pass(r.Gate.Wait + time.Second)
					f.beats()
				}
				f.passes(doAdvance, Options{Namespace: eu})
				f.passes(doAdvance, Options{})
			})
		})
	}
}

// TestMembersBridgeRunsItsScripts: no lock of a user may lie under "gsl:", and
// a member's probe does.
func TestMembersBridgeRunsItsScripts(t *testing.T) {
	inBubble(t, func(f *fleet) {
		p := f.program(migrate.MemberConfig{Namespace: "order:"})
		if got := p.State().Probe; got != record.ProbeOK {
			t.Error(got)
		}
	})
}

// TestWatcherLeavesOutWhatWasCarved and begins anew when that changes. A window
// in which keys were not watched proves nothing when they were given back.
func TestWatcherLeavesOutWhatWasCarved(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.program(migrate.MemberConfig{Also: []string{eu}})
		f.to(migrate.Dual)
		var watches [][]string
		err := WatchClients(bg, f.w.Pool(),
			ObserverConfig{watch: func(ctx context.Context, _ *redis.Pool, c audit.Config) (*audit.Result,
				error) {
				if watches = append(watches, c.Except); len(watches) == 1 {
					f.passes(doInit, Options{Namespace: eu})
				}
				now := f.w.ServerNow()
				c.Seen(watched(now.Add(-needed), now, nil))
				if len(watches) == 1 {
					<-ctx.Done()
				}
				f.w.Pass(time.Millisecond)
				return nil, nil
			}})
		if err != nil || !slices.EqualFunc(watches, [][]string{nil, {eu}}, slices.Equal) {
			t.Fatalf("watched without %q: %v", watches, err)
		}
		f.beats()
		o := f.options(Options{})
		o.Claims.Gone, o.Claims.Idle = false, needed
		gate := func(want ...string) {
			t.Helper()
			r, err := Advance(bg, f.w.Pool(), o)
			if err != nil {
				t.Fatal(err)
			}
			closed(t, r.Gate, want...)
		}
		gate()
		f.passes(doMerge, Options{Namespace: eu, Wait: time.Minute})
		f.beats()
		gate("window")
	})
}
