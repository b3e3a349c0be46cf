// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
)

// The server is a clock of the fleet, because a getsetlock client compares old
// clients' stamps with the server's clock. How far old clients' clocks are from
// each other says nothing about that.

// offset is beside with all old clocks that far behind the server, and a spread
// of one tick.
func offset(d dialect.Dialect, old, ours int, p Phase, behind int) Scenario {
	sc := beside(d, old, ours, p)
	sc.Behind, sc.Ahead = behind, 1-behind
	return sc
}

// lookAge returns the age that the rule demands, in ticks.
func lookAge(t *testing.T, sc Scenario) int {
	t.Helper()
	m, err := sc.machine()
	if err != nil {
		t.Fatal(err)
	}
	return int(m.lookAge)
}

func younger(t *testing.T) func(*Scenario) {
	return func(sc *Scenario) { sc.Ours.Look = lookAge(t, *sc) - 1 }
}

// A second look is safe wherever the server's clock is, at its age and not a
// tick below. Two exceptions: in JedisUUID no other client writes the same
// bytes, and Machinery's clients never free a key so that the same bytes
// return.
func TestLookAgeIsTightInEveryDialect(t *testing.T) {
	for _, d := range raced.Few(dialect.Presets()) {
		if !d.HasTakeover() {
			continue
		}
		old := 2
		if d.OrMine {
			old = 1
		}
		sc := tight(d, old, 1, PhaseDual, PhaseDual)
		sc.Behind, sc.Ahead = 10, -9
		mustBeSafe(t, sc)
		less := changed(sc, younger(t))
		if x := searched(t, less); x.Found == (d.OrMine || d.NeverReleases()) {
			t.Errorf("%s, a look that is a tick younger: found %v\n%v", d, x.Found, x.Trace)
		}
	}
	for _, d := range raced.Few([]dialect.Dialect{dialect.Jedis(), dialect.Page(), dialect.ServiceStack()}) {
		sc := Scenario{Olds: Olds{Dialect: d, Unit: 2, Old: 2, Lease: 4, Gap: 1, Behind: 12, Ahead: -11}}
		sc.Job = sc.Lease + 2*int(d.EffectiveSlack()/tick(d)) - 1 - sc.Gap
		sc.Ours = Ours{Clients: 1, Phase: PhaseDual, TTL: sc.Job, Margin: 1, Stop: 1}
		mustBeSafe(t, sc)
		if x := searched(t, changed(sc, younger(t))); !x.Found {
			t.Errorf("%s, clocks read within a unit: half a unit less does no harm", d)
		}
	}
}

// The server's clock may lie anywhere in the range of the old clients' clocks,
// or far outside it.
func TestLooksAreSafeWhereverTheServersClockIs(t *testing.T) {
	for _, behind := range raced.Few([]int{12, 6, 1, 0, -5, -11}) {
		for _, p := range raced.Few([]Phase{PhaseDual, PhaseObserve, PhaseSealed}) {
			sc := offset(dialect.Jedis(), 2, 1, p, behind)
			sc.Ours.NoTombstone = p == PhaseSealed
			mustBeSafe(t, sc)
			sc.Ours.TakeoverMargin = 0 // with a second look the margin adds nothing
			mustBeSafe(t, sc)
		}
	}
	overrun := offset(dialect.Jedis(), 1, 2, PhaseObserve, 12)
	overrun.Overrun, overrun.Goal = true, unnoticed
	mustBeSafe(t, overrun)
	late := offset(dialect.Jedis(), 1, 1, PhaseObserve, 12)
	late.Ours.Late = true
	mustBeSafe(t, late)
	moves := tight(dialect.Jedis(), 1, 2, PhaseObserve, PhaseSealed)
	moves.Behind, moves.Ahead = 11, -10
	mustBeSafe(t, moves)
}

// Steps of all old clients' clocks together count in their spread. With such a
// spread, looks are safe.
func TestLooksAreSafeForStepsThatSpreadCovers(t *testing.T) {
	sc := offset(dialect.Jedis(), 2, 1, PhaseDual, 12)
	sc.Lease, sc.FleetStep = 6, 1
	mustBeSafe(t, sc)
	sc.Job, sc.Ours.TTL = sc.Job+1, sc.Ours.TTL+1
	if x := searched(t, sc); !x.Found {
		t.Error("a step that the spread leaves out does no harm")
	}
}

// The greatest lease counts, not the smallest: an old client with the greatest
// lease may work after one with the smallest has ended.
func TestLookAgeIsOfTheGreatestLease(t *testing.T) {
	sc := offset(dialect.Jedis(), 2, 1, PhaseDual, 12)
	sc.Greatest = sc.Lease + 2
	checkMutants(t, []mutant{
		{"a look a tick too young", sc, younger(t), 0},
		{"looks that are as old as the smallest lease asks", sc,
			func(sc *Scenario) { sc.Ours.Look = lookAge(t, *sc) - 2 }, 0},
	})
}

// stepped is a fleet with a server whose clock steps while looks are
// remembered.
func stepped(behind, step int) Scenario {
	sc := offset(dialect.Jedis(), 2, 1, PhaseDual, behind)
	sc.Lease, sc.Job, sc.Ours.TTL = 6, 5, 5
	sc.ServerStep, sc.Ours.Margin = step, 4
	return sc
}

func TestEachRuleOfTheServersClockPreventsATrace(t *testing.T) {
	jedis, fast := dialect.Jedis(), beside(dialect.RedisPy(), 1, 1, PhaseObserve)
	fast.Behind, fast.Ahead = -2, 3
	back := changed(fast, func(sc *Scenario) {
		sc.Lease, sc.Job, sc.Ours.TTL, sc.Ours.Margin, sc.ServerStep = 7, 5, 5, 4, -1
	})
	old := changed(offset(jedis, 2, 1, PhaseObserve, 12), func(sc *Scenario) { sc.Ours.OldServer = true })
	known := changed(stepped(0, 3), func(sc *Scenario) { sc.Ours.Known = true })
	elsewhere := changed(stepped(12, 2), func(sc *Scenario) { sc.Ours.Elsewhere = true })
	checkMutants(t, []mutant{
		{"a takeover at the spread alone", offset(jedis, 2, 1, PhaseObserve, 6),
			func(sc *Scenario) { sc.Ours.Known = true }, 3},
		{"a look a tick too young", offset(jedis, 2, 1, PhaseObserve, 12), younger(t), 0},
		{"a look read before its reply", old, without(ruleLookAfterReply), 0},
		{"a stamp that ends with the lease", fast, without(ruleStampAhead), 0},
		{"a stamp a tick less ahead than the fastest", fast,
			func(sc *Scenario) { sc.Ours.StampAhead = sc.Ahead - 1 }, 0},
		{"the fastest clock in the trust margin, and a step back", back, without(ruleStampAhead), 0},
		{"a step that is not added to behind", known, without(ruleStepAdds), 0},
		{"a look that a step makes older", stepped(12, 2), without(ruleLookElapsed), 0},
		{"a look of another machine that a step makes older", elsewhere, without(ruleLookElapsed), 0},
	})
}

// What a step adds to Behind covers the step, whether it stays or is undone,
// and looks are safe with both. So takeovers need not be suspended after a
// step.
func TestStepsNeedNoSuspension(t *testing.T) {
	for _, undone := range raced.Few([]bool{true, false}) {
		for _, step := range raced.Few([]int{3, -2}) {
			known := changed(stepped(0, step),
				func(sc *Scenario) { sc.StepUndone, sc.Ours.Known = undone, true })
			mustBeSafe(t, known)
			looks := changed(stepped(12, step), func(sc *Scenario) { sc.StepUndone, sc.Old = undone, 1 })
			mustBeSafe(t, looks)
			looks.Ours.Elsewhere = true
			mustBeSafe(t, looks)
		}
	}
}

// A watch measures the clients and the server that are there. A host that is
// further behind joins later, and the server's clock is set forward, also by a
// fail-over.
func TestMeasuredBehindThatActsRobs(t *testing.T) {
	measured := func(sc Scenario, margin int) Scenario {
		return changed(sc, func(sc *Scenario) { sc.Ours.Measured, sc.Ours.TakeoverMargin = true, margin })
	}
	step := changed(stepped(0, 3), func(sc *Scenario) { sc.Old, sc.Ours.Newcomers = 1, true })
	failOver := changed(step, func(sc *Scenario) { sc.FailOver = true })
	checkMutants(t, []mutant{
		{"a host that is further behind joins", measured(offset(dialect.Jedis(), 1, 1, PhaseDual, 6), 1),
			without(ruleOnlyClaimsPermit), 3},
		{"the server's clock is set forward", measured(step, 1), without(ruleOnlyClaimsPermit), 0},
		{"a fail-over to a clock that is ahead", measured(failOver, 1), without(ruleOnlyClaimsPermit), 0},
	})
}

// A watch that sees a write of a client further behind than was claimed makes
// the claim void for every member.
func TestClaimThatAWatchContradictsIsVoid(t *testing.T) {
	claimed := func(p Phase) Scenario {
		sc := offset(dialect.Jedis(), 2, 1, p, 6)
		sc.Ours.Known, sc.Ours.Watched = true, true
		return sc
	}
	checkMutants(t, []mutant{
		{"observe", claimed(PhaseObserve), without(ruleContradictedIsVoid), 3},
		{"dual", claimed(PhaseDual), without(ruleContradictedIsVoid), 3},
	})
}

// A known limit: a false claim, for a process that has seen nothing else.
// Nothing on the wire shows it. With nothing claimed the same worlds are safe.
func TestFalseClaimOfBehindRobs(t *testing.T) {
	claimed := func(sc Scenario) Scenario { return changed(sc, func(sc *Scenario) { sc.Ours.Known = true }) }
	slower := offset(dialect.Jedis(), 1, 1, PhaseDual, 6)
	step := changed(stepped(0, 3), func(sc *Scenario) { sc.Old, sc.Ours.Newcomers = 1, true })
	failOver := changed(step, func(sc *Scenario) { sc.FailOver = true })
	checkBroken(t, []mutant{
		{"a client further behind than claimed", claimed(slower), func(*Scenario) {}, 0},
		{"a step before the first look", claimed(step), func(*Scenario) {}, 0},
		{"a fail-over to a server that the claim leaves out", claimed(failOver), func(*Scenario) {}, 0},
	})
	for _, sc := range []Scenario{slower, step, failOver} {
		mustBeSafe(t, sc)
	}
}
