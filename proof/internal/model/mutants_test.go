// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
)

// beside is a fleet at the bounds that the rules allow. Old clients' jobs last
// as long as honesty permits. Getsetlock clients have the longest lease of the
// lease rule, and their jobs stop as late as trust allows. They do not know how
// far clocks are from the server's, so they take over by a second look.
func beside(d dialect.Dialect, old, ours int, p Phase) Scenario {
	sc := Scenario{Olds: Olds{Dialect: d, Old: old, Lease: 5, Gap: 1, Reply: 1, Ahead: 1}}
	bound := 5
	if d.HasTakeover() {
		bound = longestJob(d, sc.Lease, sc.Gap, sc.Behind+sc.Ahead)
	}
	sc.Job = bound
	sc.Ours = Ours{Clients: ours, Phase: p, TTL: bound, Margin: 1, Stop: 1,
		TakeoverMargin: sc.Behind + sc.Ahead}
	if d.OrMine {
		sc.Ours.Settle = sc.Gap + 1
	}
	return sc
}

// mutant is a scenario that is safe with the full rules, and one change that
// must make it unsafe.
type mutant struct {
	name   string
	sc     Scenario
	change func(*Scenario)
	events int // events of the shortest trace; 0: only the file in testdata/traces says it
}

func without(r Rule) func(*Scenario) { return func(sc *Scenario) { sc.Ours.Break |= r } }

func changed(sc Scenario, change func(*Scenario)) Scenario {
	change(&sc)
	return sc
}

func checkMutants(t *testing.T, mutants []mutant) {
	t.Helper()
	mutants = raced.Few(mutants)
	for _, mu := range mutants {
		if x := searched(t, mu.sc); x.Found {
			t.Errorf("%s: the full rules are broken:\n%v", mu.name, x.Trace)
		}
	}
	checkBroken(t, mutants)
}

// checkBroken is checkMutants for scenarios that are known to be safe without
// the change.
func checkBroken(t *testing.T, mutants []mutant) {
	t.Helper()
	for _, mu := range mutants {
		t.Run(mu.name, func(t *testing.T) {
			x := searched(t, changed(mu.sc, mu.change))
			if !x.Found {
				t.Fatalf("no trace in %d states", x.States)
			}
			t.Logf("%d events, %d ticks\n%s", len(x.Trace.Events), last(x.Trace), x.Trace.Words())
			if mu.events != 0 && len(x.Trace.Events) != mu.events {
				t.Errorf("%d events, want %d", len(x.Trace.Events), mu.events)
			}
			kept(t, x.Trace)
		})
	}
}

// kept compares a trace with the file that the tests of other packages replay.
func kept(t *testing.T, tr Trace) {
	t.Helper()
	name := strings.NewReplacer("/", "-", "_", "-", ",", "", "'",
		"").Replace(strings.TrimPrefix(t.Name(), "Test"))
	golden.Check(t, traces+name+".txt", tr.String())
}

func last(t Trace) int { return t.Events[len(t.Events)-1].At }

func longer(sc *Scenario) { sc.Ours.TTL++ }

func TestLeaseRuleIsTightInEveryDialect(t *testing.T) {
	var mutants []mutant
	for _, d := range dialect.Presets() {
		if !d.HasTakeover() || d.OrMine {
			continue
		}
		mutants = append(mutants, mutant{d.Name, beside(d, 2, 1, PhaseDual), longer, 0})
	}
	for _, d := range []dialect.Dialect{
		dialect.Jedis(), dialect.Page(), dialect.PageNil(), dialect.RedisPy()} {
		mutants = append(mutants,
			mutant{d.Name + " with three old clients", tight(d, 3, 1, PhaseDual, PhaseDual), longer, 0},
			mutant{d.Name + " beside two of ours", tight(d, 2, 2, PhaseDual, PhaseDual), longer, 0})
	}
	checkMutants(t, mutants)
}

func TestEachRuleOfHardenedPreventsATrace(t *testing.T) {
	jedis := beside(dialect.Jedis(), 2, 1, PhaseObserve)
	overrun := beside(dialect.Jedis(), 2, 2, PhaseObserve)
	overrun.Overrun, overrun.Goal = true, twoOurs
	guards := overrun
	guards.Ours.Phase = PhaseDual
	notice := beside(dialect.Jedis(), 2, 1, PhaseObserve)
	notice.Overrun, notice.Goal = true, unnoticed
	notice.Ours.StampAhead = 1 // otherwise no clock is so far ahead that it writes the same bytes
	behind := beside(dialect.Jedis(), 2, 1, PhaseObserve)
	// Honest jobs already allow for the spread. So the margin has to cover how
	// far the whole fleet is behind the server.
	behind.Behind, behind.Ahead, behind.Ours.Known, behind.Ours.TakeoverMargin = 2, -1, true, 1
	trample := overrun
	trample.Goal = trampled
	checkMutants(t, []mutant{
		{"compare and set", jedis, without(ruleCompareAndSet), 10},
		{"takeover margin", behind, func(sc *Scenario) { sc.Ours.TakeoverMargin-- }, 3},
		{"trust margin covers the stop", beside(dialect.Jedis(), 1, 2, PhaseDual),
			func(sc *Scenario) { sc.Ours.Margin = 0 }, 3},
		{"two keys", guards, without(ruleTwoKeys), 10},
		{"token", changed(overrun, func(sc *Scenario) { sc.Old, sc.Ours.Clients = 1, 3 }), without(ruleToken),
			5},
		{"acquire looks at L", jedis, without(ruleAcquireLooks), 3},
		{"renewal looks at L", jedis, without(ruleRenewalLooks), 13},
		{"release looks at L", trample, without(ruleReleaseLooks), 13},
		{"M kept after a loss", overrun, without(ruleKeepM), 11},
		{"mark has a TTL", notice, without(ruleMarkHasTTL), 9},
		{"trust from before sending", changed(overrun, func(sc *Scenario) { sc.Old, sc.Ours.Late = 0, true }),
			without(ruleTrustFromSent), 6},
		{"released grant not passed on", overrun, without(ruleReleasedNotPassed), 5},
	})
}

// A key left to old clients keeps getsetlock clients out and lets old clients
// in, so every rule about two holders applies to it. It needs one rule of its
// own, since an attempt may delete it.
func TestKeyThatIsLeftPreventsATrace(t *testing.T) {
	for _, p := range []Phase{PhaseObserve, PhaseDual} {
		sc := beside(dialect.Jedis(), 1, 2, p)
		sc.Ours.Leaves = 2
		overrun := sc
		overrun.Overrun, overrun.Goal = true, twoOurs
		checkMutants(t, []mutant{
			{string(p), sc, longer, 0},
			{string(p) + ", a gap is nobody's", overrun, without(ruleLeftIsNobodys), 0},
		})
	}
}

// Clients that take over their own uuid overwrite a value and take it for their
// own at the next poll, whatever its time says. One such client is enough; two
// do not exclude each other.
func TestEachRuleForOrMineClientsPreventsATrace(t *testing.T) {
	for _, p := range []Phase{PhaseObserve, PhaseDual} {
		uuid := beside(dialect.JedisUUID(), 1, 2, p)
		uuid.Lease, uuid.Gap, uuid.Job, uuid.Ours.TTL, uuid.Ours.Settle = 7, 2, 5, 5, 3
		checkMutants(t, []mutant{
			{string(p) + " settle equal to the gap", uuid, func(sc *Scenario) { sc.Ours.Settle = sc.Gap },
				13},
			{string(p) + " settle only after takeovers", uuid, without(ruleSettleEvery), 12},
			{string(p) + " unsettled grant handed on as settled", uuid, without(ruleSettlePassedOn), 13},
			{string(p) + " no settle", uuid, func(sc *Scenario) { sc.Ours.Settle = 0 }, 12},
		})
	}
	sealed := beside(dialect.JedisUUID(), 1, 2, PhaseDual)
	sealed.Ours.To = PhaseSealed
	checkMutants(t, []mutant{{"unsettled guard deleted", sealed, without(ruleUnsettledDeleted), 17}})
}

func TestSettleAfterEveryAcquisitionSparesTheJob(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Jedis(), dialect.PageNil()} {
		sc := beside(d, 2, 1, PhaseDual)
		sc.Goal, sc.Ours.Settle, sc.Ours.SettleAlways = lostJob, sc.Gap+1, true
		checkMutants(t, []mutant{
			{d.Name + " no settle", sc, func(sc *Scenario) { sc.Ours.Settle = 0 }, 8},
			{d.Name + " settle equal to the gap", sc, func(sc *Scenario) { sc.Ours.Settle = sc.Gap }, 9},
			// An old client that had seen an earlier holder's expired value
			// overwrites a key that was taken when free.
			{d.Name + " settle only after takeovers", sc, func(sc *Scenario) { sc.Ours.SettleAlways = false },
				8},
		})
	}
}

// The interop tests tolerate this loss once for a worker where a JVM was
// killed: the trace "settle only after takeovers" above. Two old clients find a
// dead stamp; one wins, works and deletes the key. A getsetlock client takes
// the free key, and within the gap the other old client's GETSET replaces its
// mark. The getsetlock client learns of it, and no other client enters
// meanwhile, in any interleaving. In sealed it is the same as long as L has the
// dead stamp instead of the tombstone.
func TestLateLoserAtDeadStampLetsNoClientIn(t *testing.T) {
	for _, p := range []Phase{PhaseObserve, PhaseDual, PhaseSealed} {
		sc := beside(dialect.Jedis(), 2, 1, p)
		sc.Ours.NoTombstone = p == PhaseSealed
		sc.Ours.Settle, sc.Ours.SettleAlways, sc.Goal = sc.Gap+1, false, lostJob
		x := searched(t, sc)
		stolen := slices.IndexFunc(x.Trace.Events,
			func(e Event) bool { return e.What == "acquire" && e.Result == "won" })
		if !x.Found || stolen < 0 || !strings.Contains(x.Trace.String(), "getset") {
			t.Errorf("%s: no getsetlock client took a free key and lost it:\n%s", p, x.Trace)
		}
		sc.Goal = twoHold
		if x := searched(t, sc); x.Found {
			t.Errorf("%s: two hold:\n%s", p, x.Trace)
		}
	}
}

// In sealed that loss ends with the tombstones: where L has one, no client
// finds an expired stamp any more. An attempt that has read the dead stamp can
// still overwrite the first tombstone with its GETSET, so a lease on that one
// can be lost too.
func TestTombstoneEndsLossesToLateLosers(t *testing.T) {
	sc := beside(dialect.Jedis(), 2, 1, PhaseSealed)
	sc.Ours.Settle, sc.Goal = sc.Gap+1, lostJob
	if x := searched(t, sc); x.Found {
		t.Errorf("a lease on a tombstone is lost:\n%s", x.Trace)
	}
	sc.Ours.NoTombstone, sc.Ours.SettleAlways = true, true // no client that got the lock loses its guard
	if x := searched(t, sc); !x.Found {
		t.Errorf("no lease on the first tombstone is lost in %d states", x.States)
	}
	sc.Goal = twoHold
	if x := searched(t, sc); x.Found {
		t.Errorf("two hold:\n%s", x.Trace)
	}
}

func TestEachRuleOfThePhasesPreventsATrace(t *testing.T) {
	long := moves(dialect.Jedis(), 2, 1, PhaseSealed, PhaseModern)
	long.Ours.Phase = PhaseDual
	long.Ours.Long = 7
	overrun := moves(dialect.Jedis(), 1, 1, PhaseDual, PhaseSealed)
	overrun.Overrun, overrun.Goal = true, unnoticed
	checkMutants(t, []mutant{
		{"tombstone put back only with M", overrun, without(ruleRestoreWithM), 12},
		{"tombstones deleted last, on the way back", moves(dialect.Jedis(), 1, 2, PhaseDual, PhaseSealed),
			without(ruleTombstonesLast), 11},
		{"no phase, no lock", beside(dialect.Jedis(), 1, 2, PhaseDual), without(ruleNoPhaseNoLock), 3},
		{"long lease only after the gap", long, without(ruleLongAfterGap), 17},
		{"one step at a time", moves(dialect.Jedis(), 1, 2, PhaseSealed, PhaseClean), without(ruleOneStep),
			8},
	})
}

func TestLeaseLongerThanBareExpireIsUnsafe(t *testing.T) {
	for _, p := range raced.Few([]Phase{PhaseObserve, PhaseDual, PhaseSealed, PhaseModern}) {
		checkMutants(t, []mutant{{string(p), beside(dialect.BareExpire(), 2, 1, p), longer, 0}})
	}
	checkMutants(t,
		[]mutant{{"tombstone's TTL restored", beside(dialect.BareExpire(), 2, 1, PhaseSealed),
			without(ruleTombstoneTTL), 7}})
}
