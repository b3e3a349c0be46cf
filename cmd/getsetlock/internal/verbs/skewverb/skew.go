// SPDX-License-Identifier: Apache-2.0

// Package skewverb is the verb skew: what package skew says about a fleet, in
// words, tables and JSON.
package skewverb

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse/dist"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/simulate"
	"github.com/getsetlock/getsetlock/skew"
)

// skewLong is what --help says, with %s for the presets.
//
//go:embed skew.txt
var skewLong string

// skewFlags are the flags of the verb.
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
		Short: "Say whether wrong clocks, pauses or jobs break a lock",
		Long:  fmt.Sprintf(skewLong, presetList()),
		Example: out.Examples(
			"getsetlock skew --lease 30s --job 5s..40s --spread 400ms",
			"# a kind of clock, and a page with the answer and its causes",
			"getsetlock skew --lease 30s --job 5s..40s --preset chrony --report s.html",
			"# the shortest way to two holders",
			"getsetlock skew --job 20s --delay 50s --explore",
			"# another old client",
			"getsetlock skew --dialect page --lease 5s --job exp:1s --spread 2s",
			"# getsetlock clients that share the locks",
			"getsetlock skew --protocol hardened --job 20s --behind 2m --json",
		),
		Args: out.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(e, cmd) },
	}
	f.register(cmd)
	return cmd
}

func (f *skewFlags) register(cmd *cobra.Command) {
	flags, q := cmd.Flags(), &f.q
	flags.StringVar(&q.protocol, "protocol", "verbatim",
		"which clients take part: "+strings.Join(skewProtocols, ", "))
	out.Complete(cmd, "protocol", out.Choices(skewProtocols...))
	f.dialect.Register(cmd, "what the old clients write (default jedis)")
	flags.DurationVar(&q.lease, "lease", 0,
		"the old clients' lease (default: their dialect's own; with --protocol modern 30s)")
	flags.Var(&q.job, "job", "how long a job holds the lock, a distribution")
	flags.StringVar(&f.trace, "trace", "",
		"file with measured holds, made by audit --record, instead of --job")
	out.ClaimVar(flags, &q.spread, "spread",
		"clock spread: largest difference between two clocks of the fleet (default 0s)")
	out.ClaimVar(flags, &q.behind, "behind",
		"how far the slowest clock is at most behind the server's (default unknown)")
	out.ClaimVar(flags, &q.ahead, "ahead",
		"how far the fastest clock is at most ahead of the server's (default unknown)")
	out.ClaimVar(flags, &q.delay, "delay",
		"longest time from a clock reading to the execution of its write, pauses included (default 0s)")
	flags.StringVar(&f.preset, "preset", "",
		"kind of clocks and pauses, instead of --spread: "+strings.Join(simulate.PresetNames(), ", "))
	out.Complete(cmd, "preset", out.Choices(simulate.PresetNames()...))
	flags.IntVar(&q.clients, "clients", 8, "number of simulated clients")
	flags.DurationVar(&q.poll, "poll", 0,
		"time between a simulated client's attempts (default: the dialect's own)")
	flags.Var(&q.latency, "latency", "time of a simulated message one way, a distribution")
	flags.BoolVar(&f.explore, "explore", false,
		"search all orders of old clients' commands, and print the shortest way to two holders")
	flags.StringVar(&f.report, "report", "", "write a page to this file: the answer, the shortest way to two holders, how long clients wait, the numbers")
	flags.Uint64Var(&q.seed, "seed", 1, "seed of all random choices; the same seed gives the same answer")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print no progress")
	out.JSONFlag(cmd, &f.asJSON)
}

func (f *skewFlags) run(e *out.Env, cmd *cobra.Command) error {
	if err := cmp.Or(f.complete(cmd), out.CheckReport(f.report)); err != nil {
		return err
	}
	a, err := f.work(e, cmd.Context())
	if err != nil {
		return asWrongUse(err)
	}
	if f.report != "" {
		page := a.answer(true)
		page.Title, page.Made = fmt.Sprintf("skew: %s, %s", a.dialect, a.protocol), e.Clock.Now()
		page.Foot = "Made by: " + out.CommandLine(cmd)
		if err := e.SaveReport(f.quiet, f.report, page); err != nil {
			return err
		}
	}
	if f.asJSON {
		err = e.PrintJSON(a.document())
	} else {
		e.PrintAnswer(a.answer(f.explore))
	}
	if err == nil && a.twoHold() {
		return out.Exit(out.CodeBad)
	}
	return err
}

// work answers the question in the ways that the user asked for. The page shows
// all of them.
func (f *skewFlags) work(e *out.Env, ctx context.Context) (*skewAnswer, error) {
	a, err := f.q.answer()
	if err == nil {
		err = a.simulate(e, ctx, f.quiet)
	}
	if err == nil && a.oldHold() && (f.explore || f.report != "") {
		err = a.explore(e, ctx, f.quiet)
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

// complete turns the flags into a question.
func (f *skewFlags) complete(cmd *cobra.Command) error {
	q, given := &f.q, cmd.Flags().Changed
	if err := f.checkProtocol(); err != nil {
		return err
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
		return out.WrongUse(
			"--job is missing: give the time that a job holds the lock, such as 40s or 5s..40s")
	}
	return nil
}

// checkProtocol refuses an unknown protocol, and a search where there is
// nothing to search.
func (f *skewFlags) checkProtocol() error {
	protocol := f.q.protocol
	switch {
	case !slices.Contains(skewProtocols, protocol):
		return out.WrongUse("--protocol %q is unknown; write one of %s", protocol,
			strings.Join(skewProtocols, ", "))
	case f.explore && !f.q.oldHold():
		return out.WrongUse("--explore searches old clients' commands, and with --protocol %s there are none",
			protocol)
	}
	return nil
}

// completeFleet reads the flags that only the simulation needs, and the clocks.
func (f *skewFlags) completeFleet(given func(string) bool) error {
	q := &f.q
	if q.clients < 2 {
		return out.WrongUse("--clients %d: must be at least 2; a single client has no rival", q.clients)
	}
	if !given("preset") {
		return q.checkClocks()
	}
	if given("behind") || given("ahead") {
		return out.WrongUse(
			"--preset says how wrong clocks are, and so do --behind and --ahead: leave one out")
	}
	if given("spread") {
		return out.WrongUse("--preset and --spread both give the clock spread: give one")
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
		return out.WrongUse(
			"--spread %v: clocks from %v behind the server's to %v ahead of it are at most %v apart", spread,
			behind, ahead, behind+ahead)
	}
	return nil
}

// presetSpan is how long a preset's clocks drift and step before the law judges
// them.
const presetSpan = 24 * time.Hour

func readHolds(name string) ([]time.Duration, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, out.WrongUse("--trace %s: %w", name, out.WithoutPath(err))
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

// skewQuestion is the question that the flags ask.
type skewQuestion struct {
	protocol string
	dialect  dialect.Dialect
	lease    time.Duration // 0: the dialect's own
	job      dist.Dist
	holds    []time.Duration // measured holds, instead of job
	spread   time.Duration   // a claim as in dialect.Terms, like the three below
	behind   time.Duration
	ahead    time.Duration
	delay    time.Duration
	seed     uint64

	preset  *simulate.Preset // source of spread and pause
	pause   time.Duration    // longest pause of a process; it lengthens jobs and delays
	clients int
	poll    time.Duration // 0: the dialect's own
	latency dist.Dist
}

// usualLatency is the time of a message within a data centre.
var usualLatency = must(dist.Parse("100us..400us"))

func must(d dist.Dist, err error) dist.Dist {
	if err != nil {
		panic(err) // the text is a constant
	}
	return d
}

// presetList describes the presets and names the source of each.
func presetList() string {
	var b strings.Builder
	for _, p := range simulate.Presets() {
		text := p.Shape + ". " + p.Source
		if p.Ours != "" {
			text += ". Assumed: " + p.Ours
		}
		for n, line := range out.Wrapped(text, 62) {
			name := ""
			if n == 0 {
				name = p.Name
			}
			fmt.Fprintf(&b, "  %-16s%s\n", name, line)
		}
	}
	return b.String()
}

var skewProtocols = []string{"verbatim", "hardened", "modern", "observe", "dual", "sealed"}
