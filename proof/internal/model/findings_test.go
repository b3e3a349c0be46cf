// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
)

// Unchanged bytes prove that no lease is left, at any offset of the fleet from
// the server. Steps backwards are different: the same bytes may be written
// again between any two looks. The spread that bounds honest jobs and
// getsetlock leases must include them.
func TestUnchangedBytesAreSafeAtEveryOffset(t *testing.T) {
	for _, behind := range raced.Few([]int{-6, 0, 6}) {
		sc := beside(dialect.Jedis(), 2, 1, PhaseDual)
		sc.Behind, sc.Ahead = behind, 1-behind
		sc.Ours.Unchanged, sc.Ours.Sparse = sc.Lease+1, 1
		mustBeSafe(t, sc)
		sc.Ours.Unchanged -= 2
		if x := searched(t, sc); !x.Found {
			t.Errorf("fleet %d behind: a tick less than honest jobs last is found safe", behind)
		}
	}
	slow := beside(dialect.Jedis(), 2, 1, PhaseDual)
	slow.Behind, slow.Ahead, slow.Ours.Known = 6, -5, true
	if x := searched(t, slow); !x.Found {
		t.Error("the server's clock without a margin is found safe for a fleet that is far behind")
	}
}

func TestStepsBackCountInTheSpreadForUnchangedBytes(t *testing.T) {
	for _, step := range raced.Few([]int{1, 2}) {
		for _, rule := range []Rule{0, ruleFreshSample} {
			sc := beside(dialect.Jedis(), 1, 1, PhaseDual)
			sc.Lease, sc.FleetStep = 6, step
			sc.Ours.Unchanged, sc.Ours.Sparse, sc.Ours.Break = sc.Lease+1, 1, rule
			sc.Job = sc.Lease + 1 - sc.Ahead - sc.Gap - step
			sc.Ours.TTL = sc.Job
			mustBeSafe(t, sc)
			sc.Job++
			if x := searched(t, sc); !x.Found {
				t.Errorf("a step of %d that is not counted does no harm", step)
			}
		}
	}
}

// If looks are close together, they notice a value that was deleted and written
// again with the same bytes. The key must have been free for longer than the
// time between two looks.
func TestSparseObserverMissesAValueThatWasAway(t *testing.T) {
	sc := beside(dialect.Jedis(), 1, 1, PhaseDual)
	sc.Lease, sc.Job, sc.Ours.TTL = 6, 5, 5
	sc.FleetStep, sc.Rest, sc.Ours.Unchanged, sc.Ours.Sparse = 4, 2, 7, 1
	checkMutants(t, []mutant{
		{"last look too old", sc, without(ruleFreshSample), 8},
		{"looks further apart than the value is away", sc, func(sc *Scenario) { sc.Ours.Sparse = 3 }, 10},
	})
}

// A step of the server's clock shortens the time between the end of trust and
// the end of the key, in which the job stops. It also reduces the takeover
// margin, where there is nothing else.
func TestMarginsCoverStepOfServersClock(t *testing.T) {
	two := beside(dialect.Jedis(), 0, 2, PhaseDual)
	two.Ours.Margin = 3
	two.ServerStep = two.Ours.Margin - two.Ours.Stop
	mustBeSafe(t, two)
	two.ServerStep++
	if x := searched(t, two); !x.Found {
		t.Error("a step forwards beyond the margin does no harm")
	}

	known := beside(dialect.Jedis(), 2, 1, PhaseDual)
	known.ServerStep, known.Ours.Margin, known.Ours.Known, known.Ours.Break = 2, 3, true, ruleStepAdds
	known.Ours.TakeoverMargin = known.ServerStep
	mustBeSafe(t, known)
	known.Ours.TakeoverMargin = 0
	if x := searched(t, known); !x.Found {
		t.Error("a step forwards that the takeover margin leaves out does no harm")
	}
}

// The law's second condition, with a getsetlock client. The jobs are honest, no
// attempt pauses longer than the gap, and the getsetlock lease keeps the lease
// rule. Still an old client that judges its GETSET's reply late believes that
// it holds. In dialects that judge the reply by a new clock reading, the gap
// has to be smaller.
func TestLateJudgeOfTheReplyEntersDuringALease(t *testing.T) {
	for _, d := range raced.Few([]dialect.Dialect{
		dialect.JedisAQS(), dialect.Page(), dialect.PageGet(), dialect.RedisObjects()}) {
		for _, p := range []Phase{PhaseObserve, PhaseDual} {
			sc := beside(d, 2, 1, p)
			sc.Gap = 2
			room := sc.Lease + 1 - sc.Ahead // c is one tick in all of these
			sc.Job, sc.Ours.TTL = room-sc.Gap, room-sc.Gap
			sc.Reply = room - 2*sc.Gap
			mustBeSafe(t, sc)
			sc.Reply++ // still not beyond the gap
			x := searched(t, sc)
			if !x.Found {
				t.Errorf("%s, %s: safe", d, p)
			}
			t.Run(d.Name+" "+string(p), func(t *testing.T) { kept(t, x.Trace) })
		}
	}
}

// A registry that has lost its members is empty until one of them sends a
// heartbeat, and then has one. Gates ask only that one, while another member's
// lease runs: the rule covers the loss of all members, not of some. A loss that
// gates notice closes them for longer (TestEachRuleOfTheRosterPreventsATrace).
func TestRegistryThatLostSomeMembersOpensGates(t *testing.T) {
	sc := moves(dialect.Jedis(), 1, 2, PhaseModern, PhaseClean)
	sc.Goal, sc.Ours.Empties = lostJob, true
	checkBroken(t, []mutant{{"one is back before the other", sc, func(*Scenario) {}, 0}})
	alone := changed(sc, func(sc *Scenario) { sc.Ours.Clients = 1 })
	mustBeSafe(t, alone)
}
