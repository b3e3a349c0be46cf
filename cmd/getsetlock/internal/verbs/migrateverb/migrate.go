// SPDX-License-Identifier: Apache-2.0

// Package migrateverb is the verb migrate: it reports on a fleet's migration
// and takes its steps.
package migrateverb

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/migrate"
)

// migrateLong is what --help says.
//
//go:embed migrate.txt
var migrateLong string

type migrateFlags struct {
	server    out.ServerFlags
	dialect   out.DialectFlags
	namespace string
	claims    fleet.Claims
	forget    []string
	refused   []string
	to        string
	wait      time.Duration
	forGate   bool
	watch     bool
	monitor   bool
	goes      bool
	anew      bool
	verbose   bool
	report    string
	asJSON    bool
}

// migrateVerbs are the words that may follow "migrate".
var migrateVerbs = []string{"init", "status", "plan", "advance", "back", "clean", "sweep", "log"}

// New returns the verb migrate.
func New(e *out.Env) *cobra.Command {
	f := &migrateFlags{}
	cmd := &cobra.Command{
		Use:   "migrate [flags] " + strings.Join(migrateVerbs, "|"),
		Short: "Move a running fleet from old locks to token locks",
		Long:  migrateLong,
		Example: out.Examples(
			"getsetlock migrate init --namespace stock",
			"getsetlock migrate plan --namespace stock --lease 60s --job 40s",
			"getsetlock migrate plan --namespace stock --report plan.html",
			"getsetlock migrate status --namespace stock --watch --monitor",
			"getsetlock migrate advance --namespace stock          # shows the gate",
			"getsetlock migrate advance --namespace stock --go     # passes it",
			"# pass the gate to sealed and no other",
			"getsetlock migrate advance --namespace stock --go --to sealed",
			"# one step back, without a member that is dead",
			"getsetlock migrate back --namespace stock --go --forget k3Jx0zP1aBcD",
			"# the old clients' user till-java lost its right to take locks",
			"getsetlock migrate clean --namespace stock --refused till-java",
		),
		ValidArgs: migrateVerbs,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && slices.Contains(migrateVerbs, args[0]) {
				return nil
			}
			if len(args) == 1 {
				if _, err := migrate.ParsePhase(args[0]); err == nil {
					return out.WrongUse("%s is a phase: advance and back go there, one step at a time", args[0])
				}
				if near := out.Nearest(args[0], migrateVerbs); near != "" {
					return out.WrongUse("there is no step %q; did you mean %s?", args[0], near)
				}
			}
			return out.WrongUse("give one of %s", strings.Join(migrateVerbs, ", "))
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(e, cmd, args[0]) },
	}
	f.register(cmd)
	return cmd
}

func (f *migrateFlags) register(cmd *cobra.Command) {
	f.server.Register(cmd)
	f.server.QuietFlag(cmd)
	f.dialect.Register(cmd, "what the old clients write (default the recorded dialect; for init jedis)")
	flags := cmd.Flags()
	flags.StringVar(&f.namespace, "namespace", "", "keys that begin with this text (default all keys)")
	out.PositiveVar(flags, &f.claims.Lease, "lease", 0,
		"leave the flag out for the lease that is recorded; where none is, the gate to dual asks for it",
		"claim: the old clients' shortest lease")
	flags.BoolVar(&f.claims.LeaseChecked, "lease-checked", false,
		"claim: you checked --lease again, although the keys look like a shorter lease")
	out.PositiveVar(flags, &f.claims.Greatest, "greatest", 0,
		"leave the flag out for the greatest lease that is recorded, or else the smallest",
		"claim: the old clients' longest lease (default --lease)")
	out.ClaimVar(flags, &f.claims.Spread, "spread",
		"claim: largest difference between two old clients' clocks")
	out.ClaimVar(flags, &f.claims.Behind, "behind", "claim: how far the slowest old client's clock is at most behind the server's, also after a fail-over; needs --dialect, without which $"+out.EnvBehind+", its default, does not count (unknown closes no gate)")
	out.ClaimVar(flags, &f.claims.Ahead, "ahead", "claim: how far the fastest old client's clock is at most ahead of the server's, also after a fail-over (default $"+out.EnvAhead+", else unknown, which closes no gate)")
	out.ClaimVar(flags, &f.claims.Gap, "gap",
		"claim: longest time from an old client's clock reading to its write, pauses included")
	out.PositiveVar(flags, &f.claims.Job, "job", 0, "leave the flag out for the longest job that is recorded; where there is none, the gate to dual asks for it", "claim: the old clients' longest job")
	out.PositiveVar(flags, &f.claims.Idle, "idle", 0, "leave the flag out for the pause that is recorded; where there is none, the gates to sealed and to clean ask for it", "claim: longest pause between two attempts of one old client, 24h for a nightly job; the gates to sealed and clean ask for it (default $"+out.EnvIdle+", else as recorded)")
	flags.BoolVar(&f.claims.Gone, "gone", false,
		"claim, in place of a watched window: no old client runs any more, nor did for the window's length")
	flags.BoolVar(&f.goes, "go", false, "pass the gate if it is open; init needs it only after clean")
	flags.StringVar(&f.to, "to", "",
		"advance, back: take the step to this phase and no other; do nothing if the fleet is there already; init: the phase of a fleet whose record is lost, where no member can say it")
	flags.StringSliceVar(&f.forget, "forget", nil, "remove this dead member from the registry, or, with dead, all that vanished and whose leases are over; may be repeated")
	flags.StringSliceVar(&f.refused, "refused", nil, "status, plan, clean: a user that old clients log in as and that lost its right to take locks, in place of a watched window; checked by ACL DRYRUN; may be repeated")
	flags.DurationVar(&f.wait, "wait", 30*time.Second,
		"how long to wait, after a step, for acknowledgements, the end of leases and the last tombstone; if given, advance, back and clean first wait as long for the gate to open")
	flags.BoolVar(&f.watch, "watch", false,
		"status: watch the old clients until ^C, and record what the gates need")
	flags.BoolVar(&f.anew, "forget-evidence", false,
		"status: discard what was seen of the old clients; running watchers start over")
	flags.BoolVarP(&f.verbose, "verbose", "v", false,
		"list every member and every finding; status: also the evidence of the next gate")
	flags.StringVar(&f.report, "report", "",
		"plan: write a page to this file: phases over time, when each gate can open, what it waits for")
	flags.BoolVar(&f.monitor, "monitor", false,
		"status --watch: listen by MONITOR all the time, which costs the server much of its throughput")
	out.JSONFlag(cmd, &f.asJSON)
	out.Complete(cmd, "to", out.Choices(phaseNames()...))
	for _, name := range []string{"namespace", "forget", "refused"} {
		out.Complete(cmd, name, cobra.NoFileCompletions)
	}
}

// phaseNames returns the phases that --to takes: all except clean, which is a
// verb.
func phaseNames() []string {
	var names []string
	for _, p := range migrate.Phases() {
		if p != migrate.Clean {
			names = append(names, p.String())
		}
	}
	return names
}

// check refuses flags that the verb cannot follow.
func (f *migrateFlags) check(cmd *cobra.Command, verb string) error {
	steps := []string{"init", "advance", "back", "clean", "sweep"}
	moves := []string{"advance", "back", "init"}
	status := []string{"status"}
	var rules []out.Rule
	for _, of := range []struct {
		flag  string
		verbs []string
	}{
		{"go", steps}, {"to", moves}, {"forget", steps}, {"wait", steps},
		{"refused", []string{"status", "plan", "clean"}}, {"report", []string{"plan"}},
		{"watch", status}, {"monitor", status}, {"forget-evidence", status},
	} {
		rules = append(rules, out.Rule{If: !slices.Contains(of.verbs, verb), Flags: []string{of.flag},
			Says: "--%s is for " + strings.Join(of.verbs, ", ")})
	}
	if err := out.Refuse(cmd, rules...); err != nil {
		return err
	}
	switch {
	case f.wait < 0:
		return out.WrongUse("--wait is %v; it must not be negative", f.wait)
	case f.claims.Greatest > 0 && f.claims.Greatest < f.claims.Lease:
		return out.WrongUse("--greatest %v is less than --lease %v", f.claims.Greatest, f.claims.Lease)
	case cmd.Flags().Changed("behind") && !f.dialect.Given():
		return out.WrongUse(out.BehindNeedsDialect)
	case f.monitor && !f.watch:
		return out.WrongUse("--monitor is for status --watch")
	case f.watch && f.asJSON:
		return out.WrongUse(
			"--watch prints lines as things happen; --json prints one document: give one of them")
	}
	return nil
}

// migrateOptions returns the flags as package fleet takes them.
func migrateOptions(e *out.Env, f *migrateFlags, verb string) (fleet.Options, error) {
	o := fleet.Options{
		Namespace: f.namespace, Claims: f.claims, Go: f.goes, Forget: f.forget, Refused: f.refused,
		Wait: f.wait, ForGate: f.forGate, Clock: e.Clock, Timeout: e.Timeout,
		Progress: func(what string) { e.Say(f.server.Quiet, "waiting: %s", what) },
	}
	var err error
	if f.to != "" {
		if o.To, err = migrate.ParsePhase(f.to); err != nil || o.To == migrate.Clean && verb != "init" {
			return o, out.WrongUse("--to is %q; the phases are %s", f.to, strings.Join(phaseNames(), ", "))
		}
	}
	if !f.dialect.Given() {
		o.Claims.Behind = 0 // of the environment
		return o, nil
	}
	o.Dialect, err = f.dialect.Pick()
	return o, err
}

func (f *migrateFlags) run(e *out.Env, cmd *cobra.Command, verb string) error {
	if err := f.check(cmd, verb); err != nil {
		return err
	}
	f.forGate = cmd.Flags().Changed("wait")
	if err := out.ClaimsOfEnvironment(e, &f.claims.Behind, &f.claims.Ahead); err != nil {
		return err
	}
	if err := out.IdleOfEnvironment(e, &f.claims.Idle); err != nil {
		return err
	}
	o, err := migrateOptions(e, f, verb)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	pool, address, err := f.server.OpenWhole(e, ctx)
	if err != nil {
		return err
	}
	tried := fmt.Sprintf("%s of namespace %q on %s", verb, f.namespace, address)
	switch verb {
	case "status":
		return migrateStatus(e, ctx, pool, f, o, tried)
	case "log":
		entries, err := fleet.Log(ctx, pool, o)
		if err != nil {
			return out.CouldNot(err, "%s", tried)
		}
		if len(entries) == 0 {
			e.Say(f.server.Quiet, "%s: no step was taken yet", tried)
		}
		return printLog(e, entries, f.asJSON)
	case "plan":
		return migratePlan(e, cmd, pool, f, o, tried)
	}
	run := map[string]func(context.Context, *redis.Pool, fleet.Options) (*fleet.Report, error){
		"init": fleet.Init, "advance": fleet.Advance, "back": fleet.Back, "clean": fleet.CleanUp,
		"sweep": fleet.Sweep,
	}[verb]
	r, err := run(ctx, pool, o)
	if err != nil {
		return out.CouldNot(err, "%s", tried)
	}
	if err := printReport(e, r, f.asJSON, f.verbose); err != nil {
		return err
	}
	return migrated(r, verb, f.goes)
}

// migratePlan prints the road even if its page cannot be written.
func migratePlan(e *out.Env, cmd *cobra.Command, pool *redis.Pool, f *migrateFlags, o fleet.Options,
	tried string) error {
	if err := out.CheckReport(f.report); err != nil {
		return err
	}
	road, err := fleet.Plan(cmd.Context(), pool, o)
	if err != nil {
		return out.CouldNot(err, "%s", tried)
	}
	if f.report != "" {
		how := strings.Replace(out.CommandLine(cmd), " migrate", " migrate plan", 1)
		err = e.SaveReport(f.server.Quiet, f.report, roadPage(road, how, e.Clock.Now()))
	}
	return cmp.Or(err, printRoad(e, road, f.asJSON, f.verbose))
}

// migrated returns the error with the exit code of a verb that may have moved
// the fleet.
func migrated(r *fleet.Report, verb string, goes bool) error {
	well := r.Gate == nil || r.Gate.Open
	if r.Moved && verb == "advance" {
		return nil
	}
	if goes || r.Moved { // init also moves without --go
		well = well && r.Over
	}
	if !well {
		return out.Exit(out.CodeBad)
	}
	return nil
}

func migrateStatus(e *out.Env, ctx context.Context, pool *redis.Pool, f *migrateFlags, o fleet.Options,
	tried string) error {
	look := fleet.Status
	if f.anew {
		look = fleet.ForgetEvidence
	}
	r, err := look(ctx, pool, o)
	if err != nil {
		return out.CouldNot(err, "%s", tried)
	}
	if err := printStatus(e, r, f.asJSON, f.verbose); err != nil || !f.watch {
		return err
	}
	if o.Dialect == (dialect.Dialect{}) {
		// The recorded dialect is a preset: Status would have asked for the
		// file of any other.
		if o.Dialect, err = dialect.Lookup(r.Dialect); err != nil {
			return out.CouldNot(err, "%s", tried)
		}
	}
	return migrateWatch(e, ctx, pool, f, o, tried)
}
