// Package benchverb is the verb bench: the benchmarks of package bench on a user's own server.
package benchverb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/bench"
)

const benchLong = `Measures the locks of this program on your server, each beside the same commands sent
without any lock around them ("bare"). Every measurement runs in processes of its own;
adapters take turns within a round; a ratio is the median of the ratios within rounds.
Microseconds are your machine's and your network's; ratios hold as long as nothing else
changes meanwhile.

Keys begin with getsetlock:bench: and a random word; what a lock keeps beside them, with
gsl: and has that word too. They have a TTL, or are deleted as the old clients do it; at
the end, and after ^C, the keyspace is looked through once (SCAN) for what was left over.
A bench that is killed (SIGKILL) leaves counters of fencing numbers without a TTL,
gsl:fence:getsetlock-bench-…, which the next one deletes when they are an hour old.
The server is kept busy on purpose: mind whom else it serves.

Scenarios, all of them by default but the last two:
%s
Columns: gap is the time from a release to the next acquisition by anybody; starved
are goroutines that got nothing; Jain's index is 1 where shares are even; messages are
commands sent an acquisition.`

// benchFlags are what to measure, and where.
type benchFlags struct {
	server   out.ServerFlags
	scenario []string
	rounds   int
	quick    bool
	asJSON   bool
}

// New returns the verb bench.
func New(e *out.Env) *cobra.Command {
	f := benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the locks on your server, beside bare commands",
		Long:  fmt.Sprintf(benchLong, benchList()),
		Example: out.Examples(
			"getsetlock bench --redis redis://127.0.0.1:6379",
			"getsetlock bench --scenario uncontended,processes --rounds 5",
			"taskset -c 0 getsetlock bench --json      # on one CPU; the server should be there too",
		),
		Args: out.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("rounds") && f.rounds < 1 {
				return out.WrongUse("--rounds is %d; it must be positive", f.rounds)
			}
			return f.run(e, cmd.Context())
		},
	}
	f.server.Register(cmd)
	f.server.QuietFlag(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.scenario, "scenario", nil, "measure only these, separated by commas; a name's part before a slash means all of them")
	out.Complete(cmd, "scenario", out.Choices(benchNames()...))
	flags.IntVar(&f.rounds, "rounds", 0, "rounds of each scenario (default: each scenario's own number)")
	flags.BoolVar(&f.quick, "quick", false, "only see that everything works: short windows, one round, figures without meaning")
	out.JSONFlag(cmd, &f.asJSON)
	return cmd
}

// benchScenarios are those that need no other library; the last ones are asked for by name only.
func benchScenarios() (usual, heavy []bench.Scenario) {
	for _, s := range bench.Scenarios(nil, nil) {
		if s.Name == "leases/100000" || s.Name == "waiters" {
			heavy = append(heavy, s)
			continue
		}
		usual = append(usual, s)
	}
	return usual, heavy
}

func benchNames() (names []string) {
	usual, heavy := benchScenarios()
	for _, s := range append(usual, heavy...) {
		names = append(names, s.Name)
	}
	return names
}

func benchList() string {
	var b strings.Builder
	usual, heavy := benchScenarios()
	for _, s := range append(usual, heavy...) {
		fmt.Fprintf(&b, "  %-16s%s\n", s.Name, s.Title)
	}
	return b.String()
}

func (f *benchFlags) run(e *out.Env, ctx context.Context) error {
	scenarios, heavy := benchScenarios()
	if len(f.scenario) > 0 {
		var err error
		if scenarios, err = bench.Pick(append(scenarios, heavy...), f.scenario...); err != nil {
			return out.WrongUse("--scenario: %w", err)
		}
	}
	pool, address, err := f.server.Open(e)
	if err != nil {
		return err
	}
	pool.Close()
	child, err := benchSelf()
	if err != nil {
		return out.CouldNot(err, "finding this program's own file")
	}
	raw, options := f.server.Picked(e)
	var bar *out.Progress
	r := bench.Runner{
		Adapters: bench.Own(), Scenarios: scenarios, Rounds: f.rounds, Quick: f.quick, Child: child,
		Redis: raw, CACert: options.CACert,
		Prefix: "getsetlock:bench:" + strings.ToLower(rand.Text()[:8]) + ":",
		Progress: func(done, total int, _, _ string) {
			if bar == nil {
				bar = e.Progress(f.server.Quiet, "measuring", int64(total))
			}
			bar.Set(int64(done))
		},
	}
	rep, err := r.Run(ctx)
	if bar != nil {
		bar.End()
	}
	if err != nil {
		return out.CouldNot(err, "measuring on %s", address)
	}
	return f.print(e, scenarios, rep)
}

// print prints what was measured also where something could not be.
func (f *benchFlags) print(e *out.Env, scenarios []bench.Scenario, rep *bench.Report) error {
	if f.asJSON {
		doc := struct {
			Schema   string      `json:"schema"`
			Rows     []bench.Row `json:"rows"`
			Failures []string    `json:"failures"`
			Notes    []string    `json:"notes"`
		}{
			"getsetlock.bench/1", // and where there is nothing to list, an empty list
			append([]bench.Row{}, rep.Rows...), append([]string{}, rep.Failures...), append([]string{}, rep.Notes...),
		}
		if err := e.PrintJSON(doc); err != nil {
			return err
		}
	} else {
		printBench(e, scenarios, rep)
	}
	for _, n := range rep.Notes {
		e.Say(f.server.Quiet, "warning: %s", n)
	}
	if len(rep.Failures) > 0 {
		return out.CouldNot(errors.New(strings.Join(rep.Failures, "; ")), "measuring all of it")
	}
	return nil
}

func printBench(e *out.Env, scenarios []bench.Scenario, rep *bench.Report) {
	for i, s := range scenarios {
		lines := rep.Table(s)
		if len(lines) < 2 {
			continue
		}
		if i > 0 {
			fmt.Fprintln(e.Stdout)
		}
		fmt.Fprintf(e.Stdout, "%s: %s\n", s.Name, s.Title)
		columns := []out.Column{out.Left(lines[0][0])}
		for _, name := range lines[0][1:] {
			columns = append(columns, out.Right(name))
		}
		g := out.NewGrid(columns...)
		for _, line := range lines[1:] {
			cells := make([]any, len(line))
			for i, cell := range line {
				cells[i] = cell
			}
			g.Add(cells...)
		}
		e.Print(g)
	}
}

// benchSelf is the command that makes this program a process of a measurement. Tests put their own
// in its place.
var benchSelf = func() ([]string, error) {
	file, err := os.Executable()
	return []string{file, benchProcessVerb}, err
}

const benchProcessVerb = "bench-process"

// NewProcess is what a benchmark starts; nobody else has any use for it.
func NewProcess(e *out.Env) *cobra.Command {
	return &cobra.Command{
		Use:    benchProcessVerb,
		Short:  "A process of a measurement; bench starts it",
		Long:   "Bench starts this and talks to it. It reads what to do from its standard input and is of no use by hand.",
		Hidden: true,
		Args:   out.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := bench.Child(bench.Own(), e.Stdin, e.Stdout); err != nil {
				return out.WrongUse("%w", err)
			}
			return nil
		},
	}
}
