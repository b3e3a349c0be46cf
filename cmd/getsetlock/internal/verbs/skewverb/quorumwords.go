package skewverb

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/skew/votes"
)

func (a *quorumAnswer) sentence() string {
	if a.twoHold() {
		return "YES: two clients can hold the lock at once."
	}
	return "NO: two clients cannot hold the lock at once."
}

// count returns a number with its noun.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}

// words returns the explanation, a paragraph each.
func (a *quorumAnswer) words() []string {
	v, held := a.verdict, a.held()
	says := a.why()
	if a.within {
		says = append(says, fmt.Sprintf(
			"Clocks that jump by %s end no vote early: a holder stops trusting its lease %s before its end.",
			out.Short(a.jumpBy), out.Short(a.margin())))
	}
	if a.law.Restarted > 0 {
		says = append(says, a.ofRestarts())
	}
	if held > v.Majority {
		says = append(says, fmt.Sprintf("With a bare majority, %d votes, %s.", v.Majority,
			may(a.bare.Survives)))
	}
	if n := a.law.Members; n%2 == 0 {
		says = append(says,
			fmt.Sprintf("An even number: with %d members no more may be away than with %d.", n, n-1))
	}
	if a.rates != nil {
		says = append(says, a.seen())
	}
	return append(says, "Not counted: a holder that stands still and writes after its lease has ended. No number of members helps against it, only a fence that the resource checks.")
}

// why returns the cause of the answer, and what to change or what room is left.
func (a *quorumAnswer) why() []string {
	v, held := a.verdict, a.held()
	why := fmt.Sprintf("Why: the holder has %d of %d votes. ", held, a.law.Members)
	if a.twoHold() && !v.TwoHold {
		return []string{why + fmt.Sprintf(
			"Once %s early, two clients can hold, and in the simulation that happened.",
			count(v.From, "vote ends", "votes end"))}
	}
	free := a.law.Members - held + v.Ended
	why += fmt.Sprintf("%s, so a second client can get %s, and needs %d.", a.whatEnds(),
		count(free, "vote", "votes"), v.Majority)
	switch {
	case v.TwoHold:
		return []string{why, a.toChange()}
	case v.Survives == 0:
		return []string{why, "Room: none. If one vote ends early, two clients can hold."}
	}
	return []string{why, fmt.Sprintf("Room: %s may end early in one lease. With one more, two clients can hold.",
		count(v.Survives, "vote", "votes"))}
}

func (a *quorumAnswer) held() int {
	if a.law.Votes == 0 {
		return a.law.Members
	}
	return a.law.Votes
}

func (a *quorumAnswer) whatEnds() string {
	switch a.verdict.Ended {
	case 0:
		return "None of them ends early"
	case 1:
		return "1 of them ends early"
	}
	return fmt.Sprintf("%d of them end early", a.verdict.Ended)
}

// may says how many votes may end early.
func may(n int) string {
	if n == 0 {
		return "none may end early"
	}
	return fmt.Sprintf("%d may end early", n)
}

// toChange says what would make two holders impossible.
func (a *quorumAnswer) toChange() string {
	var ways []string
	safe := func(l votes.Law) bool {
		v, err := l.Verdict()
		return err == nil && !v.TwoHold
	}
	all, wait := a.law, a.law
	all.Votes, wait.Wait = 0, true
	if a.held() < a.law.Members && safe(all) {
		ways = append(ways, fmt.Sprintf("take all %d votes", a.law.Members))
	}
	if a.law.Restarted > 0 && safe(wait) {
		ways = append(ways, "let restarted members wait (--restarted-wait)")
	}
	// With all votes of 2n + 1 members, n may end early.
	if most := 2*(a.law.Lost+a.law.Restarted+a.law.Jumped) + 1; most > a.law.Members && most <= mostMembers {
		ways = append(ways, fmt.Sprintf("use %d members and take all votes", most))
	}
	ways = append(ways, "give the resource a fence, which tells the two holders apart")
	return "To change: " + strings.Join(ways, "; or ") + "."
}

func (a *quorumAnswer) ofRestarts() string {
	if a.law.Wait {
		return "Restarted members do not vote until the lease has passed, so no restart counts: every holder that had their votes has stopped by then."
	}
	return "A restart counts because the member votes at once. getsetlock clients let it wait: --restarted-wait."
}

// seen says what the simulation saw.
func (a *quorumAnswer) seen() string {
	r := a.rates
	often := "never"
	if r.Episodes > 0 {
		often = count(int(r.Episodes), "time", "times")
	}
	return fmt.Sprintf(
		"Simulated: %s with %d acquisitions. Two clients held at once: %s. Votes that ended early: %d.",
		long(r.Span), r.Acquisitions, often, r.EarlyEnds)
}

func (a *quorumAnswer) print(e *out.Env) {
	fmt.Fprintln(e.Stdout, a.sentence())
	for _, w := range a.words() {
		fmt.Fprintln(e.Stdout, w)
	}
	fmt.Fprintln(e.Stdout)
	g := out.NewGrid(out.Left("what"), out.Right("value"))
	for _, r := range []struct {
		what  string
		value int
	}{
		{"members", a.law.Members}, {"majority", a.verdict.Majority}, {"may be away", a.verdict.Away},
		{"holder's votes", a.held()}, {"end early", a.verdict.Ended}, {"two can hold from", a.verdict.From},
		{"with a bare majority from", a.bare.From},
	} {
		g.Add(r.what, strconv.Itoa(r.value))
	}
	e.Print(g)
	if r := a.rates; r != nil {
		fmt.Fprintln(e.Stdout)
		g := out.NewGrid(out.Left("simulated"), out.Right("value"))
		for _, row := range [][2]string{
			{"clients", strconv.Itoa(a.question.clients)},
			{"time simulated", long(r.Span)},
			{"acquisitions", strconv.FormatInt(r.Acquisitions, 10)},
			{"made while another held", strconv.FormatInt(r.Entries, 10)},
			{"episodes", strconv.FormatInt(r.Episodes, 10)},
			{"longest episode", out.Short(r.LongestEpisode)},
			{"votes that ended early", strconv.FormatInt(r.EarlyEnds, 10)},
			{"leases lost", strconv.FormatInt(r.Lost, 10)},
			{"attempts refused", strconv.FormatInt(r.Refused, 10)},
		} {
			g.Add(row[0], row[1])
		}
		e.Print(g)
	}
	a.printExplored(e)
}

func (a *quorumAnswer) printExplored(e *out.Env) {
	x := a.explored
	if x == nil {
		return
	}
	fmt.Fprintln(e.Stdout)
	switch {
	case x.Found:
		fmt.Fprintf(e.Stdout, "Explored: the shortest way to two holders. Members are A to %c.\n\n",
			'A'+rune(a.law.Members-1))
		g := out.NewGrid(out.Right("tick"), out.Left("who"), out.Left("event"))
		for _, s := range x.Trace {
			g.Add(strconv.Itoa(s.At), s.Who, s.Does)
		}
		e.Print(g)
	case x.Complete:
		fmt.Fprintf(e.Stdout, "Explored: all %d states; two clients never hold at once.\n", x.States)
	default:
		fmt.Fprintf(e.Stdout,
			"Explored: %d states without two holders. There are more states, so this proves nothing.\n", x.States)
	}
}
