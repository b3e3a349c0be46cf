// Package benchverb is the verb bench: it runs the benchmarks of package bench
// on a user's server.
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
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

const benchLong = `Measures this program's locks on your server, and compares each with the same
commands sent without a lock ("bare"). It keeps the server busy: mind its other
users.

Each measurement runs in its own processes. Within a round the adapters take
turns, and a ratio is the median of the ratios of all rounds. Microseconds
depend on your machines and network. Ratios can be compared, as long as nothing
else changes meanwhile.

Keys begin with getsetlock:bench: and a random word; auxiliary keys begin with
gsl: and contain that word. Keys have a TTL, or the clients delete them as old
clients do. At the end, and after ^C, bench looks once through all keys (SCAN)
for leftovers. A bench that is killed by SIGKILL leaves counters of fencing
numbers without a TTL (gsl:fence:getsetlock-bench-…); the next bench deletes
those older than an hour.

With --quorum it measures a lock on several servers, with and without fencing
numbers, and compares it with the same lock on the first of them.

Scenarios; by default all except the last two:
%s
Columns:
  gap       time from a release to the next acquisition by any client
  starved   goroutines that never got the lock
  jain      Jain's index: 1 if all shares are equal
  messages  commands sent for one acquisition`

// benchFlags say what to measure, and where.
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
		Short: "Measure the locks on your server",
		Long:  fmt.Sprintf(benchLong, benchList()),
		Example: out.Examples(
			"getsetlock bench --redis redis://127.0.0.1:6379",
			"getsetlock bench --scenario uncontended,processes --rounds 5",
			"# on one CPU; run the server there too",
			"taskset -c 0 getsetlock bench --json",
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
	f.server.TargetFlag(cmd)
	f.server.QuorumFlag(cmd)
	f.server.QuietFlag(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.scenario, "scenario", nil,
		"measure only these, separated by commas; the part before a slash names all that begin with it")
	out.Complete(cmd, "scenario", out.Choices(benchNames()...))
	flags.IntVar(&f.rounds, "rounds", 0, "rounds of each scenario (default: each scenario's own number)")
	flags.BoolVar(&f.quick, "quick", false,
		"only check that everything works: short, one round; the figures mean nothing")
	out.JSONFlag(cmd, &f.asJSON)
	return cmd
}

// benchScenarios returns the scenarios that need no other library. heavy ones
// run only when the user names them.
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
		for n, line := range out.Wrapped(s.Title, 58) {
			name := ""
			if n == 0 {
				name = s.Name
			}
			fmt.Fprintf(&b, "  %-18s  %s\n", name, line)
		}
	}
	return b.String()
}

func (f *benchFlags) run(e *out.Env, ctx context.Context) error {
	t, err := f.server.PickTarget(e)
	if err != nil {
		return err
	}
	switch {
	case t != nil:
		return f.runTarget(e, ctx, t)
	case f.server.Quorum:
		return f.runQuorum(e, ctx)
	}
	scenarios, heavy := benchScenarios()
	if scenarios, err = f.picked(scenarios, heavy); err != nil {
		return err
	}
	pool, address, err := f.server.Open(e)
	if err != nil {
		return err
	}
	pool.Close()
	raw, options := f.server.Picked(e)
	return f.measure(e, ctx, address, &bench.Runner{
		Adapters: bench.Own(), Scenarios: scenarios, Redis: raw, Access: bench.AccessOf(options)})
}

// runTarget measures the locks of a store other than Redis.
func (f *benchFlags) runTarget(e *out.Env, ctx context.Context, t *out.Target) error {
	var names []string
	for _, a := range t.Adapters {
		names = append(names, a.Name)
	}
	scenarios, err := f.picked(bench.OfStore(names, t.Base), nil)
	if err != nil {
		return err
	}
	conn, err := t.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Look(ctx, "getsetlock:bench"); err != nil {
		return out.CouldNot(out.ToldBy(conn, err), "measuring on %s", t.Where())
	}
	o := t.Options
	return f.measure(e, ctx, t.Where(), &bench.Runner{
		Adapters: t.Adapters, Scenarios: scenarios, Target: t.Raw,
		Access: bench.Access{Password: o.Password, PasswordFile: o.PasswordFile, CACert: o.CACert,
			Cert: o.Cert,
			Key:  o.Key},
		Clean: func(prefix string) { _ = conn.Clean(context.WithoutCancel(ctx), prefix) },
	})
}

// runQuorum measures a lock on several servers, and the same lock on the first
// of them.
func (f *benchFlags) runQuorum(e *out.Env, ctx context.Context) error {
	members, err := f.server.Members(e)
	if err != nil {
		return err
	}
	var names, addresses []string
	for _, a := range bench.Quorum() {
		names = append(names, a.Name)
	}
	for _, m := range members {
		addresses = append(addresses, m.Raw)
	}
	scenarios, err := f.picked(bench.OfStore(names, bench.QuorumBase), nil)
	if err != nil {
		return err
	}
	b, err := out.Quorum(e, members, modern.Config{}, quorum.Config{GreatestTTL: out.GreatestTTL})
	if err != nil {
		return err
	}
	err = b.Check(ctx).Err()
	_ = b.Close()
	if err != nil {
		return out.CouldNot(err, "measuring on %s", out.Servers(members))
	}
	access := bench.AccessOf(out.AccessOf(members))
	return f.measure(e, ctx, out.Servers(members), &bench.Runner{
		Adapters: bench.Quorum(), Scenarios: scenarios, Target: strings.Join(addresses, " "), Access: access,
		Clean: func(prefix string) { bench.CleanQuorum(addresses, access, prefix) },
	})
}

// picked returns the scenarios of --scenario, else the usual ones.
func (f *benchFlags) picked(usual, heavy []bench.Scenario) ([]bench.Scenario, error) {
	if len(f.scenario) == 0 {
		return usual, nil
	}
	some, err := bench.Pick(append(usual, heavy...), f.scenario...)
	if err != nil {
		return nil, out.WrongUse("--scenario: %w", err)
	}
	return some, nil
}

// measure completes a Runner, runs it and prints what it found.
func (f *benchFlags) measure(e *out.Env, ctx context.Context, address string, r *bench.Runner) error {
	var err error
	if r.Child, err = benchSelf(); err != nil {
		return out.CouldNot(err, "finding this program's own file")
	}
	var bar *out.Progress
	r.Rounds, r.Quick = f.rounds, f.quick
	r.Prefix = "getsetlock:bench:" + strings.ToLower(rand.Text()[:8]) + ":"
	r.Progress = func(done, total int, _, _ string) {
		if bar == nil {
			bar = e.Progress(f.server.Quiet, "measuring", int64(total))
		}
		bar.Set(int64(done))
	}
	rep, err := r.Run(ctx)
	if bar != nil {
		bar.End()
	}
	if err != nil {
		return out.CouldNot(err, "measuring on %s", address)
	}
	return f.print(e, r.Scenarios, rep)
}

// print prints the measurements, also where some measurements failed.
func (f *benchFlags) print(e *out.Env, scenarios []bench.Scenario, rep *bench.Report) error {
	if f.asJSON {
		doc := struct {
			Schema   string      `json:"schema"`
			Rows     []bench.Row `json:"rows"`
			Failures []string    `json:"failures"`
			Notes    []string    `json:"notes"`
		}{
			"getsetlock.bench/1", // with an empty list, not null, where there is nothing to list
			append([]bench.Row{}, rep.Rows...), append([]string{}, rep.Failures...),
			append([]string{}, rep.Notes...),
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

// benchSelf returns the command that starts this program as a process of a
// measurement. Tests replace it.
var benchSelf = func() ([]string, error) {
	file, err := os.Executable()
	return []string{file, benchProcessVerb}, err
}

const benchProcessVerb = "bench-process"

// NewProcess returns the hidden verb that a benchmark starts. It has no other
// use.
func NewProcess(e *out.Env) *cobra.Command {
	return &cobra.Command{
		Use:    benchProcessVerb,
		Short:  "A process of a measurement; bench starts it",
		Long:   "Bench starts this process and talks to it. It reads what to do from its standard input and is of no use by hand.",
		Hidden: true,
		Args:   out.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			adapters := append(bench.Own(), bench.Quorum()...)
			for _, store := range e.Stores {
				adapters = append(adapters, store.Adapters...)
			}
			if err := bench.Child(adapters, e.Stdin, e.Stdout); err != nil {
				return out.WrongUse("%w", err)
			}
			return nil
		},
	}
}
