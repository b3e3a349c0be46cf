// Package runverb is the verb run: it runs a command while it holds a lock.
package runverb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

var runLong = `Takes the lock KEY, runs COMMAND while holding it, and gives it back.

The command has our standard input and output, our signals (they go to its whole
process group) and, on a terminal, the foreground. ^Z stops both; if the lock ended
meanwhile, the command is ended before it goes on.

The lock is renewed while the command runs. If that fails, the command's process
group gets SIGTERM --grace before the lock ends, and SIGKILL when it ends. If another
client's value is seen on the key, SIGTERM goes out at once, and SIGKILL after the
grace or when the lock ends. A process that leaves the group (a daemon) is not
reached. If getsetlock itself is killed by SIGKILL, ` + diesWithUs + `
If it is stopped by SIGSTOP, nobody watches the command.

The command finds GETSETLOCK_KEY and GETSETLOCK_TOKEN in its environment, and with a
token lock GETSETLOCK_FENCE: a number greater than that of every holder before. A store
that refuses a smaller number than the last it saw keeps out a holder that was stopped
for too long, or whose lock a fail-over of the server forgot.

The command also finds the server's address in GETSETLOCK_REDIS, with the user and the
password that were given, and the whole path of the file of --cacert in
GETSETLOCK_CACERT. A run inside therefore asks the same server. On the same key it
joins: it runs its command under the lock that is held, after comparing the token with
the server's.

As PID 1 of a container, getsetlock reaps the orphans that it adopts, and passes
signals on as elsewhere.

--keep makes the key stay taken for at least so long, counted from when it was
taken, also when the command ends sooner: of several hosts whose cron starts the
same job, one runs it. It must exceed the spread of the start times and of the
clocks, or a late host runs the job again.

--protocol modern, the default, writes a token that the server lets expire; no clock but
the server's decides. Whoever uses SET NX PX with a token and compares it, takes turns
with it. Beside the token stand this host's name and the command's, for getsetlock ls.
--protocol legacy, the default with a flag that speaks of old clients (--dialect,
--dialect-file, --mode, --lease, --greatest, --spread, --behind, --ahead, --gap), takes
turns with those.
--mode hardened (the default) proves what it holds by a token beside the key, and
stamps by the server's clock. Two getsetlock clients never hold together. An old client
holds alongside one only if it works for longer than its lease allows, if it pauses for
longer than --gap, if its clock is more than a day (or --ahead) ahead of the server's,
or if a flag claims less than is true. A crashed old client's lock is taken over when
the server's clock is past its time and its value was seen for longer than --greatest;
with --behind it is taken over as soon as that clock is past it by so much.
--mode verbatim does what the old client does, faults included, with SETNX, GET,
GETSET and DEL alone: its lock is never renewed and ends after its lease.
--protocol dual holds a token and, on the old clients' key, a guard that none of their
clocks can expire. --protocol auto joins the migration of --namespace and does what its
phase says; see getsetlock migrate. Both give GETSETLOCK_FENCE.

Exit codes: the command's own, every one from 0 to 255, or 128 + n if signal n ended it.
getsetlock itself ends with one of these, and then says why on stderr:
  123  the lock was lost, and the command was ended for it
  124  the lock was not to be had within --wait
  125  getsetlock itself failed, or was used wrongly
  126  the command cannot be run      127  there is no such command`

type runFlags struct {
	server     out.ServerFlags
	dialect    out.DialectFlags
	protocol   string // one of runProtocols, after pickProtocol
	mode       string
	terms      dialect.Terms
	replicas   int
	namespace  string
	also       []string
	ttl        time.Duration
	wait       waitFlag
	waitGiven  bool
	keep       time.Duration
	grace      time.Duration
	graceGiven bool
	noJoin     bool
}

// New returns the verb run.
func New(e *out.Env) *cobra.Command {
	f := &runFlags{wait: waitFlag{d: 10 * time.Second}}
	cmd := &cobra.Command{
		Use:   "run [flags] KEY -- COMMAND [ARGS…]",
		Short: "Run a command while holding a lock",
		Long:  runLong,
		Example: out.Examples(
			"getsetlock run nightly -- ./backup.sh --full",
			"getsetlock run --wait forever --dialect redis-py --lease 30s stock:42 -- python sell.py",
			"getsetlock run --wait 0 --keep 30s report -- ./report   # in cron, on three hosts",
			"getsetlock run --replicas 1 nightly -- sh -c './backup.sh --fence \"$GETSETLOCK_FENCE\"'",
			"GETSETLOCK_REDIS=rediss://app:secret@redis.example:6380/2 getsetlock run nightly -- ./backup.sh",
		),
		Annotations: map[string]string{out.OwnFailures: "yes"},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
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
			if err := out.ClaimsOfEnvironment(e, &f.terms.Behind, &f.terms.Ahead); err != nil {
				return err
			}
			return f.run(e, cmd, key, command)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *runFlags) register(cmd *cobra.Command) {
	f.server.Register(cmd)
	f.server.QuietFlag(cmd)
	f.dialect.Register(cmd, "what the old clients write (default jedis)")
	flags := cmd.Flags()
	flags.StringVar(&f.protocol, "protocol", "", "how the lock is kept: modern, by a token; legacy, as old clients do; dual, by both; auto, as the namespace's migration says (default modern; legacy with a flag that speaks of old clients)")
	flags.StringVar(&f.mode, "mode", "hardened", "hardened, or verbatim: exactly as the old client does it")
	out.PositiveVar(flags, &f.terms.Lease, "lease", 0, "leave the flag out for the dialect's lease", "the old clients' smallest lease (default the dialect's)")
	out.PositiveVar(flags, &f.terms.Greatest, "greatest", 0, "leave the flag out for the smallest lease", "the old clients' greatest lease (default the smallest)")
	out.ClaimVar(flags, &f.terms.Spread, "spread", "how far the old clients' clocks are apart at most (default the lesser of 1s and a 20th of the lease)")
	out.ClaimVar(flags, &f.terms.Behind, "behind", "how far the slowest old client's clock is behind the server's at most (default $"+out.EnvBehind+", else unknown: a takeover then waits for a second look)")
	out.ClaimVar(flags, &f.terms.Ahead, "ahead", "how far the fastest old client's clock is ahead of the server's at most (default $"+out.EnvAhead+", else unknown)")
	out.ClaimVar(flags, &f.terms.Gap, "gap", "the longest an attempt of an old client takes, pauses included (default as --spread)")
	flags.IntVar(&f.replicas, "replicas", 0, "modern: how many replicas must have acknowledged the lock before it counts; narrows the gap of a fail-over, does not close it")
	flags.StringVar(&f.namespace, "namespace", "", "whose fencing numbers, and with modern lines of waiters, to use; with auto also whose migration to follow; keys of locks are not prefixed")
	out.PositiveVar(flags, &f.ttl, "ttl", 0, "leave the flag out for the default", "how long our lock outlives its last renewal (default 30s; legacy: at most half the lease; verbatim: the lease)")
	flags.Var(&f.wait, "wait", "how long to wait for the lock: a duration, 0 to try once, or forever")
	flags.DurationVar(&f.keep, "keep", 0, "keep the key taken for at least so long, also when the command ends sooner")
	flags.DurationVar(&f.grace, "grace", 0, "time between SIGTERM and SIGKILL (default the lesser of 10s and a quarter of the ttl)")
	flags.BoolVar(&f.noJoin, "no-join", false, "take the lock anew even inside a run on the same key; it then waits for that run to end")
	out.Complete(cmd, "mode", out.Choices("hardened", "verbatim"))
	out.Complete(cmd, "protocol", out.Choices(runProtocols...))
	out.Complete(cmd, "replicas", cobra.NoFileCompletions)
	flags.StringArrayVar(&f.also, "also", nil, "auto: a longer namespace in which the lock may lie, once it is carved out of --namespace; may be repeated")
	for _, name := range []string{"namespace", "also"} {
		out.Complete(cmd, name, cobra.NoFileCompletions)
	}
	out.Complete(cmd, "wait", out.Choices("0", "10s", "forever"))
}

// keyAndCommand takes the command line apart. The dashes are required: without them a flag of the
// command would be taken for one of ours.
func keyAndCommand(dash int, args []string) (key string, command []string, err error) {
	switch {
	case dash < 0:
		return "", nil, out.WrongUse("write -- between the key and the command: getsetlock run KEY -- COMMAND")
	case dash != 1:
		return "", nil, out.WrongUse("give one KEY before --, not %d: getsetlock run KEY -- COMMAND", dash)
	case args[0] == "":
		return "", nil, out.WrongUse("KEY is empty")
	case len(args) == 1:
		return "", nil, out.WrongUse("there is no command behind --")
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

// config is the wait as lock.Config has it, where zero is for ever and negative is once.
func (w *waitFlag) config() time.Duration {
	switch {
	case w.forever:
		return 0
	case w.d == 0:
		return -1
	}
	return w.d
}

// run is the verb: join or take the lock, run the command, give the lock back.
func (f *runFlags) run(e *out.Env, cmd *cobra.Command, key string, command []string) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	if _, err := child.Find(command); err != nil {
		return startFailure(err) // before anybody waits for a lock
	}
	keeper, err := openKeeper(e, cmd.Context(), f, command)
	if err != nil {
		return err
	}
	r := &runner{env: e, flags: f, key: key, command: command, keeper: keeper}
	return r.run(cmd.Context())
}

func openKeeper(e *out.Env, ctx context.Context, f *runFlags, command []string) (keeper, error) {
	switch {
	case f.moves():
		return openMoving(e, ctx, f, command)
	case f.protocol == out.ProtocolModern:
		return openModern(e, f, command)
	}
	return openLegacy(e, f)
}

func startFailure(err error) error {
	var start *child.StartError
	if errors.As(err, &start) {
		return &out.ExitError{Code: out.OwnCode(start.Code), Err: start}
	}
	return &out.ExitError{Code: out.CodeRunFailed, Err: fmt.Errorf("starting the command: %w", err)}
}
