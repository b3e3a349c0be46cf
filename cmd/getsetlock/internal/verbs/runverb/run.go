// SPDX-License-Identifier: Apache-2.0

// Package runverb is the verb run: it runs a command while it holds a lock.
package runverb

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
)

var runLong = `Runs COMMAND while it holds the lock KEY, and releases the lock when COMMAND
ends. While another client holds the lock, run waits: 10 seconds, or --wait.

Environment of the command:
  GETSETLOCK_KEY      the key
  GETSETLOCK_TOKEN    what tells this acquisition from all others
  GETSETLOCK_FENCE    not with --protocol legacy: a number greater than that of
                      each holder of the key before. Let your database refuse
                      a number that is smaller than one it has seen: that keeps
                      out a holder that was stopped for too long, or whose lock
                      the server forgot in a fail-over
  GETSETLOCK_REDIS    the server's address as it was given, so that getsetlock
                      inside the command asks the same server. Passwords,
                      password files and certificates are handed on too, by the
                      variables that "getsetlock --help" names

A run inside a run on the same key joins it: it compares the token with the
server's, and runs its command under the lock that the outer run holds.

Input and signals: the command uses the standard input and output of getsetlock
and, on a terminal, the foreground. Signals to getsetlock go to the command's
whole process group. ^Z stops both; if the lock ends meanwhile, the command is
ended before it continues. As PID 1 of a container, getsetlock reaps the orphans
that it adopts.

If the lock is lost: getsetlock renews the lock while the command runs. If
renewals fail, the command's process group gets SIGTERM --grace before the lock
ends, and SIGKILL when it ends. If another client's value appears on the key,
SIGTERM follows at once, and SIGKILL after --grace or when the lock ends. A
process that left the group (a daemon) gets neither. If getsetlock itself is
killed by SIGKILL, ` + diesWithUs + `
While getsetlock is stopped by SIGSTOP, nothing watches the lock.

One of several hosts: --keep leaves the key taken for at least that long,
counted from the acquisition, even if the command ends earlier. Then cron can
start a job on several hosts, and one of them runs it. --keep must exceed the
spread of the start times and of the hosts' clocks; otherwise a late host runs
the job again.

Protocols:
  modern  the default. The lock is a token with a TTL, and no clock but the
          server's decides. Clients that use SET NX PX with a token, and compare
          it before they delete, share this lock. After the token the value has
          this host's name and the command's, for getsetlock ls
  legacy  shares the lock with old clients, which write timestamps. It is the
          default with a flag that describes old clients: --dialect,
          --dialect-file, --mode, --lease, --greatest, --spread, --behind,
          --ahead, --gap
  dual    holds a token and, on the old clients' key, a guard: a time so far
          ahead that no old client's clock reaches it
  auto    joins the migration of --namespace and does what its phase says; see
          getsetlock migrate

Other stores: with --target the lock lies in etcd or ZooKeeper, on the keys of
etcdctl lock and concurrency.Mutex, or on the nodes of Curator. Flags of
protocols and old clients are refused there. With --keep, getsetlock itself
stays until then; a signal ends it sooner and leaves the lock to its TTL.

Modes of --protocol legacy:
  hardened  the default. It writes the old clients' format by the server's clock
            and proves what it holds by a token on a second key. Two getsetlock
            clients never hold the lock together. An old client holds it at the
            same time only if it works for longer than its lease, if it pauses
            for longer than --gap, if its clock is more than a day (or --ahead)
            ahead of the server's, or if a flag claims less than is true
  verbatim  does what the old client does, faults included, with SETNX, GET,
            GETSET and DEL alone. The lock is not renewed and ends after its
            lease

An old client that crashed leaves its lock behind. hardened takes it over once
the server's clock is past its time and the same value was seen for longer than
--greatest; with --dialect and --behind, as soon as the server's clock is past
it by that much. Without --lease, --greatest and --behind it is never taken
over: the lease that a library ships with says nothing about this fleet's. If a
value is seen that contradicts --behind or --greatest, the flag no longer
counts.

Exit codes: that of the command, 0 to 255, or 128 + n if signal n ended it. If
getsetlock itself decides, it prints the reason on stderr and exits with
  122  the server could not be reached before --wait was over, or it refused for
       a reason that waiting does not mend: a password, a right, a certificate
  123  the lock was lost, and getsetlock ended the command
  124  another client held the lock until --wait was over; with --busy-exit N
       it is N, and with -q too nothing is printed
  125  wrong use, and every other failure of getsetlock
  126  the command cannot be run
  127  there is no such command`

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
		Long:  runLong,
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
