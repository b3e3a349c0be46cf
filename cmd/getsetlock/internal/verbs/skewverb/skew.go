// Package skewverb is the verb skew: what package skew says of a fleet, in words, tables and JSON.
package skewverb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse/dist"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
	"github.com/getsetlock/getsetlock/skew/offset"
	"github.com/getsetlock/getsetlock/skew/simulate"
)

const skewLong = `Says what the clocks of a fleet, its pauses and its jobs do to its lock: can two clients
hold at once, why, how often, and what to change. It asks no server and reads no clock: the
answer is about the numbers that it is given, and as right as they are.

--job is how long a job runs from winning the lock to the server having executed the
release. --spread is the greatest clock of the fleet less the smallest; how far all of them
are from true time together does not count. --delay is the longest time from a client's
reading its clock to the server executing its write: a long pause of a process counts.
--behind and --ahead are how far the slowest clock is behind the server's, and the fastest
ahead of it. They are nothing to old clients alone, but getsetlock clients beside them go by
the server's clock. None of the three stands in for another; 0s claims none, and without the
flag --behind and --ahead are not known.
--preset says for --spread, steps and pauses what is known of a kind of clock; the law is
asked about a day of it, and the simulation about one such day after the other.

Protocols:
  verbatim  old clients alone
  hardened  ours beside old clients, stamps on the old key; observe is another name for it
  dual      ours beside old clients, guards on the old key
Without --behind ours take an old lock over only by a second look, as long after the first
as the lease lasts; with it, as soon as the server's clock is so far past the stamp.
  sealed    ours alone, old clients are kept waiting
  modern    ours alone, the old key is not looked at; --lease is the lease of ours

The closed form answers for the worst that the numbers admit. A simulation says how often
it happens: together the clients' jobs would fill half of the time, clocks stand evenly over
the spread, and pauses are those of the preset; that of --delay is not in it. Beside old
clients ours are half of the fleet, else all of it; it counts how many of their leases were
told lost, and by what.
--explore searches all interleavings of a few clients' commands, in times rounded to a few
ticks, and prints the shortest way to two holders.

Presets:
%s
Exit 0 if two clients cannot hold at once, 1 if they can.
A distribution is 5s (always), 5s..40s (uniform), exp:10s, lognormal:p50=5s,p99=40s or
file:NAME (a duration a line). The two without an end are drawn from 100000 times by
--seed, and the longest job drawn counts as the longest.`

// skewFlags are the question as the command line has it.
type skewFlags struct {
	q       skewQuestion
	dialect out.DialectFlags
	trace   string
	preset  string
	report  string
	explore bool
	asJSON  bool
	quiet   bool
}

// New returns the verb skew.
func New(e *out.Env) *cobra.Command {
	f := skewFlags{q: skewQuestion{latency: usualLatency}}
	cmd := &cobra.Command{
		Use:   "skew",
		Short: "Say what drifting clocks, pauses and long jobs do to a fleet's lock",
		Long:  fmt.Sprintf(skewLong, presetList()),
		Example: out.Examples(
			"getsetlock skew --lease 30s --job 5s..40s --spread 400ms",
			"getsetlock skew --lease 30s --job 5s..40s --preset timesyncd --report skew.html",
			"getsetlock skew --job 20s --delay 50s --explore    # the shortest way to two holders",
			"getsetlock skew --dialect page --lease 5s --job exp:1s --spread 2s --clients 20",
			"getsetlock skew --protocol hardened --job 20s --spread 1s --json",
			"getsetlock skew --protocol hardened --job 20s --behind 2m",
		),
		Args: out.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(e, cmd) },
	}
	f.register(cmd)
	return cmd
}

func (f *skewFlags) register(cmd *cobra.Command) {
	flags, q := cmd.Flags(), &f.q
	flags.StringVar(&q.protocol, "protocol", "verbatim", "who takes part: "+strings.Join(skewProtocols, ", "))
	out.Complete(cmd, "protocol", out.Choices(skewProtocols...))
	f.dialect.Register(cmd, "what the old clients write (default jedis)")
	flags.DurationVar(&q.lease, "lease", 0, "the old clients' lease (default: their dialect's own; with --protocol modern 30s)")
	flags.Var(&q.job, "job", "how long a job holds the lock, a distribution")
	flags.StringVar(&f.trace, "trace", "", "a record of measured holds, instead of --job")
	out.ClaimVar(flags, &q.spread, "spread", "how far the fleet's clocks are apart (default 0s)")
	out.ClaimVar(flags, &q.behind, "behind", "how far the slowest clock is behind the server's at most (default unknown)")
	out.ClaimVar(flags, &q.ahead, "ahead", "how far the fastest clock is ahead of the server's at most (default unknown)")
	out.ClaimVar(flags, &q.delay, "delay", "the longest time from a clock reading to its write being executed, pauses included (default 0s)")
	flags.StringVar(&f.preset, "preset", "", "a kind of clocks and pauses, instead of --spread: "+strings.Join(simulate.PresetNames(), ", "))
	out.Complete(cmd, "preset", out.Choices(simulate.PresetNames()...))
	flags.IntVar(&q.clients, "clients", 8, "how many clients are simulated")
	flags.DurationVar(&q.poll, "poll", 0, "how often a simulated client asks for a held key (default: the dialect's own)")
	flags.Var(&q.latency, "latency", "how long a simulated message takes one way, a distribution")
	flags.BoolVar(&f.explore, "explore", false, "search all interleavings, and print the shortest way to two holders")
	flags.StringVar(&f.report, "report", "", "write a page with plots and tables to this file")
	flags.Uint64Var(&q.seed, "seed", 1, "what random choices are drawn from; the same seed gives the same answer")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print no progress")
	out.JSONFlag(cmd, &f.asJSON)
}

func (f *skewFlags) run(e *out.Env, cmd *cobra.Command) error {
	if err := f.complete(cmd); err != nil {
		return err
	}
	a, err := f.work(e, cmd.Context())
	if err != nil {
		return asWrongUse(err)
	}
	if f.report != "" {
		if err := report.Save(f.report, a.page()); err != nil {
			var p *os.PathError
			if errors.As(err, &p) {
				err = p.Err // of the file that was being filled, whose name tells nobody anything
			}
			return out.CouldNot(err, "writing --report %s", f.report)
		}
	}
	if f.asJSON {
		err = e.PrintJSON(a.document())
	} else {
		printSkew(e, a, f.explore)
	}
	if err == nil && a.twoHold() {
		return out.Exit(out.CodeBad)
	}
	return err
}

// work answers, by as many of the ways as were asked for. The page shows them all.
func (f *skewFlags) work(e *out.Env, ctx context.Context) (*skewAnswer, error) {
	a, err := f.q.answer()
	if err == nil {
		err = a.simulate(e, ctx, f.quiet)
	}
	if err == nil && (f.explore || f.report != "") {
		err = a.explore(e, ctx, f.quiet)
	}
	if err == nil && f.report != "" {
		err = a.simulateSpreads(e, ctx, f.quiet)
	}
	return a, err
}

// asWrongUse names the flag that an impossible value came from.
func asWrongUse(err error) error {
	var bad *skew.ParameterError
	var said *out.ExitError
	switch {
	case errors.As(err, &said):
		return err
	case errors.As(err, &bad):
		return out.WrongUse("--%s %v: must be %s", strings.ToLower(bad.Field), bad.Value, bad.Bound)
	}
	return out.WrongUse("%w", err)
}

// complete makes a question of the flags.
func (f *skewFlags) complete(cmd *cobra.Command) error {
	q, given := &f.q, cmd.Flags().Changed
	if !slices.Contains(skewProtocols, q.protocol) {
		return out.WrongUse("--protocol %q is not known; it is one of %s", q.protocol, strings.Join(skewProtocols, ", "))
	}
	var err error
	if q.dialect, err = f.dialect.Pick(); err != nil {
		return err
	}
	if given("lease") && q.lease <= 0 {
		return out.WrongUse("--lease %v: it must be above zero", q.lease)
	}
	if given("poll") && q.poll <= 0 {
		return out.WrongUse("--poll %v: it must be above zero", q.poll)
	}
	if err := f.completeFleet(given); err != nil {
		return err
	}
	switch {
	case given("job") && given("trace"):
		return out.WrongUse("--job and --trace both say how long jobs run: give one")
	case given("trace"):
		q.holds, err = readHolds(f.trace)
		return err
	case !given("job"):
		return out.WrongUse("--job is missing: say how long a job holds the lock, such as 40s or 5s..40s")
	}
	return nil
}

// completeFleet reads what the simulation needs beside the law's numbers.
func (f *skewFlags) completeFleet(given func(string) bool) error {
	q := &f.q
	if q.clients < 2 {
		return out.WrongUse("--clients %d: must be at least 2; one alone has nobody to hold beside", q.clients)
	}
	if !given("preset") {
		return q.checkClocks()
	}
	if given("behind") || given("ahead") {
		return out.WrongUse("--preset says how wrong clocks are, --behind and --ahead too: give one")
	}
	if given("spread") {
		return out.WrongUse("--preset and --spread both say how far clocks are apart: give one")
	}
	p, err := simulate.Lookup(f.preset)
	if err != nil {
		return asWrongUse(err)
	}
	q.preset, q.spread = &p, dialect.Claim(p.Clocks.Spread(presetSpan))
	for _, pause := range p.Clocks.Pauses {
		q.pause = max(q.pause, pause.For)
	}
	return nil
}

// checkClocks refuses bounds that contradict each other.
func (q *skewQuestion) checkClocks() error {
	behind, known := dialect.Claimed(q.behind)
	ahead, alsoKnown := dialect.Claimed(q.ahead)
	if spread, _ := dialect.Claimed(q.spread); known && alsoKnown && spread > behind+ahead {
		return out.WrongUse("--spread %v: clocks from %v behind the server's to %v ahead of it are at most %v apart", spread, behind, ahead, behind+ahead)
	}
	return nil
}

// presetSpan is how long a preset's clocks drift and step before the law is asked.
const presetSpan = 24 * time.Hour

func readHolds(name string) ([]time.Duration, error) {
	file, err := os.Open(name)
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err // the path stands before it already
		}
		return nil, out.WrongUse("--trace %s: %w", name, err)
	}
	defer file.Close()
	holds, err := offset.ReadHolds(file)
	if err == nil && len(holds) == 0 {
		err = errors.New("there is no hold in it")
	}
	if err != nil {
		return nil, out.WrongUse("--trace %s: %w", name, err)
	}
	return holds, nil
}

// skewQuestion is what is asked, worked out from flags.
type skewQuestion struct {
	protocol string
	dialect  dialect.Dialect
	lease    time.Duration // 0: the dialect's own
	job      dist.Dist
	holds    []time.Duration // measured; instead of job
	spread   time.Duration   // as dialect.Terms has it, like the three below
	behind   time.Duration
	ahead    time.Duration
	delay    time.Duration
	seed     uint64

	preset  *simulate.Preset // spread and pause come from it
	pause   time.Duration    // the longest of a process; lengthens jobs and delays
	clients int
	poll    time.Duration // 0: the dialect's own
	latency dist.Dist
}

// usualLatency is a message's way within a data centre.
var usualLatency = must(dist.Parse("100us..400us"))

func must(d dist.Dist, err error) dist.Dist {
	if err != nil {
		panic(err) // the text is ours
	}
	return d
}

// presetList names the presets, what they are, and who measured it.
func presetList() string {
	var b strings.Builder
	for _, p := range simulate.Presets() {
		text := p.Shape + ". " + p.Source
		if p.Ours != "" {
			text += ". Assumed: " + p.Ours
		}
		for n, line := range presetLines(text) {
			name := ""
			if n == 0 {
				name = p.Name
			}
			fmt.Fprintf(&b, "  %-16s%s\n", name, line)
		}
	}
	return b.String()
}

// presetLines breaks a text at blanks.
func presetLines(text string) []string {
	const width = 76
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

var skewProtocols = []string{"verbatim", "hardened", "modern", "observe", "dual", "sealed"}

// exploring runs a search, which cannot be stopped, beside whoever waits for it.
func exploring(ctx context.Context, sc skew.Scenario) (skew.Exploration, error) {
	type found struct {
		x   skew.Exploration
		err error
	}
	done := make(chan found, 1) // nobody takes it from a search that was left alone
	go func() {
		x, err := skew.Explore(sc)
		done <- found{x, err}
	}()
	select {
	case f := <-done:
		return f.x, f.err
	case <-ctx.Done():
		return skew.Exploration{}, context.Cause(ctx)
	}
}
