package votes

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/skew"
)

func explore(t *testing.T, sc Scenario) Exploration {
	t.Helper()
	x, err := Explore(sc)
	if err != nil {
		t.Fatal(err)
	}
	if !x.Found && !x.Complete {
		t.Fatalf("%d states were not all of %+v", x.States, sc)
	}
	return x
}

var upTo = flag.Int("members", 5, "how many members the searches have at most; 7 takes ten seconds")

// The test compares two answers on both sides of the law's limit, for each
// number of members and votes, and for each way in which votes end early. One
// is the closed form, the other all orders of requests, replies and ticks.
func TestExplorerFindsOverlapIffLawSaysSo(t *testing.T) {
	for members := 1; members <= few(*upTo, 3); members++ {
		for votes := members/2 + 1; votes <= members; votes++ {
			v, err := Law{Members: members, Votes: votes}.Verdict()
			if err != nil {
				t.Fatal(err)
			}
			for _, ended := range []int{v.Survives, v.From} {
				for lost := range ended + 1 {
					if members > 5 && lost < ended {
						continue // four times as many worlds, and nothing new
					}
					law := Law{Members: members, Votes: votes, Lost: lost, Jumped: ended - lost}
					agrees(t, law, Scenario{TTL: 2})
					if members <= 3 {
						law.Jumped, law.Restarted = 0, ended-lost
						agrees(t, law, Scenario{TTL: 2, Renewals: 1})
						agrees(t, law, Scenario{TTL: 3, Margin: 1, Renewals: 1})
					}
				}
				if members <= 3 {
					agrees(t, Law{Members: members, Votes: votes, Lost: ended, Restarted: 1, Wait: true},
						Scenario{TTL: 2, Renewals: 1})
				}
			}
		}
	}
}

// agrees compares the law with a search in which the same things happen.
func agrees(t *testing.T, law Law, sc Scenario) {
	t.Helper()
	sc.Members, sc.Votes, sc.Lost, sc.Restarted, sc.Jumped, sc.Wait = law.Members, law.Votes, law.Lost,
		law.Restarted, law.Jumped, law.Wait
	v, err := law.Verdict()
	if err != nil {
		t.Fatal(err)
	}
	if x := explore(t, sc); x.Found != v.TwoHold {
		t.Errorf("%+v, renewals %d, TTL %d: law %v, explorer %v\n%s", law, sc.Renewals, sc.TTL, v.TwoHold,
			x.Found, lines(x.Trace))
	}
}

func lines(trace []Step) string {
	var b strings.Builder
	for _, s := range trace {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// A jump within the margin ends no vote before the holder's trust ends, however
// many members jump. One tick more is a jump as the law counts it.
func TestJumpWithinTheMarginEndsNoVote(t *testing.T) {
	sc := Scenario{Members: 3, TTL: 4, Margin: 2, Jumped: 3, JumpBy: 2}
	if x := explore(t, sc); x.Found {
		t.Errorf("within the margin:\n%s", lines(x.Trace))
	}
	sc.JumpBy = 3
	if x := explore(t, sc); !x.Found {
		t.Error("beyond the margin: two cannot hold")
	}
}

// Three restarts of three members, at any time, one of them again and again:
// members that wait never let a second client in.
func TestRestartedMemberThatVotesAtOnceEndsAVote(t *testing.T) {
	sc := Scenario{Members: 3, Votes: 2, TTL: 3, Restarted: 1, Renewals: 1}
	x := explore(t, sc)
	if !x.Found || !strings.Contains(lines(x.Trace), "restarts without its data\n") {
		t.Errorf("%+v", x)
	}
	sc.Wait, sc.Restarted = true, few(3, 1)
	if x := explore(t, sc); x.Found {
		t.Errorf("members wait:\n%s", lines(x.Trace))
	}
}

// The rule "renew first" is taken out: votes that a renewal takes anew count
// towards its majority. Then the renewal hides that another client held.
func TestVotesTakenAtRenewalHideAnotherHolder(t *testing.T) {
	// With one early end more than the law allows, two clients hold. The
	// renewal should tell the holder so, and does with the rule.
	sc := Scenario{Members: 3, TTL: 3, Renewals: 1, Lost: 2, goal: hidden, broken: ruleRenewFirst}
	if x := explore(t, sc); !x.Found {
		t.Error("two early ends: the renewal told the holder")
	}
	sc.broken, sc.Lost = 0, few(3, 2)
	if x := explore(t, sc); x.Found {
		t.Errorf("with the rule:\n%s", lines(x.Trace))
	}
	// A library that also believes a renewal which succeeded after the lease
	// had ended needs no early end at all: a pause is enough.
	sc.Lost, sc.broken = 0, ruleRenewFirst|ruleTrustEnds
	if x := explore(t, sc); !x.Found || !strings.Contains(lines(x.Trace), "votes for the holder again") {
		t.Errorf("late renewal: %+v", x)
	}
	// Either rule is enough against that.
	for _, broken := range []rule{ruleRenewFirst, ruleTrustEnds} {
		sc.broken = broken
		if x := explore(t, sc); x.Found {
			t.Errorf("one rule taken out:\n%s", lines(x.Trace))
		}
	}
}

// A request for a vote may arrive late, after another client held. If that vote
// counts at the next renewal, the renewal hides what happened. A single early
// end is enough where the holder has a bare majority.
func TestVoteTakenAgainCountsOnceConfirmed(t *testing.T) {
	const ends = `   0  rival   releases
   0  C       votes for the holder%s
   0  holder  reads a late reply
   0  holder  sends a renewal
   0  C       renews the holder's vote
   0  B       renews the holder's vote
   0  holder  reads the replies: it is renewed
`
	for _, c := range []struct {
		broken   rule
		renewals int
		again    string
	}{{ruleLate, 1, ""}, {ruleConfirmed, 2, " again"}} {
		sc := Scenario{Members: 3, Votes: 2, TTL: 3, Renewals: c.renewals, Lost: 1, goal: hidden,
			broken: c.broken}
		x := explore(t, sc)
		if !x.Found || !strings.HasSuffix(lines(x.Trace), fmt.Sprintf(ends, c.again)) {
			t.Errorf("rule %d: %v\n%s", c.broken, x.Found, lines(x.Trace))
		}
	}
	for lost := range few(3, 2) {
		sc := Scenario{Members: 3, Votes: 2, TTL: 3, Renewals: 2, Lost: lost, goal: hidden}
		if x := explore(t, sc); x.Found {
			t.Errorf("%d losses, with the rules:\n%s", lost, lines(x.Trace))
		}
	}
}

// Kleppmann's late replies: the holder counts from the reply instead of from
// before its requests.
func TestTrustFromTheReplyLetsTwoHold(t *testing.T) {
	sc := Scenario{Members: 3, TTL: 2}
	if x := explore(t, sc); x.Found {
		t.Errorf("from before sending:\n%s", lines(x.Trace))
	}
	sc.broken = ruleFromSent
	if x := explore(t, sc); !x.Found {
		t.Error("from the reply: two cannot hold")
	}
}

// The holder has all votes and loses three of five: the trace is the way of the
// argument, and each member keeps its name.
func TestTraceReadsInOrder(t *testing.T) {
	x := explore(t, Scenario{Members: 3, TTL: 2, Jumped: 2})
	const want = `   0  A       votes for the holder
   0  B       votes for the holder
   0  C       votes for the holder
   0  holder  reads the replies: it holds
   0  A       jumps forwards: the holder's key expires
   0  B       jumps forwards: the holder's key expires
   0  rival   asks all members
   0  B       votes for the rival
   0  A       votes for the rival: it holds
`
	if got := lines(x.Trace); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestImpossibleScenariosAreNamed(t *testing.T) {
	for field, sc := range map[string]Scenario{
		"Members":  {Members: 8, TTL: 2},
		"Votes":    {Members: 3, Votes: 1, TTL: 2},
		"TTL":      {Members: 3, TTL: 1},
		"Margin":   {Members: 3, TTL: 2, Margin: 2},
		"JumpBy":   {Members: 3, TTL: 2, JumpBy: -1},
		"Renewals": {Members: 3, TTL: 2, Renewals: 4},
		"Lost":     {Members: 3, TTL: 2, Lost: 4},
	} {
		_, err := Explore(sc)
		var bad *skew.ParameterError
		if !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if x, err := Explore(Scenario{Members: 5, TTL: 2, MaxStates: 1000}); err != nil || x.Complete || x.Found {
		t.Errorf("a bounded search: %+v, %v", x, err)
	}
}
