package runverb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// keeper is what run needs of a lock, whatever keeps it.
type keeper interface {
	// acquire takes key. The lease does not end with ctx.
	acquire(ctx context.Context, key string) (held, error)

	// holds reports whether the server holds key for token.
	holds(ctx context.Context, key, token string) (bool, error)

	// grace is the time between SIGTERM and SIGKILL, checked against the lease.
	grace() time.Duration

	// where is the server's address, for people.
	where() string

	// renews reports whether the lock is renewed while it is held.
	renews() bool

	// warning is what the user should know before the command starts, or empty.
	warning() string

	// close ends what is in the background, after waiting for it for a while.
	close(wait time.Duration)
}

// held is a lease.
type held interface {
	Token() string
	Fence() (int64, bool) // false: it has no fencing number
	Until() time.Time     // end of trust, unless it is renewed
	Done() <-chan struct{}
	Err() error // nil while it can be trusted
	Release() error

	// free is Release even where the key should stay taken: the command was never started.
	free() error
}

// closeWait is how long the end of run waits for what is in the background, such as undoing an
// attempt whose reply was lost.
const closeWait = 2 * time.Second

// process is a running command.
type process interface {
	Done() <-chan struct{}
	Terminate(child.Schedule)
	Wait() child.Exit
}

// runner is one run.
type runner struct {
	env     *out.Env
	flags   *runFlags
	key     string
	command []string
	keeper  keeper
}

func (r *runner) run(ctx context.Context) error {
	// The signals that ask us to end are kept in this one channel from here on, so that none is lost
	// between waiting and running. The rest is caught when there is a command to pass it to.
	signals := make(chan os.Signal, 16)
	defer r.env.Notify(signals, child.Ending()...)()

	outer, err := r.joins(ctx)
	if outer != nil || err != nil {
		r.keeper.close(closeWait)
		if err != nil {
			return err
		}
		return r.join(*outer, signals)
	}
	lease, err := r.wait(ctx)
	if err != nil {
		r.keeper.close(closeWait)
		return err
	}
	if w := r.keeper.warning(); w != "" {
		r.env.Say(r.flags.server.Quiet, "warning: %s", w)
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

// spec is how the command is started, whoever holds its lock.
func (r *runner) spec(env []string, signals <-chan os.Signal) child.Spec {
	return child.Spec{
		Args: r.command, Env: env,
		Stdin: r.env.Stdin, Stdout: r.env.Outer, Stderr: r.env.Stderr,
		Signals: signals, ReapOrphans: r.env.Alone, Clock: r.env.Clock,
	}
}

// wait acquires the lock. An interruption ends the waiting; a lease that comes all the same is given
// back.
func (r *runner) wait(ctx context.Context) (held, error) {
	type result struct {
		lease held
		err   error
	}
	waiting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	got := make(chan result, 1)
	go func() {
		lease, err := r.acquire(waiting)
		got <- result{lease, err}
	}()
	select {
	case <-ctx.Done():
		cancel(context.Cause(ctx))
		if late := <-got; late.err == nil {
			r.give(late.lease.free)
		}
		return nil, out.CouldNot(context.Cause(ctx), "waiting for %q, the command was not started", r.key)
	case g := <-got:
		if g.err != nil {
			return nil, r.notAcquired(g.err)
		}
		return g.lease, nil
	}
}

// notAcquired tells a lock that another held from a server that could not be asked.
func (r *runner) notAcquired(err error) error {
	if !errors.Is(err, lock.ErrHeld) {
		return out.CouldNot(keyless{err, r.key}, "acquiring %q on %s", r.key, r.keeper.where())
	}
	within := "at the first try"
	if w := &r.flags.wait; w.forever || w.d > 0 {
		within = "within " + w.String()
	}
	who := passed(err)
	if who == nil {
		errors.As(err, &who)
	} else {
		// What is left is said once, and it may have been waited for already.
		if !r.flags.waitGiven {
			within = "in time"
		}
		within += "; " + r.secondLook(who)
		who = &lock.HeldError{Key: who.Key, Owner: who.Owner, Protocol: who.Protocol, Stamp: who.Stamp}
	}
	if who != nil {
		err = who
	}
	return &out.ExitError{Code: out.CodeRunHeld, Err: fmt.Errorf("not acquired %s: %w", within, err)}
}

// acquire takes the lock. Without --wait, a stamp of an old client that has
// passed is waited for as long as its second look takes.
func (r *runner) acquire(ctx context.Context) (held, error) {
	lease, err := r.keeper.acquire(ctx, r.key)
	who := passed(err)
	if who == nil || r.flags.waitGiven {
		return lease, err
	}
	r.env.Say(r.flags.server.Quiet, "waiting on: %s", r.secondLook(who))
	// The look may begin anew once, and the last attempt may be under way.
	end := r.env.Clock.Now().Add(2*who.Left + r.flags.wait.d)
	for who != nil && r.env.Clock.Now().Before(end) {
		lease, err = r.keeper.acquire(ctx, r.key)
		who = passed(err)
	}
	return lease, err
}

// passed returns what is known of a key that only waits for its second look.
func passed(err error) *lock.HeldError {
	var who *lock.HeldError
	if errors.As(err, &who) && who.Passed {
		return who
	}
	return nil
}

// secondLook explains a key that only waits for its second look.
func (r *runner) secondLook(who *lock.HeldError) string {
	return fmt.Sprintf("by the server's clock the time that an old client wrote on %q has passed, but it is not known how far the old clients' clocks are behind: "+
		"the lock is taken over when the same value has stood for %v more (--behind 1s, if all clocks, the server's too, are kept within a second by NTP, takes it over at once)",
		r.key, who.Left.Round(time.Millisecond))
}

// keyless is an error without the name of the key, which every layer puts before its own. Where a layer
// says what it could not do to the key, it is called that.
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
	if lost != nil {
		r.abandon(lease)
		return &out.ExitError{Code: out.CodeRunLost, Err: fmt.Errorf("the command was ended (%s): %w", out.Describe(exited), lost)}
	}
	r.give(lease.Release)
	r.keeper.close(closeWait)
	return ended(exited)
}

// abandon gives back what is left of a lost lock, which frees itself otherwise. A server that is away
// must not keep us, whose end others may wait for: one that is there answers within releaseChance.
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

// watch returns when the command has ended, with the reason if it was ended because of the lock.
//
// It does not trust the wall clock alone: an end of trust becomes a time to wait when it is first
// seen, and if it still is the end of trust when that time has passed, no renewal has moved it.
func (r *runner) watch(proc process, lease held) (lost error) {
	grace, clock := r.keeper.grace(), r.env.Clock
	until := lease.Until()
	arm := func() <-chan time.Time {
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
			case <-proc.Done(): // it was sooner, and ended by itself
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
			if !r.keeper.renews() {
				lost = errLeaseOver
			}
			proc.Terminate(child.Overtaken(clock.Now(), until, grace))
		}
	}
}

// verdict says how the command of a lease that ended is to be ended. Where another's hand was seen
// on the key, trust has not run out and the grace is left; else nothing is.
func (r *runner) verdict(cause error, lease held) child.Schedule {
	now := r.env.Clock.Now()
	var fromOld *legacy.LostError
	var fromToken *modern.LostError
	if errors.As(cause, &fromOld) || errors.As(cause, &fromToken) {
		return child.Overtaken(now, lease.Until(), r.keeper.grace())
	}
	return child.Schedule{Term: now, Kill: now}
}

// continued is asked after we were stopped and continued, before the command is: it must not run on
// under a lock that ended while both stood still.
func (r *runner) continued(lease held) child.Schedule {
	if cause := lease.Err(); cause != nil {
		return r.verdict(cause, lease)
	}
	now, until, grace := r.env.Clock.Now(), lease.Until(), r.keeper.grace()
	if now.Before(child.Unrenewed(until, grace).Term) {
		return child.Schedule{}
	}
	return child.Overtaken(now, until, grace)
}

// give gives the lock back. The command's own exit code stands even where that fails; the
// user is told.
func (r *runner) give(release func() error) {
	switch err := release(); {
	case err == nil:
	case errors.Is(err, lock.ErrLost):
		r.env.Say(false, "warning: the lock was lost before the command ended, and it may not have been alone: %v", err)
	default:
		r.env.Say(r.flags.server.Quiet, "warning: %v", err)
	}
}

// ended is what run returns for a command that ended by itself: nil if it ended with
// 0, an *ExitError if it is unknown how it ended, else a *CommandEnd.
func ended(x child.Exit) error {
	switch {
	case x.Err != nil:
		return &out.ExitError{Code: out.CodeRunFailed, Err: fmt.Errorf("the command ended, and its exit code is unknown: %w", x.Err)}
	case x.Code == 0:
		return nil
	}
	return &out.CommandEnd{Exit: x}
}
