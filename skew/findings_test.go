package skew

import (
	"testing"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// A stamp of ours ends by the clock that is furthest ahead. The trust margin has to cover that and the
// time that a job takes to stop, one after the other: a margin that covers the greater of the two lets
// an old client in while the job is being stopped.
func TestTrustMarginBesideAStampPaysForTheFastestAndForTheStop(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.RedisPy(), dialect.Template(), dialect.Errorception()} {
		sc := beside(d, 1, 1, PhaseObserve)
		sc.Ahead, sc.Behind, sc.Ours.Stop = 2, -1, 1
		for _, stop := range []int{0, 1, 2} {
			sc.Ours.Stop = stop
			sc.Ours.Margin = max(sc.Ahead, stop)
			if x := explore(t, sc); x.Found != (stop > 0) {
				t.Errorf("%s, margin %d, stop %d: found %v\n%v", d, sc.Ours.Margin, stop, x.Found, x.Trace)
			}
			sc.Ours.Margin = sc.Ahead + stop
			if sc.Ours.Margin < sc.Ours.TTL {
				mustBeSafe(t, sc)
			}
		}
	}
}

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
	slow.Behind, slow.Ahead = 6, -5
	if x := explore(t, slow); !x.Found {
		t.Error("the server's clock without a margin bears a fleet that is far behind")
	}
}

func TestStepsBackCountInTheSpreadForUnchangedBytes(t *testing.T) {
	for _, step := range few([]int{1, 2}) {
		for _, rule := range []Rule{0, RuleFreshSample} {
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
		{"last look too old", sc, without(RuleFreshSample), 8},
		{"looks further apart than the value is away", sc, func(sc *Scenario) { sc.Ours.Sparse = 3 }, 10},
	})
}

// A step of the server's clock takes from what lies between the end of trust and the end of the key,
// stopping included; it counts in the takeover margin, and backwards in the margin beside a stamp.
func TestServersStepIsPaidForByTheMargins(t *testing.T) {
	two := beside(dialect.Jedis(), 0, 2, PhaseDual)
	two.Ours.Margin = 3
	two.ServerStep = two.Ours.Margin - two.Ours.Stop
	mustBeSafe(t, two)
	two.ServerStep++
	if x := explore(t, two); !x.Found {
		t.Error("a step forwards beyond the margin does no harm")
	}

	judge := beside(dialect.Jedis(), 2, 1, PhaseDual)
	judge.ServerStep, judge.Ours.Margin = 2, 3
	judge.Ours.TakeoverMargin = judge.ServerStep
	mustBeSafe(t, judge)
	judge.Ours.TakeoverMargin = 0
	if x := explore(t, judge); !x.Found {
		t.Error("a step forwards that the takeover margin leaves out does no harm")
	}

	stamp := beside(dialect.RedisPy(), 1, 1, PhaseObserve)
	stamp.Lease, stamp.Job, stamp.Ours.TTL = 7, 5, 5
	stamp.ServerStep, stamp.Ours.TakeoverMargin = -1, 2
	stamp.Ours.Margin = stamp.Ahead + stamp.Ours.Stop + 1
	mustBeSafe(t, stamp)
	stamp.Ours.Margin--
	if x := explore(t, stamp); !x.Found {
		t.Error("a step backwards that the margin beside a stamp leaves out does no harm")
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
// Gates go by that one's word, while the lease of another runs: the rule covers the loss of all, not of some.
func TestRegistryThatHasLostSomeOfItsMembersOpensGates(t *testing.T) {
	sc := moves(dialect.Jedis(), 1, 2, PhaseModern, PhaseClean)
	sc.Goal, sc.Ours.Empties = LostJob, true
	checkBroken(t, []mutant{{"one is back before the other", sc, func(*Scenario) {}, 0}})
	alone := changed(sc, func(sc *Scenario) { sc.Ours.Clients = 1 })
	mustBeSafe(t, alone)
}

// A suspended judge waits one greatest lease for the step to be taken back. A step that stays outlasts
// it: what old clients write then still looks expired early. And a member whose first look at the server
// came after the step has nothing to compare with. Against both only the takeover margin helps.
func TestSuspensionHelpsAgainstStepsThatAreUndoneAndSeen(t *testing.T) {
	sc := beside(dialect.Jedis(), 1, 1, PhaseDual)
	sc.Lease, sc.Job, sc.Ours.TTL = 6, 5, 5
	sc.ServerStep, sc.StepUndone, sc.Ours.Margin = 2, true, 4
	mustBeSafe(t, sc)
	checkBroken(t, []mutant{
		{"a step that stays", sc, func(sc *Scenario) { sc.StepUndone = false }, 0},
		{"a step before the first look", sc, func(sc *Scenario) { sc.Ours.Newcomers = true }, 0},
	})
	for _, change := range []func(*Scenario){func(sc *Scenario) { sc.StepUndone = false }, func(sc *Scenario) { sc.Ours.Newcomers = true }} {
		margin := changed(sc, change)
		margin.Ours.TakeoverMargin = margin.ServerStep
		mustBeSafe(t, margin)
	}
}
