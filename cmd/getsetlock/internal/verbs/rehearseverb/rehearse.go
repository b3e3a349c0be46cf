// SPDX-License-Identifier: Apache-2.0

// Package rehearseverb is the verb rehearse: it runs package rehearse and
// prints its tables.
package rehearseverb

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse"
	"github.com/getsetlock/getsetlock/internal/operator/simulate"
)

// rehearseLong has a place for the list of protocols.
//
//go:embed rehearse.txt
var rehearseLong string

// rehearseFlags are a plan and the flags that are not part of it.
type rehearseFlags struct {
	plan    rehearse.Plan
	dialect out.DialectFlags
	server  out.ServerFlags
	orders  string
	report  string
	how     string // command line that makes the report again
	phases  bool
	asJSON  bool
}

// New returns the verb rehearse.
func New(e *out.Env) *cobra.Command {
	f := rehearseFlags{plan: rehearse.DefaultPlan()}
	cmd := &cobra.Command{
		Use:   "rehearse",
		Short: "Let a fleet of clients sell goods, and count overselling",
		Long:  fmt.Sprintf(strings.TrimSpace(rehearseLong), protocolList()),
		Example: out.Examples(
			"getsetlock rehearse",
			"getsetlock rehearse --protocol none      # what happens without a lock",
			"getsetlock rehearse --report r.html      # both, side by side, on a page",
			"getsetlock rehearse --phases             # a whole migration",
			"getsetlock rehearse --phases --report r.html",
			"getsetlock rehearse --preset jepsen      # machines with wrong clocks",
			"getsetlock rehearse --protocol watch     # WATCH and MULTI, not a lock",
			"getsetlock rehearse --orders orders.csv --clients 20 --json",
			"getsetlock rehearse --dialect redis-py --lease 10s --overruns 3",
			"getsetlock rehearse --redis redis://127.0.0.1:6379",
		),
		Args: out.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(e, cmd) },
	}
	f.register(cmd)
	return cmd
}

func (f *rehearseFlags) register(cmd *cobra.Command) {
	p, flags := &f.plan, cmd.Flags()
	flags.StringVar(&p.Protocol, "protocol", p.Protocol,
		"how the programs exclude each other: "+strings.Join(rehearse.Protocols(), ", "))
	out.Complete(cmd, "protocol", out.Choices(rehearse.Protocols()...))
	flags.BoolVar(&f.phases, "phases", false, "rehearse all phases of a migration, instead of --protocol")
	f.dialect.Register(cmd, "what the old clients write (default jedis)")
	flags.IntVar(&p.Clients, "clients", p.Clients, "number of programs")
	flags.StringVar(&f.orders, "orders", "", "CSV file of orders (default: a built-in list)")
	flags.IntVar(&p.Acquisitions, "acquisitions", p.Acquisitions,
		"number of orders; the list is repeated as needed; with --redis 1000 by default")
	flags.Uint64Var(&p.Seed, "seed", p.Seed, "seed of all random choices")
	flags.DurationVar(&p.Lease, "lease", 0,
		"the old clients' lease (default: their dialect's own; with --redis 5s)")
	flags.DurationVar(&p.Poll, "poll", 0,
		"time between an old client's attempts (default: the dialect's own)")
	flags.DurationVar(&p.Spread, "spread", 0,
		"largest difference between two programs' clocks, which the new clients know")
	flags.StringVar(&p.Preset, "preset", "",
		"kind of wrong clocks and pauses, instead of --spread: "+strings.Join(machinePresets(), ", "))
	out.Complete(cmd, "preset", out.Choices(machinePresets()...))
	flags.Var(&p.Latency, "latency", "time of a message one way, a distribution; not with --redis")
	flags.Var(&p.Job, "job", "time of a program between reading and writing, a distribution")
	flags.IntVar(&p.Crashes, "crashes", p.Crashes, "number of holders of each kind that die")
	flags.IntVar(&p.Overruns, "overruns", 0, "number of old clients' jobs that outlast their lease")
	f.server.RegisterAddress(cmd, "rehearse on this server, in real time: redis://[user:password@]host:port/db, rediss:// (TLS), unix:///path, redis+sentinel://host,host/master, rediss+sentinel:// (TLS)")
	f.server.RegisterFiles(cmd)
	out.Complete(cmd, "redis", cobra.NoFileCompletions)
	flags.StringVar(&f.report, "report", "",
		"write a page to this file: one product's history without a lock and with it; with --phases, the phases over time")
	f.server.QuietFlag(cmd)
	out.JSONFlag(cmd, &f.asJSON)
}

func protocolList() string {
	var b strings.Builder
	for _, name := range rehearse.Protocols() {
		fmt.Fprintf(&b, "  %-8s%s\n", name, rehearse.About(name))
	}
	return b.String()
}

func (f *rehearseFlags) run(e *out.Env, cmd *cobra.Command) error {
	if err := f.complete(cmd); err != nil {
		return err
	}
	res, err := f.rehearse(e, cmd.Context(), "rehearsing")
	if err != nil {
		return err
	}
	var publishing error
	if f.report != "" {
		publishing = f.publish(e, cmd.Context(), res)
	}
	// The answer is printed even if there is no page.
	if f.asJSON {
		err = e.PrintJSON(res)
	} else {
		printRehearsal(e, res)
	}
	if err = cmp.Or(publishing, err); err == nil && !res.OK {
		return out.Exit(out.CodeBad)
	}
	return err
}

// complete fills in the plan from the flags.
func (f *rehearseFlags) complete(cmd *cobra.Command) error {
	p, given := &f.plan, cmd.Flags().Changed
	var err error
	if p.Dialect, err = f.dialect.Pick(); err != nil {
		return err
	}
	if f.phases {
		if given("protocol") {
			return out.WrongUse("--phases rehearses all protocols of a migration: leave out --protocol")
		}
		p.Move()
	}
	if given("orders") {
		if p.Orders, err = readOrders(f.orders); err != nil {
			return out.WrongUse("--orders %s: %w", f.orders, err)
		}
		if !given("acquisitions") {
			p.Acquisitions = max(p.Acquisitions, len(p.Orders))
		}
	}
	if err := f.place(given); err != nil {
		return err
	}
	for _, flag := range []string{"lease", "poll"} {
		if v, _ := cmd.Flags().GetDuration(flag); given(flag) && v <= 0 {
			return out.WrongUse("--%s %v: it must be above zero", flag, v)
		}
	}
	if err := p.Validate(); err != nil {
		return out.WrongUse("%w", err)
	}
	f.how = out.CommandLine(cmd)
	return f.checkReport()
}

// place decides on which server the rehearsal runs.
func (f *rehearseFlags) place(given func(flag string) bool) error {
	switch {
	case !given("redis") && given("cacert"):
		return out.WrongUse("--cacert is for the server of --redis, which is not given")
	case !given("redis"):
		return nil
	case given("latency"):
		return out.WrongUse("--latency is for the server in memory; the server of --redis has its own")
	case f.server.Redis == "":
		return out.WrongUse("--redis is empty: give the server's address")
	}
	f.plan.ForServer(given)
	return nil
}

func readOrders(name string) ([]rehearse.Order, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, out.WithoutPath(err)
	}
	defer file.Close()
	return rehearse.ReadOrders(file)
}

// embedded rehearses in memory. Tests replace it.
var embedded = rehearse.Embedded

// rehearse shows its progress as what.
func (f *rehearseFlags) rehearse(e *out.Env, ctx context.Context, what string) (*rehearse.Result, error) {
	bar := e.Progress(f.server.Quiet, what, int64(f.plan.Acquisitions))
	defer bar.End()
	progress := func(at rehearse.Progress) { bar.Set(int64(at.Done)) }
	if f.server.Redis == "" {
		res, err := embedded(ctx, f.plan, progress)
		if err != nil {
			return nil, out.CouldNot(err, "rehearsing in memory")
		}
		return res, nil
	}
	pool, address, err := f.server.Open(e)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	res, err := rehearse.OnServer(ctx, f.plan, rehearse.Server{Name: address, Dial: pool.DialContext},
		progress)
	if err != nil {
		return nil, out.CouldNot(err, "rehearsing on %s", address)
	}
	return res, nil
}

// machinePresets returns the presets that affect only clients' machines: a
// rehearsal's server has the right time.
func machinePresets() []string {
	var names []string
	for _, p := range simulate.Presets() {
		if !p.Clocks.Server.Any() {
			names = append(names, p.Name)
		}
	}
	return names
}
