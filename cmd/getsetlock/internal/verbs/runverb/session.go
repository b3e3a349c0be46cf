// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/lock"
)

// closeWait is how long run waits at its end for background work, such as
// undoing an attempt whose connection was lost.
const closeWait = 2 * time.Second

// process is a running command.
type process interface {
	Done() <-chan struct{}
	Terminate(child.Schedule)
	Wait() child.Exit
}

// runner executes one run.
type runner struct {
	env     *out.Env
	flags   *runFlags
	key     string
	command []string
	keeper  *keeper
	kind    kind

	spellings []string // warnings of the key in other spellings
	warned    []string // warnings that were printed

	// take is the keeper's acquire. The lease does not end with ctx.
	take func(ctx context.Context, key string) (held, error)

	// gone is closed when no script wants the lock any more. It ends the wait
	// for a lock that is not free. nil: the lock is wanted until the end.
	gone <-chan struct{}
}

// errInputOver ends a wait for a lock that no script wants any more.
var errInputOver = errors.New("standard input has ended")

// kind is what differs between the verbs in what they print.
type kind struct {
	nothing string // what did not happen where the lock was not taken
	lost    string // what happened because the lock was lost; %s is how the command ended
}

var running = kind{"the command was not started", "the command was ended (%s)"}

func (r *runner) run(ctx context.Context) error {
	// From here on this one channel receives the signals that ask run to end,
	// so that none is lost between waiting and running. The other signals are
	// caught once there is a command to pass them to.
	signals := make(chan os.Signal, 16)
	defer r.env.Notify(signals, child.Ending()...)()
	r.outliveReaders()

	lease, outer, err := r.obtain(ctx)
	switch {
	case err != nil:
		return err
	case outer != nil:
		return r.join(*outer, signals)
	}
	defer r.env.Notify(signals, child.Passed()...)()
	spec := r.spec(r.environment(lease), signals)
	spec.Continued = func() child.Schedule { return r.continued(lease) }
	proc, err := child.Start(spec)
	if err != nil {
		r.give(lease.free)
		r.keeper.close(closeWait)
		return startFailure(err)
	}
	return r.attend(proc, lease)
}

// obtain returns the lock of an outer run that holds the key, else a lease.
func (r *runner) obtain(ctx context.Context) (lease held, outer *heldLock, err error) {
	if outer, err = r.joins(ctx); outer == nil && err == nil {
		r.askForSpellings(ctx)
		if lease, err = r.wait(ctx); err == nil {
			r.warn()
			return lease, nil, nil
		}
	}
	r.keeper.close(closing(err))
	return nil, outer, err
}

// outliveReaders keeps this process alive when nobody reads what it prints.
// SIGPIPE would end it at once, with the lock held and the command running. The
// write then fails instead. This holds until the process ends, so that its exit
// code is right.
func (r *runner) outliveReaders() { _ = r.env.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// spec returns how to start the command, whichever run holds its lock.
func (r *runner) spec(env []string, signals <-chan os.Signal) child.Spec {
	return child.Spec{
		Args: r.command, Env: env,
		Stdin: r.env.Stdin, Stdout: r.env.Outer, Stderr: r.env.Stderr,
		Signals: signals, ReapOrphans: r.env.Alone, Clock: r.env.Clock,
	}
}

// wait acquires the lock. The end of ctx ends the wait. A lease that arrives
// nevertheless is released.
func (r *runner) wait(ctx context.Context) (held, error) {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go r.watchWait(waiting, cancel)
	lease, err := r.acquire(waiting)
	switch why := context.Cause(waiting); {
	case why != nil:
		if err == nil {
			r.give(lease.free)
		}
		return nil, out.CouldNot(why, "waiting for %q, %s", r.key, r.kind.nothing)
	case err != nil:
		return nil, r.notAcquired(err)
	}
	return lease, nil
}

// watchWait says why the command line waits, once it does, and ends the wait
// when no script wants the lock any more. It ends with ctx.
func (r *runner) watchWait(ctx context.Context, end context.CancelCauseFunc) {
	var why error
	select {
	case why = <-r.keeper.began:
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // both may have come
		return
	}
	if until := untilVotes(why, r.env.Clock.Now()); until != "" {
		r.env.Say(r.flags.server.Quiet, "waiting: %s", until)
	}
	go r.remind(ctx, why)
	select {
	case <-r.gone:
		end(errInputOver)
	case <-ctx.Done():
	}
}

// notAcquired tells a lock that another client held (exit code 124, or
// --busy-exit) from a server that could not be asked (122).
func (r *runner) notAcquired(err error) error {
	if !errors.Is(err, lock.ErrHeld) {
		return out.CouldNot(keyless{err, r.key}, "acquiring %q on %s", r.key, r.keeper.where)
	}
	within := "at the first try"
	if w := &r.flags.wait; w.forever || w.d > 0 {
		within = "within " + w.String()
	}
	who := passed(err)
	if who == nil {
		errors.As(err, &who)
	} else {
		// The remaining time is printed once. With a default --wait, run has
		// already waited for it.
		if !r.flags.waitGiven {
			within = "in time"
		}
		within += "; " + r.secondLook(who)
		who = &lock.HeldError{Key: who.Key, Owner: who.Owner, Protocol: who.Protocol, Stamp: who.Stamp}
	}
	if who != nil {
		said := *who
		said.Why = inFlags(who.Why)
		err = &said
	}
	return r.flags.busy.exit(r.flags.server.Quiet, fmt.Errorf("not acquired %s: %w", within, err))
}

// acquire takes the lock. A passed stamp of an old client needs a second look
// before a takeover. Without --wait, acquire keeps trying for as long as that
// second look takes.
func (r *runner) acquire(ctx context.Context) (held, error) {
	lease, err := r.take(ctx, r.key)
	who := passed(err)
	if who == nil || r.flags.waitGiven {
		return lease, err
	}
	r.env.Say(r.flags.server.Quiet, "still waiting: %s", r.secondLook(who))
	// The second look may start over once, and an attempt may be under way.
	end := r.env.Clock.Now().Add(2*who.Left + r.flags.wait.d)
	for who != nil && r.env.Clock.Now().Before(end) {
		lease, err = r.take(ctx, r.key)
		who = passed(err)
	}
	return lease, err
}

// passed returns the facts of a key that waits only for its second look, else
// nil.
func passed(err error) *lock.HeldError {
	var who *lock.HeldError
	if errors.As(err, &who) && who.Passed {
		return who
	}
	return nil
}

// secondLook explains a key that waits only for its second look.
func (r *runner) secondLook(who *lock.HeldError) string {
	hint := "if NTP keeps all clocks, the server's too, within a second, --behind 1s takes it over at once"
	switch {
	case who.Why != "":
		hint = inFlags(who.Why)
	case !r.flags.dialect.Given() && r.flags.protocol == protocolAuto:
		hint = strings.Replace(hint, "takes", "with the --dialect of the record takes", 1)
	case !r.flags.dialect.Given():
		hint = strings.Replace(hint, "--behind", "--dialect jedis --behind", 1)
	}
	return fmt.Sprintf("the time that an old client wrote on %q has passed by the server's clock, but the old client's clock may be behind: "+
		"run takes the lock over if the value is unchanged in %v (%s)",
		r.key, who.Left.Round(time.Millisecond), hint)
}

// inFlags names flags in place of the fields in a text.
func inFlags(text string) string { return out.InFlags(errors.New(text)).Error() }

// keyless is an error without the name of the key, which each layer puts in
// front. Where a layer says what it could not do to the key, the message says
// "it".
type keyless struct {
	error
	key string
}

func (e keyless) Error() string {
	named := regexp.QuoteMeta(fmt.Sprintf("key %q: ", e.key))
	text := regexp.MustCompile(`(\w) `+named).ReplaceAllString(e.error.Error(), "${1} it: ")
	return regexp.MustCompile(named).ReplaceAllString(text, "")
}

func (e keyless) Unwrap() error { return e.error }

// attend waits for the command, and ends it when the lock ends.
func (r *runner) attend(proc process, lease held) error {
	lost := r.watch(proc, lease)
	exited := proc.Wait()
	r.warn() // a server of a quorum may have answered only after the majority did
	if lost != nil {
		r.abandon(lease)
		return &out.ExitError{Code: out.CodeRunLost,
			Err: fmt.Errorf(r.kind.lost+": %w", out.Describe(exited), lost)}
	}
	r.give(lease.Release)
	r.keeper.close(closeWait)
	return ended(exited)
}

// abandon releases what is left of a lost lock, which would otherwise expire by
// itself. It waits at most releaseChance for the server: other programs may be
// waiting for this process to end.
func (r *runner) abandon(lease held) {
	given := make(chan struct{})
	go func() {
		_ = lease.Release()
		close(given)
		r.keeper.close(0)
	}()
	select {
	case <-given:
	case <-r.env.Clock.After(releaseChance):
	}
}

const releaseChance = 100 * time.Millisecond

var (
	errNotRenewed = errors.New("the lock was not renewed in time")
	errLeaseOver  = errors.New("its lease is over, and a verbatim lock is never renewed")
)

// watch returns when the command has ended. lost is the reason if watch ended
// the command because of the lock, else nil.
//
// watch does not trust the wall clock alone. It turns the end of the lease into
// a duration when it first sees that end. If the end is unchanged after that
// duration, no renewal has moved it.
func (r *runner) watch(proc process, lease held) (lost error) {
	grace, clock := r.keeper.grace, r.env.Clock
	until := lease.Until()
	arm := func() <-chan time.Time {
		grace := r.graceBefore(until)
		return clock.After(child.Unrenewed(until, grace).Term.Sub(clock.Now()))
	}
	timer, ended := arm(), lease.Done()
	for {
		select {
		case <-proc.Done():
			return lost
		case <-ended:
			ended, timer = nil, nil
			select {
			case <-proc.Done(): // the command ended by itself, before the lock
				return lost
			default:
			}
			lost = lease.Err()
			proc.Terminate(r.verdict(lost, lease))
		case <-timer:
			if moved := lease.Until(); !moved.Equal(until) {
				until = moved
				timer = arm()
				continue
			}
			timer = nil
			lost = errNotRenewed
			if !r.keeper.renews {
				lost = errLeaseOver
			}
			proc.Terminate(child.Overtaken(clock.Now(), until, grace))
		}
	}
}

// graceBefore returns how long before until the command gets SIGTERM if the
// lease is not renewed. A store other than Redis may grant a shorter time than
// --ttl, and count a new lease from an earlier sign of life. So the grace
// leaves three quarters of what is left for a renewal.
func (r *runner) graceBefore(until time.Time) time.Duration {
	grace := r.keeper.grace
	if !r.keeper.session {
		return grace
	}
	return min(grace, max(until.Sub(r.env.Clock.Now()), 0)/4)
}

// verdict returns when to end the command of a lost lease. If the key was found
// with another value, or with none, the lease's own time is not over, so the
// command gets its grace. Otherwise the command is killed at once.
func (r *runner) verdict(cause error, lease held) child.Schedule {
	now := r.env.Clock.Now()
	if found(cause) {
		return child.Overtaken(now, lease.Until(), r.keeper.grace)
	}
	return child.Schedule{Term: now, Kill: now}
}

// found reports whether the lease was lost because a look at the key, or a
// renewal, found it with another value, or with none.
func found(cause error) bool {
	var lost *lock.LostError
	return errors.As(cause, &lost) && errors.Is(lost.Err, lock.ErrLost)
}

// continued returns when to end the command after both were stopped and
// continued. It is called before the command continues, so that the command
// does not run on under a lock that ended meanwhile.
func (r *runner) continued(lease held) child.Schedule {
	if cause := lease.Err(); cause != nil {
		return r.verdict(cause, lease)
	}
	now, until, grace := r.env.Clock.Now(), lease.Until(), r.keeper.grace
	if now.Before(child.Unrenewed(until, grace).Term) {
		return child.Schedule{}
	}
	return child.Overtaken(now, until, grace)
}

// give releases the lock. If that fails, the user gets a warning, and the
// command's exit code is still passed on.
func (r *runner) give(release func() error) {
	switch err := release(); {
	case err == nil:
	case errors.Is(err, lock.ErrLost):
		r.env.Say(false, "warning: the lock was lost before the command ended, so another client may have worked at the same time: %v", err)
	default:
		r.env.Say(r.flags.server.Quiet, "warning: %v", err)
	}
}

// ended returns the error for a command that ended by itself:
//   - nil if it exited with 0;
//   - an *ExitError if its exit code is unknown;
//   - a *CommandEnd otherwise.
func ended(x child.Exit) error {
	switch {
	case x.Err != nil:
		return &out.ExitError{Code: out.CodeRunFailed,
			Err: fmt.Errorf("the command ended, and its exit code is unknown: %w", x.Err)}
	case x.Code == 0:
		return nil
	}
	return &out.CommandEnd{Exit: x}
}
