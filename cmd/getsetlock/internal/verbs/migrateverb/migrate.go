// Package migrateverb is the verb migrate: a report on a fleet's migration, and its steps.
package migrateverb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/fleet"
)

const migrateLong = `Moves a running fleet from old clients' locks to token locks, one phase at a time, on
one Redis, with no moment in which an old and a new client both hold.

  observe   ours take turns with the old clients in their own bytes
  dual      ours write a guard, which no old client's clock can expire
  sealed    a tombstone keeps old clients out for good
  modern    the same, with leases of any length
  clean     the token alone; there is no way back. A fleet may rest in modern, which
            keeps a forgotten old client out of every key

The phase stands on the server, for the keys that begin with --namespace. Programs that
join (package migrate, or run --protocol auto) follow it within a heartbeat.

  init      begin with observe; after clean: the gate to a new beginning; with --go pass it;
            where a shorter namespace has a record: carve this one out of it, with --go
  status    where the fleet is, and what keeps the next gate closed; with --watch also
            gather what the gates need to know of the old clients, until ^C
  plan      the whole road for this fleet: phases, times to wait, what will refuse
  advance   the gate to the next phase, with its evidence; with --go pass it
  back      the gate to the phase before; with --go pass it
  clean     the last gate; with --go pass it. Tombstones stay until they end
  sweep     after clean: the tombstones that are left; with --go delete them
  merge     give the keys of a carved namespace back to the shorter one, with --go
  log       who took which step, from where, by which claims, and whom somebody forgot

Nothing moves without --go, and --go opens no gate that is closed; of init only a new
beginning after clean and a carving need it. What nobody measured is
said by --lease, --greatest, --spread, --gap, --job, --idle and --gone, and printed as claimed;
0s is a claim too. --behind and --ahead say how far old clients' clocks lie off the
server's: they close no gate where nobody knows them, and a lock that a crashed old
client left is then taken over later.
Each verb can be run again at any time, also after it was killed. advance and back then
take the next step, if its gate is open too; with --to they take the one named or none.

A member is a program that joined. One that vanished closes every gate until it
returns, or --forget names it: then you say that it is dead. --forget dead names all
that have vanished and whose leases are over; without --go it lists them. If the server
may have lost members (it was started again, another one was promoted), a verb with --go
notes that, and the gates open when the leases of any that are missing are over.

Exit codes: 0 done, or the gate is open; 1 the gate is closed, or what follows upon the
step is not over yet (run the verb again); 2 wrong use; 3 it could not be done.`

type migrateFlags struct {
	server    out.ServerFlags
	dialect   out.DialectFlags
	namespace string
	claims    fleet.Claims
	forget    []string
	refused   []string
	to        string
	wait      time.Duration
	watch     bool
	monitor   bool
	own       bool
	goes      bool
	anew      bool
	asJSON    bool
}

// migrateVerbs are what stands behind "migrate".
var migrateVerbs = []string{"init", "status", "plan", "advance", "back", "clean", "sweep", "merge", "log"}

// New returns the verb migrate.
func New(e *out.Env) *cobra.Command {
	f := &migrateFlags{}
	cmd := &cobra.Command{
		Use:   "migrate [flags] " + strings.Join(migrateVerbs, "|"),
		Short: "Move a running fleet from old locks to token locks",
		Long:  migrateLong,
		Example: out.Examples(
			"getsetlock migrate init --namespace stock",
			"getsetlock migrate plan --namespace stock --lease 60s --spread 1s --gap 1s --job 40s",
			"getsetlock migrate status --namespace stock --watch",
			"getsetlock migrate advance --namespace stock        # shows the gate",
			"getsetlock migrate advance --namespace stock --go   # passes it",
			"getsetlock migrate advance --namespace stock --go --to sealed  # this step and no other",
			"getsetlock migrate init --namespace stock:eu: --go  # carves its keys out of stock",
			"getsetlock migrate clean --namespace stock --refused till-java  # its rights were taken",
			"getsetlock migrate back --namespace stock --go --forget k3Jx0zP1aBcD",
		),
		ValidArgs: migrateVerbs,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(migrateVerbs, args[0]) {
				return out.WrongUse("give one of %s", strings.Join(migrateVerbs, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(e, cmd, args[0]) },
	}
	f.register(cmd)
	return cmd
}

func (f *migrateFlags) register(cmd *cobra.Command) {
	f.server.Register(cmd)
	f.server.QuietFlag(cmd)
	f.dialect.Register(cmd, "what the old clients write (default the one recorded; for init jedis)")
	flags := cmd.Flags()
	flags.StringVar(&f.namespace, "namespace", "", "the keys that begin with this text (default all keys)")
	out.PositiveVar(flags, &f.claims.Lease, "lease", 0, "leave the flag out for the lease that is recorded; where none is, the gate to dual asks for it", "claim: the old clients' smallest lease")
	flags.BoolVar(&f.claims.LeaseChecked, "lease-checked", false, "claim: --lease was looked up again, although what is written looks like a smaller one")
	out.PositiveVar(flags, &f.claims.Greatest, "greatest", 0, "leave the flag out for the greatest lease that is recorded or was measured, or else the smallest", "claim: their greatest lease (default the smallest)")
	out.ClaimVar(flags, &f.claims.Spread, "spread", "claim: how far their clocks are apart at most")
	out.ClaimVar(flags, &f.claims.Behind, "behind", "claim: how far the slowest old client's clock is behind the server's at most, also after a fail-over (default $"+out.EnvBehind+", else unknown, which closes no gate)")
	out.ClaimVar(flags, &f.claims.Ahead, "ahead", "claim: how far the fastest old client's clock is ahead of the server's at most, also after a fail-over (default $"+out.EnvAhead+", else unknown, which closes no gate)")
	out.ClaimVar(flags, &f.claims.Gap, "gap", "claim: the longest time from a clock reading of theirs to its write, the longest pause included")
	out.PositiveVar(flags, &f.claims.Job, "job", 0, "leave the flag out for the longest job that is recorded or was measured (status --watch); where there is none, the gate to dual asks for it", "claim: their longest job")
	out.PositiveVar(flags, &f.claims.Idle, "idle", 0, "leave the flag out where the pause is unknown; the gates to sealed and to clean then ask for it", "claim: the longest pause between two attempts of one old client, 24h for a job that runs each night; the gates to sealed and to clean ask for it (default $"+out.EnvIdle+", else unknown)")
	flags.BoolVar(&f.claims.Gone, "gone", false, "claim, in place of a watched window: no old client runs any more, and none did for the window's length")
	flags.BoolVar(&f.goes, "go", false, "pass the gate, if it is open; for init only after clean and for a carving")
	flags.StringVar(&f.to, "to", "", "advance, back: the step to this phase and no other; where the fleet is there already, do nothing")
	flags.StringSliceVar(&f.forget, "forget", nil, "take this dead member out of the registry, or, with dead, all whose leases are over; may be repeated")
	flags.StringSliceVar(&f.refused, "refused", nil, "clean: a user that old clients log in as and that lost its right to take locks, in place of a window; asked by ACL DRYRUN; may be repeated")
	flags.DurationVar(&f.wait, "wait", 30*time.Second, "how long to wait for what follows upon a step: acknowledgements, the last tombstone")
	flags.BoolVar(&f.watch, "watch", false, "status: watch the old clients until ^C, and keep for the gates what is seen")
	flags.BoolVar(&f.own, "own-connections", false, "claim for status --watch: each old client has a connection of its own and waits for replies; names smaller steps of clocks")
	flags.BoolVar(&f.anew, "forget-evidence", false, "status: begin anew with what was seen of the old clients, also where watchers run")
	flags.BoolVar(&f.monitor, "monitor", false, "status --watch: by MONITOR without a break, which costs the server much of its throughput")
	out.JSONFlag(cmd, &f.asJSON)
	out.Complete(cmd, "to", out.Choices(phaseNames()...))
	for _, name := range []string{"namespace", "forget", "refused"} {
		out.Complete(cmd, name, cobra.NoFileCompletions)
	}
}

// phaseNames are those that --to takes: all but clean, which has a verb of its own.
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
	steps := []string{"init", "advance", "back", "clean", "sweep", "merge"}
	moves := []string{"advance", "back"}
	status := []string{"status"}
	// Of two wrong flags the first of this list is named, at every run.
	for _, of := range []struct {
		flag  string
		verbs []string
	}{
		{"go", steps}, {"to", moves}, {"forget", steps}, {"wait", steps}, {"refused", []string{"status", "plan", "clean"}},
		{"watch", status}, {"monitor", status}, {"forget-evidence", status}, {"own-connections", status},
	} {
		if cmd.Flags().Changed(of.flag) && !slices.Contains(of.verbs, verb) {
			return out.WrongUse("--%s is for %s", of.flag, strings.Join(of.verbs, ", "))
		}
	}
	switch {
	case f.wait < 0:
		return out.WrongUse("--wait is %v; it must not be negative", f.wait)
	case f.claims.Greatest > 0 && f.claims.Greatest < f.claims.Lease:
		return out.WrongUse("--greatest %v is less than --lease %v", f.claims.Greatest, f.claims.Lease)
	case f.monitor && !f.watch:
		return out.WrongUse("--monitor is for status --watch")
	case f.own && !f.monitor:
		return out.WrongUse("--own-connections is for status --watch --monitor: only MONITOR shows connections")
	case f.watch && f.asJSON:
		return out.WrongUse("--watch prints lines as things happen; --json prints one document: give one of them")
	}
	return nil
}

// options are the flags as package migrate has them.
func migrateOptions(e *out.Env, f *migrateFlags) (fleet.Options, error) {
	o := fleet.Options{
		Namespace: f.namespace, Claims: f.claims, Go: f.goes, Forget: f.forget, Refused: f.refused, Wait: f.wait, Clock: e.Clock, Timeout: e.Timeout,
		Progress: func(what string) { e.Say(f.server.Quiet, "waiting: %s", what) },
	}
	var err error
	if f.to != "" {
		if o.To, err = migrate.ParsePhase(f.to); err != nil || o.To == migrate.Clean {
			return o, out.WrongUse("--to is %q; the phases are %s", f.to, strings.Join(phaseNames(), ", "))
		}
	}
	if f.dialect.Name == "" && f.dialect.File == "" {
		return o, nil
	}
	o.Dialect, err = f.dialect.Pick()
	return o, err
}

func (f *migrateFlags) run(e *out.Env, cmd *cobra.Command, verb string) error {
	if err := f.check(cmd, verb); err != nil {
		return err
	}
	if err := out.ClaimsOfEnvironment(e, &f.claims.Behind, &f.claims.Ahead); err != nil {
		return err
	}
	if err := out.IdleOfEnvironment(e, &f.claims.Idle); err != nil {
		return err
	}
	o, err := migrateOptions(e, f)
	if err != nil {
		return err
	}
	pool, address, err := f.server.Open(e)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	tried := fmt.Sprintf("%s of namespace %q on %s", verb, f.namespace, address)
	switch verb {
	case "status":
		return migrateStatus(e, ctx, pool, f, o, tried)
	case "log":
		entries, err := fleet.Log(ctx, pool, o)
		if err != nil {
			return out.CouldNot(err, "%s", tried)
		}
		return printLog(e, entries, f.asJSON)
	case "plan":
		road, err := fleet.Plan(ctx, pool, o)
		if err != nil {
			return out.CouldNot(err, "%s", tried)
		}
		return printRoad(e, road, f.asJSON)
	}
	run := map[string]func(context.Context, *redis.Pool, fleet.Options) (*fleet.Report, error){
		"init": fleet.Init, "advance": fleet.Advance, "back": fleet.Back, "clean": fleet.CleanUp, "sweep": fleet.Sweep, "merge": fleet.Merge,
	}[verb]
	r, err := run(ctx, pool, o)
	if err != nil {
		return out.CouldNot(err, "%s", tried)
	}
	if err := printReport(e, r, f.asJSON); err != nil {
		return err
	}
	return migrated(r, verb, f.goes)
}

// migrated is the exit code of a verb that may have moved the fleet.
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

func migrateStatus(e *out.Env, ctx context.Context, pool *redis.Pool, f *migrateFlags, o fleet.Options, tried string) error {
	look := fleet.Status
	if f.anew {
		look = fleet.ForgetEvidence
	}
	r, err := look(ctx, pool, o)
	if err != nil {
		return out.CouldNot(err, "%s", tried)
	}
	if err := printReport(e, r, f.asJSON); err != nil || !f.watch {
		return err
	}
	if o.Dialect == (dialect.Dialect{}) {
		// The recorded one. It is a preset, or Status had asked for its file.
		if o.Dialect, err = dialect.Lookup(r.Dialect); err != nil {
			return out.CouldNot(err, "%s", tried)
		}
	}
	return migrateWatch(e, ctx, pool, f, o, tried)
}
