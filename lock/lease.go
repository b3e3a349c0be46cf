// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Lease is one key held, until it is released, it is lost, or its Client is
// closed. It lives on when the context given to Acquire ends. Its methods are
// safe for concurrent use.
type Lease struct {
	client  *Client
	queue   *queue // goroutines of this process for the key; after passTurn only its key may be read
	grant   backend.Grant
	granted time.Duration // elapsed time when the attempt had got the grant

	spot // position in the scheduler

	mu       sync.Mutex
	released bool  // Release was called
	left     bool  // passTurn was called: the next goroutine of this process may try
	kept     bool  // the lease was lost, and Close waits for Release or for the end of the key's TTL
	warned   bool  // the log has warned about the long hold
	cause    error // reason for the end, nil while the lease lives
	trust    trust
	renewal  renewal
	watch    watch
	audience *audience // waiters for its end, nil until there is one
}

// never is the elapsed time of an event that is not planned.
const never = time.Duration(1<<63 - 1)

func newLease(c *Client, q *queue, grant backend.Grant, granted time.Duration) *Lease {
	l := &Lease{client: c, queue: q, grant: grant, granted: granted}
	l.renewal.next, l.watch.next, l.watch.touched = never, never, -never
	if c.core.waker != nil {
		// The first look at the key is delayed. So a lease that is released
		// before that look needs no watch in the store.
		l.watch.next = granted + min(c.cfg.TTL/20, 100*time.Millisecond)
	}
	return l
}

// start hands l to the scheduler. asked is the instant before the attempt that
// got the grant. urgent makes its renewal due at once. Trust counts already,
// and no other goroutine knows l yet.
func (l *Lease) start(urgent bool, asked, now reading) {
	l.planRenewal(asked.elapsed)
	if urgent {
		l.renewFrom(now.elapsed)
	}
	l.client.core.sched.set(l, l.due())
}

// planRenewal sets the next renewal. It draws the time from the last tenth of
// the period, so that leases taken together are not renewed together for ever.
// A backend whose trust counts from an earlier write may have nothing newer to
// say yet. It is asked again when a quarter of the trust is over that is left,
// not at once. Called with l.mu held, or before l is shared.
func (l *Lease) planRenewal(now time.Duration) {
	cfg := &l.client.cfg
	l.renewal.next = never
	if cfg.RenewEvery <= 0 {
		return
	}
	every := l.trust.renewEvery(cfg)
	at := l.trust.sent.elapsed + every - cfg.jitter(every/10)
	if at <= now {
		at = now + min(l.trust.retryAfter(cfg, now), max((l.trust.end()-now)/4, lastRetries))
	}
	l.renewFrom(at)
	l.renewal.warns = cfg.Hooks.Endangered != nil
}

// renewFrom sets the next renewal to at, unless Config.LongestHold has passed
// by then. Called with l.mu held, or before l is shared.
func (l *Lease) renewFrom(at time.Duration) {
	l.renewal.next = at
	if l.heldTooLong(at) {
		l.renewal.next = never
	}
}

// heldTooLong reports whether Config.LongestHold has passed at the elapsed time
// at.
func (l *Lease) heldTooLong(at time.Duration) bool {
	longest := l.client.cfg.LongestHold
	return longest > 0 && at-l.granted >= longest
}

// due returns when the scheduler should look at l next, in elapsed time: when
// trust ends, or earlier for a warning, a renewal or a look at the key. Called
// with l.mu held, or before l is shared.
func (l *Lease) due() time.Duration {
	at := l.trust.end()
	if l.renewal.warns {
		at = min(at, l.trust.warnAt(&l.client.cfg))
	}
	if !l.renewal.busy {
		at = min(at, l.renewal.next)
	}
	if !l.watch.looking {
		at = min(at, l.watch.next)
	}
	return at
}

// until returns when trust ends, by the wall clock. Called with l.mu held, or
// before l is shared.
func (l *Lease) until() time.Time {
	return l.client.core.keeper.wall(l.trust.sent).Add(l.trust.span)
}

// Key returns the name under which the lease was acquired.
func (l *Lease) Key() string { return l.queue.key }

// Token distinguishes this lease from all others of its key. Leases that
// goroutines of this process hand to each other without a message to the store
// have the same token (see [Config.LocalHandOvers]).
func (l *Lease) Token() string { return l.grant.Token() }

// Fence returns the lease's fencing number, if it has one. The number is
// strictly greater than those of all earlier leases on the key.
func (l *Lease) Fence() (int64, bool) {
	f, ok := l.grant.(backend.Fenced)
	if !ok || f.Fence() == 0 {
		return 0, false
	}
	return f.Fence(), true
}

// Until returns when trust in the lease ends unless it is renewed before, by
// the Client's wall clock.
func (l *Lease) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until()
}

// Done is closed when the lease ends.
func (l *Lease) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return alreadyDone
	}
	a := l.listeners()
	if a.done == nil {
		a.done = make(chan struct{})
	}
	return a.done
}

var alreadyDone = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Err returns nil while the lease can be trusted. After that it returns why the
// lease ended: [ErrReleased], [ErrClosed], or a [*LostError]. Err reads the
// clock itself, so it is right even if a timer is late.
func (l *Lease) Err() error {
	now := l.client.core.keeper.nowReading()
	l.mu.Lock()
	if l.cause == nil && !l.trust.holds(now) {
		l.mu.Unlock()
		l.outlived()
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	return l.cause
}

// Renew extends the lease now. If a renewal is under way, Renew waits for it
// first. The error is that of Renew's own call. The lease itself ends only if
// the store said that the key is lost or trust runs out. Renew waits for the
// store for at most two thirds of the remaining trust.
func (l *Lease) Renew(ctx context.Context) error {
	for {
		_ = l.Err() // ends the lease if its time is over
		idle, mine, err := l.occupy()
		if err != nil {
			return fmt.Errorf("lock: key %q: %w", l.Key(), err)
		}
		if mine {
			break
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return fmt.Errorf("lock: key %q: %w", l.Key(), context.Cause(ctx))
		}
	}
	k := l.client.core
	asked := k.keeper.nowReading()
	call, cancel := k.renewContext(ctx, asked, l)
	defer cancel()
	term, err := l.grant.Extend(call, l.client.cfg.TTL)
	l.extended(term, err, asked, false)
	if err != nil {
		return fmt.Errorf("lock: key %q: %w", l.Key(), err)
	}
	return nil
}

// Release gives the key back. It takes no context and waits at most
// [Config.ReleaseWait] for the store. After that the key is given back in the
// background, and the error says when the key frees itself at the latest. If
// the lease was lost before, Release gives back what is left of it and the
// error wraps [ErrLost]: another holder may have had the key meanwhile. A
// second Release returns [ErrReleased].
//
// With [Config.KeepFor], the key stays taken until that has passed since the
// acquisition, and then frees itself.
func (l *Lease) Release() error { return l.release(l.client.cfg.KeepFor) }

// release is Release with this floor instead of Config.KeepFor.
func (l *Lease) release(keep time.Duration) error {
	l.mu.Lock()
	if l.released {
		l.mu.Unlock()
		return fmt.Errorf("lock: key %q: %w", l.Key(), ErrReleased)
	}
	l.released = true
	now := l.client.core.keeper.nowReading()
	lost, ours := l.cause, l.cause == nil
	var last farewell
	if ours {
		cause := ErrReleased
		if !l.trust.holds(now) {
			lost = l.untrusted(now.elapsed)
			cause = lost
		}
		last = l.stop(cause)
	}
	l.mu.Unlock()
	if ours {
		last.do(l)
		if lost != nil {
			l.tellLost(lost)
		}
	}
	defer l.letGo()
	return l.giveBack(lost, now, keep)
}

// giveBack ends the grant of a lease that has ended, and lets the next
// goroutine of this process try. lost is why the lease had ended before now;
// nil if its holder ended it, at now. If lost is nil, a waiting goroutine of
// this process gets the grant where that is allowed. Otherwise the grant is
// released, with what is left of the floor keep. The results are:
//
//   - nil: the grant was released or handed over.
//   - an error that wraps ErrLost: the lease was lost before its Release, or
//     the store said so at the release. What is left of the grant is released,
//     if need be in the background.
//   - another error: the store did not confirm the release, which goes on in
//     the background.
func (l *Lease) giveBack(lost error, now reading, keep time.Duration) error {
	k, cfg := l.client.core, &l.client.cfg
	grant, keeps := l.ending(keep, now)
	var gap time.Duration // only a holder's own release leaves the key to others
	if lost == nil && !keeps {
		gap = l.politeness()
	}
	mayHand := lost == nil && gap == 0 && !keeps
	var err error
	if !mayHand || !k.share(l, now) {
		k.sched.drop(l)
		ctx, cancel := k.releaseContext(cfg.ReleaseWait)
		gap, err = l.releaseTo(ctx, grant, gap)
		if cancel != nil {
			cancel()
		}
		if lost == nil {
			k.leave(l.queue, gap) // only the holder's own release passes the turn on here
		} else {
			l.passTurn(0)
		}
	}
	switch {
	case lost != nil:
		if err != nil && !errors.Is(err, ErrLost) {
			k.undo(grant, l.Key(), cfg)
		}
		return fmt.Errorf("lock: %w", lost)
	case err == nil:
		l.tellReleased(nil)
		return nil
	case errors.Is(err, ErrLost):
		gone := &LostError{Key: l.Key(), Reason: "the store said so at its release", Err: err}
		l.tellLost(gone)
		return fmt.Errorf("lock: %w", gone)
	}
	l.tellReleased(err)
	k.undo(grant, l.Key(), cfg)
	l.mu.Lock()
	frees := l.until().Add(max(cfg.Margin, 0))
	l.mu.Unlock()
	return fmt.Errorf("lock: key %q is not given back yet; this goes on in the background, and the key frees itself at %s at the latest: %w",
		l.Key(), frees.UTC().Format(time.RFC3339Nano), err)
}

// end ends the lease for its holder, and does not touch the grant. It returns
// false if the lease had ended before.
func (l *Lease) end(cause error) bool { return l.endKeeping(cause, false) }

// endKeeping is end. If keeps is set, Close waits for the holder's Release,
// until letGo is called.
func (l *Lease) endKeeping(cause error, keeps bool) bool {
	l.mu.Lock()
	if l.cause != nil {
		l.mu.Unlock()
		return false
	}
	last := l.stop(cause)
	l.kept = keeps
	l.mu.Unlock()
	l.client.core.sched.drop(l)
	last.do(l)
	return true
}

// farewell is the work that remains, without l.mu, when a lease has ended.
type farewell struct {
	audience *audience
	cause    error // cause of the end, for the audience
	unwatch  bool
}

// stop marks the lease as ended. The caller runs the farewell after it has
// unlocked l.mu. Called with l.mu held.
func (l *Lease) stop(cause error) (last farewell) {
	l.cause = cause
	last = l.unwatch()
	last.audience, last.cause, l.audience = l.audience, cause, nil
	return last
}

// do closes Done, runs what waits for the end of l, and ends the store's watch
// over its key.
func (f farewell) do(l *Lease) {
	if f.audience != nil {
		f.audience.tell(f.cause)
	}
	if f.unwatch {
		l.client.core.waker.Unwatch(l.grant)
	}
}

// lose ends the lease against its holder's will. It neither renews nor releases
// the grant, since the holder's job may still be stopping. The next goroutine
// of this process may try at once, but finds the key taken as long as the store
// keeps the grant. The grant ends with the holder's [Lease.Release] or with its
// TTL.
func (l *Lease) lose(cause error) {
	k := l.client.core
	k.countIn() // counted before the lease ends, since its Release may come at once
	if !l.endKeeping(cause, true) {
		k.end()
		return
	}
	l.passTurn(0)
	l.tellLost(cause)
	l.mu.Lock()
	over := l.trust.end() + max(l.client.cfg.Margin, 0)
	l.mu.Unlock()
	k.sched.later(over, l.letGo) // false after close: then nothing waits for letGo
}

// letGo ends Close's wait for a lease that was lost. It is called when the
// lease was released, or when its key's TTL has passed by whichever of the two
// clocks ran further.
func (l *Lease) letGo() {
	l.mu.Lock()
	kept := l.kept
	l.kept = false
	l.mu.Unlock()
	if kept {
		l.client.core.end()
	}
}

// outlived ends the lease because trust has run out.
func (l *Lease) outlived() {
	now := l.client.core.keeper.now().Elapsed
	l.mu.Lock()
	cause := l.untrusted(now)
	l.mu.Unlock()
	l.lose(cause)
}

// untrusted returns the error that says why trust ran out. Called with l.mu
// held.
func (l *Lease) untrusted(now time.Duration) error {
	cfg := &l.client.cfg
	reason := "not renewed in time"
	switch {
	case cfg.RenewEvery <= 0:
		reason = "its time is over and it is not renewed"
	case l.renewal.next == never && l.heldTooLong(now):
		reason = fmt.Sprintf("held for longer than Config.LongestHold (%v), so its renewal ended",
			cfg.LongestHold)
	}
	return &LostError{Key: l.Key(), Reason: reason, Err: l.renewal.err}
}

// passTurn lets the next goroutine of this process try for the key, from which
// this process keeps away for stayAway. Only the first call does anything.
func (l *Lease) passTurn(stayAway time.Duration) {
	l.mu.Lock()
	first := !l.left
	l.left = true
	l.mu.Unlock()
	if first {
		l.client.core.leave(l.queue, stayAway)
	}
}

func (l *Lease) tellLost(cause error) {
	if f := l.client.cfg.Hooks.Lost; f != nil {
		l.tell(f, Event{Key: l.Key(), Token: l.grant.Token(), Held: l.held(), Cause: cause})
	}
}

func (l *Lease) tellReleased(cause error) {
	if f := l.client.cfg.Hooks.Released; f != nil {
		l.tell(f, Event{Key: l.Key(), Token: l.grant.Token(), Held: l.held(), Cause: cause})
	}
}

func (l *Lease) tell(hook func(Event), e Event) { l.client.core.hooks.tell(hook, e) }

// held returns for how long the lease has been held.
func (l *Lease) held() time.Duration {
	return l.client.core.keeper.now().Elapsed - l.granted
}
