package skew

import (
	"testing"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// Unchanged bytes prove that nobody's lease is left, at any offset of the fleet from the server. Steps
// backwards are another matter: the same bytes may be written again, between any two looks. They have
// to be counted in the spread that honest jobs and our lease pay for.
func TestUnchangedBytesBearEveryOffset(t *testing.T) {
	for _, behind := range few([]int{-6, 0, 6}) {
		sc := beside(dialect.Jedis(), 2, 1, PhaseDual)
		sc.Behind, sc.Ahead = behind, 1-behind
		sc.Ours.Unchanged, sc.Ours.Sparse = sc.Lease+1, 1
		mustBeSafe(t, sc)
		sc.Ours.Unchanged -= 2
		if x := explore(t, sc); !x.Found {
			t.Errorf("fleet %d behind: a tick less than honest jobs last is enough", behind)
		}
	}
	slow := beside(dialect.Jedis(), 2, 1, PhaseDual)
	slow.Behind, slow.Ahead, slow.Ours.Known = 6, -5, true
	if x := explore(t, slow); !x.Found {
		t.Error("the server's clock without a margin bears a fleet that is far behind")
	}
}

func TestStepsBackCountInTheSpreadForUnchangedBytes(t *testing.T) {
	for _, step := range few([]int{1, 2}) {
		for _, rule := range []Rule{0, ruleFreshSample} {
			sc := beside(dialect.Jedis(), 1, 1, PhaseDual)
			sc.Lease, sc.FleetStep = 6, step
			sc.Ours.Unchanged, sc.Ours.Sparse, sc.Ours.Break = sc.Lease+1, 1, rule
			sc.Job = sc.Lease + 1 - sc.Ahead - sc.Gap - step
			sc.Ours.TTL = sc.Job
			mustBeSafe(t, sc)
			sc.Job++
			if x := explore(t, sc); !x.Found {
				t.Errorf("a step of %d that is not counted does no harm", step)
			}
		}
	}
}

// Looks that follow each other closely catch a value that was deleted and written again to the same
// bytes, if it was away for longer than lies between two of them.
func TestSparseObserverMissesAValueThatWasAway(t *testing.T) {
	sc := beside(dialect.Jedis(), 1, 1, PhaseDual)
	sc.Lease, sc.Job, sc.Ours.TTL = 6, 5, 5
	sc.FleetStep, sc.Rest, sc.Ours.Unchanged, sc.Ours.Sparse = 4, 2, 7, 1
	checkMutants(t, []mutant{
		{"last look too old", sc, without(ruleFreshSample), 8},
		{"looks further apart than the value is away", sc, func(sc *Scenario) { sc.Ours.Sparse = 3 }, 10},
	})
}

// A step of the server's clock takes from what lies between the end of trust and the end of the key,
// stopping included; and from the takeover margin, where that is all there is.
func TestServersStepIsPaidForByTheMargins(t *testing.T) {
	two := beside(dialect.Jedis(), 0, 2, PhaseDual)
	two.Ours.Margin = 3
	two.ServerStep = two.Ours.Margin - two.Ours.Stop
	mustBeSafe(t, two)
	two.ServerStep++
	if x := explore(t, two); !x.Found {
		t.Error("a step forwards beyond the margin does no harm")
	}

	known := beside(dialect.Jedis(), 2, 1, PhaseDual)
	known.ServerStep, known.Ours.Margin, known.Ours.Known, known.Ours.Break = 2, 3, true, ruleStepAdds
	known.Ours.TakeoverMargin = known.ServerStep
	mustBeSafe(t, known)
	known.Ours.TakeoverMargin = 0
	if x := explore(t, known); !x.Found {
		t.Error("a step forwards that the takeover margin leaves out does no harm")
	}
}

// The law's second condition, beside ours: the jobs are honest, no attempt pauses longer than the gap,
// our lease keeps the lease rule, and still an old client that judges its GETSET's reply late believes
// that it holds. In dialects that judge the reply by a new clock reading the gap has to leave more.
func TestLateJudgeOfTheReplyEntersBesideOurs(t *testing.T) {
	for _, d := range few([]dialect.Dialect{dialect.JedisAQS(), dialect.Page(), dialect.PageGet(), dialect.RedisObjects()}) {
		for _, p := range []Phase{PhaseObserve, PhaseDual} {
			sc := beside(d, 2, 1, p)
			sc.Gap = 2
			room := sc.Lease + 1 - sc.Ahead // c is one tick in all of these
			sc.Job, sc.Ours.TTL = room-sc.Gap, room-sc.Gap
			sc.Reply = room - 2*sc.Gap
			mustBeSafe(t, sc)
			sc.Reply++ // still not beyond the gap
			x := explore(t, sc)
			if !x.Found {
				t.Errorf("%s, %s: safe", d, p)
			}
			t.Run(d.Name+" "+string(p), func(t *testing.T) { kept(t, x.Trace) })
		}
	}
}

// A registry that has lost its members is empty until the first of them beats again, and then has one.
// Gates go by that one's word, while the lease of another runs: the rule covers the loss of all, not of some. A
// loss that shows closes every gate for longer (TestEachRuleOfTheRosterPreventsATrace).
func TestRegistryThatHasLostSomeOfItsMembersOpensGates(t *testing.T) {
	sc := moves(dialect.Jedis(), 1, 2, PhaseModern, PhaseClean)
	sc.Goal, sc.Ours.Empties = lostJob, true
	checkBroken(t, []mutant{{"one is back before the other", sc, func(*Scenario) {}, 0}})
	alone := changed(sc, func(sc *Scenario) { sc.Ours.Clients = 1 })
	mustBeSafe(t, alone)
}
