// SPDX-License-Identifier: Apache-2.0

// Package runverb is the verb run: it runs a command while it holds a lock.
package runverb

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
)

// runLong is what --help says, with {{dies}} for diesWithUs.
//
//go:embed run.txt
var runLong string

// runFlags are the flags of run, by name, and what is known of how they were
// given.
type runFlags struct {
	server     out.ServerFlags
	target     *out.Target // nil: the server is Redis
	dialect    out.DialectFlags
	protocol   string // one of runProtocols, after pickProtocol
	mode       string
	terms      dialect.Terms
	replicas   int
	namespace  string
	ttl        time.Duration
	wait       waitFlag
	waitGiven  bool // --wait was given
	busy       busyFlag
	keep       time.Duration
	grace      time.Duration
	graceGiven bool // --grace was given
	noJoin     bool
}

// defaultWait is how long run and hold wait for the lock.
const defaultWait = 10 * time.Second

// New returns the verb run.
func New(e *out.Env) *cobra.Command {
	f := &runFlags{wait: waitFlag{d: defaultWait}}
	cmd := &cobra.Command{
		Use:   "run [flags] KEY -- COMMAND [ARGS…]",
		Short: "Run a command while holding a lock",
		Long:  strings.Replace(runLong, "{{dies}}", diesWithUs, 1),
		Example: out.Examples(
			"# one backup at a time, whichever host starts it",
			"getsetlock run nightly -- ./backup.sh --full",
			"# a cron job on three hosts: one of them runs it",
			"getsetlock run -q --wait 0 --busy-exit 0 --keep 30s report -- ./report",
			"# share a lock with old clients that write timestamps",
			"getsetlock run --dialect redis-py --lease 30s stock:42 -- python sell.py",
			"# count the lock only after a replica has it, and use the fencing number",
			"getsetlock run --replicas 1 nightly -- sh -c 'backup \"$GETSETLOCK_FENCE\"'",
			"# another server, by TLS, with a user whose password is in a file",
			"export GETSETLOCK_REDIS=rediss://app@redis.example:6380/2",
			"export GETSETLOCK_PASSWORD_FILE=/run/secrets/redis",
		),
		Annotations: map[string]string{out.OwnFailures: "yes"},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string,
			cobra.ShellCompDirective) {
			if cmd.ArgsLenAtDash() >= 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		Args: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			key, command, err := keyAndCommand(cmd.ArgsLenAtDash(), args)
			if err != nil {
				return err
			}
			r, err := f.runner(e, cmd, key, command, running)
			if err != nil {
				return err
			}
			return r.run(cmd.Context())
		},
	}
	f.register(cmd)
	return cmd
}

// register adds the flags of run to cmd.
func (f *runFlags) register(cmd *cobra.Command) {
	f.registerTarget(cmd)
	f.registerHolding(cmd, "time between SIGTERM and SIGKILL")
}

// registerTarget adds the flags that say which lock is meant and how long to
// wait for it.
func (f *runFlags) registerTarget(cmd *cobra.Command) {
	f.server.Register(cmd)
	f.server.TargetFlag(cmd)
	f.server.QuorumFlag(cmd)
	f.server.QuietFlag(cmd)
	f.dialect.Register(cmd, "what the old clients write (default jedis)")
	flags := cmd.Flags()
	flags.StringVar(&f.protocol, "protocol", "", "how the lock is stored: modern, legacy, dual or auto (default modern; legacy with a flag that describes old clients)")
	out.PositiveVar(flags, &f.terms.Lease, "lease", 0, "leave the flag out for the dialect's lease",
		"the old clients' shortest lease (default the dialect's)")
	out.PositiveVar(flags, &f.terms.Greatest, "greatest", 0, "leave the flag out for the smallest lease",
		"the old clients' longest lease (default --lease; without both it is unknown, and no lock is taken over by its age); with --quorum the longest TTL of any client on the servers (default 30s, or --ttl or --keep if longer)")
	out.ClaimVar(flags, &f.terms.Spread, "spread", "largest difference between two old clients' clocks (default the lesser of 1s and a 20th of the lease)")
	out.ClaimVar(flags, &f.terms.Behind, "behind",
		"how far the slowest old client's clock is at most behind the server's (default $"+out.EnvBehind+
			", else unknown: a takeover then waits for a second look); needs --dialect")
	out.ClaimVar(flags, &f.terms.Ahead, "ahead",
		"how far the fastest old client's clock is at most ahead of the server's (default $"+out.EnvAhead+
			", else unknown)")
	out.ClaimVar(flags, &f.terms.Gap, "gap",
		"longest time that an old client's attempt takes, pauses included (default as --spread)")
	flags.StringVar(&f.namespace, "namespace", "", "which fencing numbers to use, with modern also which queue of waiters, with auto also which migration to follow; it is not a prefix of the key")
	flags.Var(&f.wait, "wait", "how long to wait for the lock: a duration, 0 to try once, or forever")
	flags.Var(&f.busy, "busy-exit", "exit with this code instead of 124 if another client held the lock until --wait was over; with -q then print nothing")
	out.Complete(cmd, "protocol", out.Choices(runProtocols...))
	out.Complete(cmd, "namespace", cobra.NoFileCompletions)
	out.Complete(cmd, "busy-exit", cobra.NoFileCompletions)
	out.Complete(cmd, "wait", out.Choices("0", "10s", "forever"))
}

// registerHolding adds the flags of a verb that holds the lock. grace says what
// --grace is for.
func (f *runFlags) registerHolding(cmd *cobra.Command, grace string) {
	flags := cmd.Flags()
	flags.StringVar(&f.mode, "mode", "hardened", "legacy: hardened or verbatim, see getsetlock run --help")
	flags.IntVar(&f.replicas, "replicas", 0, "modern: number of replicas that must acknowledge the lock before it counts; a fail-over then rarely loses a lock, but still can")
	out.PositiveVar(flags, &f.ttl, "ttl", 0, "leave the flag out for the default", "how long the lock lasts after its last renewal (default 30s; legacy: at most half the lease; verbatim: the lease)")
	flags.DurationVar(&f.keep, "keep", 0,
		"leave the key taken for at least this long, even if it could be given back earlier")
	flags.DurationVar(&f.grace, "grace", 0, grace+" (default the lesser of 10s and a quarter of the TTL)")
	flags.BoolVar(&f.noJoin, "no-join", false,
		"acquire the lock anew even inside a run on the same key; it then waits for that run to end")
	out.Complete(cmd, "mode", out.Choices("hardened", "verbatim"))
	out.Complete(cmd, "replicas", cobra.NoFileCompletions)
}

// keyAndCommand splits the arguments into the key and the command. dash is the
// number of arguments before --, or less than 0 without one. The -- is
// required: without it the command's flags would be parsed as flags of run.
func keyAndCommand(dash int, args []string) (key string, command []string, err error) {
	switch {
	case dash < 0:
		return "", nil, out.WrongUse(
			"write -- between the key and the command: getsetlock run KEY -- COMMAND")
	case dash != 1:
		return "", nil, out.WrongUse("give one KEY before --, not %d: getsetlock run KEY -- COMMAND", dash)
	case args[0] == "":
		return "", nil, out.WrongUse("KEY is empty")
	case len(args) == 1:
		return "", nil, out.WrongUse("there is no command after --")
	}
	return args[0], args[1:], nil
}

// waitFlag is a duration, or forever.
type waitFlag struct {
	d       time.Duration
	forever bool
}

func (w *waitFlag) Type() string { return "duration" }

func (w *waitFlag) String() string {
	if w.forever {
		return "forever"
	}
	return w.d.String()
}

func (w *waitFlag) Set(text string) error {
	if text == "forever" {
		*w = waitFlag{forever: true}
		return nil
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("write a duration such as 10s or 1m30s, 0 to try once, or forever")
	case d < 0:
		return errors.New("it must not be negative; 0 tries once")
	}
	*w = waitFlag{d: d}
	return nil
}

// config returns the wait as lock.Config.Wait has it: zero is forever, and
// negative tries once.
func (w *waitFlag) config() time.Duration {
	switch {
	case w.forever:
		return 0
	case w.d == 0:
		return -1
	}
	return w.d
}

// runner returns what executes a verb on a key, for a command.
func (f *runFlags) runner(e *out.Env, cmd *cobra.Command, key string, command []string,
	of kind) (*runner, error) {
	if err := out.ClaimsOfEnvironment(e, &f.terms.Behind, &f.terms.Ahead); err != nil {
		return nil, err
	}
	if err := f.check(e, cmd); err != nil {
		return nil, err
	}
	if of == running { // before it waits for a lock
		if _, err := child.Find(command); err != nil {
			return nil, startFailure(err)
		}
	}
	k, err := newKeeper(e, cmd.Context(), f, command)
	if err != nil {
		return nil, err
	}
	return &runner{env: e, flags: f, key: key, command: command, keeper: k, take: k.acquire, kind: of}, nil
}

// startFailure returns the error, with run's exit code, of a command that could
// not be started.
func startFailure(err error) error {
	var start *child.StartError
	if errors.As(err, &start) {
		return &out.ExitError{Code: out.OwnCode(start.Code), Err: start}
	}
	return &out.ExitError{Code: out.CodeRunFailed, Err: fmt.Errorf("starting the command: %w", err)}
}
