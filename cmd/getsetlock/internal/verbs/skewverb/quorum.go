package skewverb

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/operator/simulate"
	"github.com/getsetlock/getsetlock/skew"
	"github.com/getsetlock/getsetlock/skew/votes"
)

// quorumFlags are the flags about a lock over several servers.
type quorumFlags struct {
	law    votes.Law
	jumpBy time.Duration // 0: beyond any margin
	every  time.Duration
}

// quorumOnly are the flags that need --quorum, and notOfQuorum those that say
// nothing about one.
var (
	quorumOnly  = []string{"votes", "lose", "restart", "jump", "jump-by", "restarted-wait", "every"}
	notOfQuorum = []string{"protocol", "dialect", "dialect-file", "spread", "behind", "ahead", "delay",
		"trace", "report"}
)

// fewestMembers and mostMembers bound --quorum; mostExplored bounds a search.
const (
	fewestMembers = 3
	mostMembers   = 31
	mostExplored  = 7
)

func (f *quorumFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.law.Members, "quorum", 0,
		"judge a lock over this many servers, its members, instead of a fleet's old lock")
	flags.IntVar(&f.law.Votes, "votes", 0,
		"how many members confirmed the holder's last round (default all; redsync's WithFailFast: a majority)")
	flags.IntVar(&f.law.Lost, "lose", 0, "how many members lose the key")
	flags.IntVar(&f.law.Restarted, "restart", 0, "how many members restart without the key")
	flags.IntVar(&f.law.Jumped, "jump", 0, "how many members' clocks jump forwards")
	flags.DurationVar(&f.jumpBy, "jump-by", 0,
		"how far these clocks jump; a tenth of --lease ends no vote early (default: far)")
	flags.BoolVar(&f.law.Wait, "restarted-wait", false,
		"restarted members do not vote until the lease has passed, as getsetlock has it")
	flags.DurationVar(&f.every, "every", 0,
		"simulate members that lose the key this often, each by itself; with --restarted-wait, that restart")
}

// quorumAnswer is the answer about a lock over several servers.
type quorumAnswer struct {
	quorumFlags
	question skewQuestion
	verdict  votes.Verdict
	bare     votes.Verdict // of a holder with a bare majority
	within   bool          // the jumps are within the margin
	explored *votes.Exploration
	rates    *simulate.QuorumRates
}

// margin is how long before its end a lease is no longer trusted.
func (a *quorumAnswer) margin() time.Duration { return a.question.lease / 10 }

// completeQuorum checks the flags, and makes an answer of them that has the
// law's part.
func (f *skewFlags) completeQuorum(given func(string) bool) (*quorumAnswer, error) {
	a := &quorumAnswer{quorumFlags: f.quorum, question: f.q}
	if a.question.lease == 0 && !given("lease") {
		a.question.lease = modernLease
	}
	if err := a.checkFlags(f.explore, given); err != nil {
		return nil, err
	}
	if err := a.completeSimulation(f, given); err != nil {
		return nil, err
	}
	if a.within = given("jump-by") && a.jumpBy <= a.margin(); a.within {
		a.law.Jumped = 0
	}
	return a, a.judge()
}

// checkFlags refuses values and combinations that make no sense.
func (a *quorumAnswer) checkFlags(explore bool, given func(string) bool) error {
	if i := slices.IndexFunc(notOfQuorum, given); i >= 0 {
		return out.WrongUse("--%s is about old clients, and --quorum asks about votes: leave one out",
			notOfQuorum[i])
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"lease", a.question.lease}, {"jump-by", a.jumpBy}, {"every", a.every}, {"poll", a.question.poll}} {
		if given(d.name) && d.value <= 0 {
			return out.WrongUse("--%s %v: it must be above zero", d.name, d.value)
		}
	}
	switch n := a.law.Members; {
	case n < fewestMembers || n > mostMembers:
		return out.WrongUse("--quorum %d: must be from %d to %d; of fewer than 3 members none may be away", n,
			fewestMembers, mostMembers)
	case explore && n > mostExplored:
		return out.WrongUse("--explore searches at most %d members: leave it out, the law covers %d",
			mostExplored, n)
	case given("jump-by") && a.law.Jumped == 0:
		return out.WrongUse("--jump-by says how far clocks jump: say by --jump how many of them do")
	case given("restarted-wait") && a.law.Restarted == 0 && !given("every"):
		return out.WrongUse(
			"--restarted-wait says what restarted members do: say by --restart how many there are, or use --every")
	}
	return nil
}

// completeSimulation checks the flags that only the simulation needs.
func (a *quorumAnswer) completeSimulation(f *skewFlags, given func(string) bool) error {
	simulates := given("every") || given("preset")
	switch {
	case simulates && !given("job"):
		return out.WrongUse(
			"--job is missing: to simulate, give the time that a job holds the lock, such as 40s or 5s..40s")
	case given("job") && !simulates:
		return out.WrongUse(
			"--job is for the simulation: say by --every how often a member loses the key, or give a --preset")
	case simulates && f.q.clients < 2:
		return out.WrongUse("--clients %d: must be at least 2; a single client has no rival", f.q.clients)
	}
	if a.question.poll == 0 {
		a.question.poll = max(time.Millisecond, a.question.lease/30)
	}
	if !given("preset") {
		return nil
	}
	p, err := simulate.Lookup(f.preset)
	if err != nil {
		return asWrongUse(err)
	}
	a.question.preset = &p
	return nil
}

// judge asks the law.
func (a *quorumAnswer) judge() error {
	var err error
	if a.verdict, err = a.law.Verdict(); err != nil {
		return quorumWrongUse(err)
	}
	bare := a.law
	bare.Votes = a.verdict.Majority
	a.bare, err = bare.Verdict()
	return err
}

// quorumWrongUse names the flag that an impossible count came from.
func quorumWrongUse(err error) error {
	var bad *skew.ParameterError
	if errors.As(err, &bad) {
		name := map[string]string{"Votes": "votes", "Lost": "lose", "Restarted": "restart", "Jumped": "jump",
			"TTL": "lease", "Retry": "poll"}[bad.Field]
		if name == "" {
			name = strings.ToLower(bad.Field)
		}
		return out.WrongUse("--%s %v: must be %s", name, bad.Value, bad.Bound)
	}
	return err
}

// runQuorum answers a question about a lock over several servers.
func (f *skewFlags) runQuorum(e *out.Env, cmd *cobra.Command) error {
	a, err := f.completeQuorum(cmd.Flags().Changed)
	if err != nil {
		return err
	}
	if a.question.preset != nil || a.every > 0 {
		if err := a.simulate(e, cmd.Context(), f.quiet); err != nil {
			return err
		}
	}
	if f.explore {
		if err := a.explore(e, cmd.Context(), f.quiet); err != nil {
			return err
		}
	}
	if f.asJSON {
		err = e.PrintJSON(a.document())
	} else {
		a.print(e)
	}
	if err == nil && a.twoHold() {
		return out.Exit(out.CodeBad)
	}
	return err
}

// twoHold reports whether two clients can hold at once, by any of the answers.
func (a *quorumAnswer) twoHold() bool {
	return a.verdict.TwoHold || a.explored != nil && a.explored.Found || a.rates != nil && a.rates.Entries > 0
}

// simulated returns the members and clients of the simulation. The clients'
// jobs together would fill half of the time.
func (a *quorumAnswer) simulated() (simulate.Quorum, error) {
	asked := &skewAnswer{skewQuestion: a.question, jobs: a.question.drawJobs()}
	q := simulate.Quorum{
		Members: a.law.Members, Votes: a.law.Votes, Clients: a.question.clients, TTL: a.question.lease,
		Margin: a.margin(),
		Retry:  a.question.poll, Wait: a.law.Wait, Acquisitions: simAcquisitions, For: simSpan,
		Seed: a.question.seed,
	}
	if q.Lost = a.every; q.Wait {
		q.Lost, q.Restarted = 0, a.every
	}
	if p := a.question.preset; p != nil {
		// What a preset says of the server's clock befalls the members.
		q.Clocks = p.Clocks
		if s := q.Clocks.Server; s.Any() {
			q.Clocks = simulate.Clocks{Step: s.Step, Slew: s.Slew}
		}
	}
	q.Job, q.Latency = a.question.job.Distribution, a.question.latency.Distribution
	rest := max(time.Millisecond, 2*time.Duration(q.Clients)*asked.meanJob())
	var err error
	q.Rest, err = simulate.ParseDistribution("job", "exp:"+min(rest, longestRest).String())
	return q, err
}

func (a *quorumAnswer) simulate(e *out.Env, ctx context.Context, quiet bool) error {
	q, err := a.simulated()
	if err != nil {
		return quorumWrongUse(err)
	}
	bar := e.Progress(quiet, "simulating", 100)
	defer bar.End()
	events := 0
	rates, err := q.Run(func(done float64) bool {
		events += 1 << 16
		bar.Set(int64(100 * max(done, float64(events)/float64(simEvents))))
		return events < simEvents && ctx.Err() == nil
	})
	if cause := context.Cause(ctx); cause != nil {
		return out.CouldNot(cause, "simulating")
	}
	if err != nil {
		return quorumWrongUse(err)
	}
	a.rates = &rates
	return nil
}

// exploredTicks is the lease of a search, in ticks. The law's answer does not
// depend on it.
const exploredTicks = 2

func (a *quorumAnswer) explore(e *out.Env, ctx context.Context, quiet bool) error {
	bar := e.Progress(quiet, "exploring", -1)
	defer bar.End()
	sc := votes.Scenario{Members: a.law.Members, Votes: a.law.Votes, TTL: exploredTicks, Lost: a.law.Lost,
		Restarted: a.law.Restarted, Jumped: a.law.Jumped, Wait: a.law.Wait, MaxStates: exploreStates}
	x, err := awaited(ctx, func() (votes.Exploration, error) { return votes.Explore(sc) })
	if err != nil {
		return out.CouldNot(err, "exploring")
	}
	a.explored = &x
	return nil
}
