package lock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// Lease is one key held, until it is released, its context ends, or it is lost. Its methods are safe
// for concurrent use.
type Lease struct {
	// A process may hold a hundred thousand, so it is kept small: what few leases need is in more.
	client *Client
	queue  *queue // but for its key not to be touched after the turn was passed on
	grant  Grant
	parent context.Context
	asked  time.Duration // elapsed time before the attempt that got it

	spot // in the scheduler

	mu    sync.Mutex
	marks marks
	early uint32 // by how many microseconds the next renewal comes before it is due
	sent  stamp  // trust runs from here
	more  *more  // nil until needed
}

// marks are what is so or not of a lease.
type marks uint32

const (
	released marks = 1 << iota // Release was called
	giving                     // the end of the context gives the key back, or gave
	left                       // the turn was passed on
	over                       // the lease has ended
	loose                      // the end of parent is not listened for yet
	unseen                     // the first look at it is still to come, and guards it
	renews                     // it is to be renewed
	warns                      // its holder is to be warned, should the next renewal fail
	busy                       // an Extend is under way
	inGuard                    // a Guard is under way, or about to be
	armed                      // a BatchWaker guards it
	claimed                    // it is trusted for what a place in the store's queue claims
)

// is reports whether all of some marks are set. Like those below it is called with l.mu held, or before
// l is shared.
func (l *Lease) is(m marks) bool { return l.marks&m == m }

func (l *Lease) set(m marks)   { l.marks |= m }
func (l *Lease) unset(m marks) { l.marks &^= m }

// more is what only some leases have.
type more struct {
	ctx     context.Context // made when somebody waits for its end
	cancel  context.CancelCauseFunc
	disarm  func()        // cancels the guard's watch
	idle    chan struct{} // closed when the Extend that is under way is over
	lastErr error         // of the last renewal, nil if it succeeded
	retryAt time.Duration // elapsed time at which a renewal that failed is tried again, never: none failed
	guardAt time.Duration // elapsed time of the next guard behind the first, never: none
	touched time.Duration // elapsed time of the guard that the last touch brought about
	span    time.Duration // how long it is trusted where that is neither usual nor claimed, never: it is
	ended   *ending       // why it ended, nil: by a release
	given   chan struct{} // closed when the end of the context has given the key back
	err     error         // of that; to be read after given was closed
}

// ending is why a lease ended.
type ending struct {
	cause  error
	parent bool // its context ended
}

var byRelease = &ending{cause: ErrReleased}

const never = time.Duration(1<<63 - 1)

func newLease(ctx context.Context, c *Client, q *queue, grant Grant, asked time.Duration) *Lease {
	return &Lease{client: c, queue: q, grant: grant, parent: ctx, asked: asked}
}

// rest is l.more, made if need be. Called with l.mu held.
func (l *Lease) rest() *more {
	if l.more == nil {
		l.more = &more{retryAt: never, guardAt: never, span: never, touched: -never}
	}
	return l.more
}

// count moves trust to a new term. asked, the instant before the call, stands in for a Sent that
// the backend left out or that lies ahead of now by elapsed time. By the wall clock alone it lies
// ahead when that was set back since, and asked may be much later: a key that was given counts from
// an earlier call. Called with l.mu held, or before l is shared.
func (l *Lease) count(t Term, asked, now stamp) {
	cfg := &l.client.cfg
	ttl := cfg.TTL
	if t.TTL > 0 {
		ttl = min(ttl, t.TTL)
	}
	l.limit(ttl - max(cfg.Margin, 0))
	l.sent = asked
	if !t.Sent.Wall.IsZero() {
		sent := l.client.core.keeper.stamp(t.Sent)
		if passed := now.elapsed - sent.elapsed; passed >= 0 {
			l.sent = stamp{min(sent.wall, now.wall-passed), sent.elapsed}
		}
	}
}

// usualSpan is how long a lease is trusted for which the store granted what was asked for.
func usualSpan(cfg *Config) time.Duration { return cfg.TTL - max(cfg.Margin, 0) }

// claimedSpan is how long a lease is trusted that a place in the store's queue was given, until it is
// renewed.
func (c *Client) claimedSpan() time.Duration { return c.claim() - max(c.cfg.Margin, 0) }

// limit sets how long from l.sent on trust runs. Where keys are given on nearly every lease begins with
// the claimed span, so a mark stands for it.
func (l *Lease) limit(span time.Duration) {
	rare := never
	l.unset(claimed)
	switch span {
	case usualSpan(&l.client.cfg):
	case l.client.claimedSpan():
		l.set(claimed)
	default:
		rare = span
	}
	if rare != never || l.more != nil {
		l.rest().span = rare
	}
}

// span is how long from l.sent on trust runs.
func (l *Lease) span() time.Duration {
	switch {
	case l.more != nil && l.more.span != never:
		return l.more.span
	case l.is(claimed):
		return l.client.claimedSpan()
	}
	return usualSpan(&l.client.cfg)
}

func (l *Lease) trusted(now stamp) bool { return l.sent.age(now) < l.span() }

// trustEnd is when trust ends, in elapsed time, if no wall clock steps.
func (l *Lease) trustEnd() time.Duration { return l.sent.elapsed + l.span() }

// until is when trust ends, by the wall clock. Called with l.mu held, or before l is shared.
func (l *Lease) until() time.Time { return l.client.core.keeper.wall(l.sent).Add(l.span()) }

// plan readies l, whose trust counts already, for the scheduler. Nobody else knows l yet.
func (l *Lease) plan() {
	// A lease that is given back before its first look pays neither for being watched in the store
	// nor for being tied to its context.
	if l.client.core.waker != nil {
		l.set(unseen)
	}
	if l.parent.Done() != nil {
		l.set(loose)
	}
}

// start hands l to the scheduler.
func (l *Lease) start() {
	l.planRenewal()
	l.plan()
	l.client.core.sched.set(l, l.due()) // until here nobody else knows l
}

// firstLook is when the end of the context, and changes to the key, begin to be listened for: a short
// time against the lease, a long one against an empty critical section. [Lease.Context] ties it at
// once.
func (l *Lease) firstLook() time.Duration {
	return l.asked + min(l.client.cfg.TTL/20, 100*time.Millisecond)
}

// tie gives the key back when the context ends, from now on. Called with l.mu held.
func (l *Lease) tie() {
	if l.is(loose) {
		l.unset(loose)
		if l.marks&(released|giving) == 0 {
			l.client.core.ties.add(l)
		}
	}
}

// isTied reports whether ties may know l. Called with l.mu held.
func (l *Lease) isTied() bool { return !l.is(loose) && l.parent.Done() != nil }

// planRenewal sets the next renewal, spread over the last tenth of the period so that leases taken
// together are not renewed together for ever. Called with l.mu held.
func (l *Lease) planRenewal() {
	cfg := &l.client.cfg
	if cfg.RenewEvery <= 0 {
		l.unset(renews)
		return
	}
	l.set(renews)
	l.early = uint32(min(cfg.Jitter(l.renewEvery()/10)/time.Microsecond, math.MaxUint32))
	if l.more != nil {
		l.more.retryAt = never
	}
	if cfg.Hooks.Endangered != nil {
		l.set(warns)
	}
}

// renewAt is when it is renewed next, in elapsed time, never: not at all. Called with l.mu held.
func (l *Lease) renewAt() time.Duration {
	switch {
	case !l.is(renews):
		return never
	case l.more != nil && l.more.retryAt != never:
		return l.more.retryAt
	}
	return l.sent.elapsed + l.renewEvery() - time.Duration(l.early)*time.Microsecond
}

// guardAt is when it is guarded next, in elapsed time, never: not at all. Called with l.mu held.
func (l *Lease) guardAt() time.Duration {
	switch {
	case l.is(unseen):
		return l.firstLook()
	case l.more != nil:
		return l.more.guardAt
	}
	return never
}

// guardFrom plans the next guard for at. Called with l.mu held.
func (l *Lease) guardFrom(at time.Duration) {
	l.unset(unseen)
	if at != never || l.more != nil {
		l.rest().guardAt = at
	}
}

// renewEvery is how long after trust began to count a lease is renewed.
func (l *Lease) renewEvery() time.Duration {
	cfg := &l.client.cfg
	if span := l.span(); span < usualSpan(cfg) {
		return min(cfg.RenewEvery, span/2) // the store granted less than was asked for
	}
	return cfg.RenewEvery
}

// warnAt is when its holder is warned: half way from when a renewal was due at the latest to the end of
// trust.
func (l *Lease) warnAt() time.Duration {
	every := l.renewEvery()
	return l.sent.elapsed + every + (l.span()-every)/2
}

// due is when the scheduler should look at l next. Called with l.mu held.
func (l *Lease) due() time.Duration {
	at := l.trustEnd()
	if l.is(loose) {
		at = min(at, l.firstLook())
	}
	if l.is(warns) {
		at = min(at, l.warnAt())
	}
	if !l.is(busy) {
		at = min(at, l.renewAt())
	}
	if !l.is(inGuard) {
		at = min(at, l.guardAt())
	}
	return at
}

// Key returns the name under which the lease was acquired.
func (l *Lease) Key() string { return l.queue.key }

// Token tells this lease from all others of its key.
func (l *Lease) Token() string { return l.grant.Token() }

// Fence returns the lease's fencing number, if it has one: strictly greater than those of all
// earlier leases on the key.
func (l *Lease) Fence() (int64, bool) {
	f, ok := l.grant.(Fenced)
	if !ok || f.Fence() == 0 {
		return 0, false
	}
	return f.Fence(), true
}

// Until returns when trust in the lease ends, by the Client's wall clock, if it is not renewed
// before. A lease that the holder before gave on is trusted for a second or two at first, and renewed
// within that; [Lease.Renew] does it at once.
func (l *Lease) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until()
}

// Done is closed when the lease ends, like the Done of its Context.
func (l *Lease) Done() <-chan struct{} { return l.Context().Done() }

// Err returns nil while the lease can be trusted, else why it ended: [ErrReleased], the cause of its
// context, [ErrClosed], or a [*LostError]. It looks at the clock itself, so that it is right even
// where a timer is late.
func (l *Lease) Err() error {
	if l.parent.Err() != nil {
		l.contextEnded()
	}
	now := l.client.core.keeper.nowStamp()
	l.mu.Lock()
	if !l.is(over) && !l.trusted(now) {
		l.mu.Unlock()
		l.outlived()
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	return l.why()
}

// why is the cause of its end, nil while it lives. Called with l.mu held.
func (l *Lease) why() error {
	if !l.is(over) {
		return nil
	}
	return l.ending().cause
}

// ending is why it ended. Called with l.mu held, when it has; it does not change any more.
func (l *Lease) ending() *ending {
	if l.more == nil || l.more.ended == nil {
		return byRelease
	}
	return l.more.ended
}

// Renew extends the lease now, waiting for a renewal that is under way. The error is that of the
// renewal; the lease itself ends only if the store said that the key is lost or trust runs out.
func (l *Lease) Renew(ctx context.Context) error {
	for {
		_ = l.Err() // which ends it if its time is over
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
	asked := k.keeper.nowStamp()
	term, err := l.grant.Extend(k.call(ctx), l.client.cfg.TTL)
	l.extended(term, err, asked)
	if err != nil {
		return fmt.Errorf("lock: key %q: %w", l.Key(), err)
	}
	return nil
}

// Release gives the key back. It needs no context of the caller's and waits at most
// [Config.ReleaseWait] for the store; after that the key is given back in the background, and the
// error says when it frees itself at the latest. A lease that was lost before gives back what is
// left of it, and the error wraps [ErrLost]: its holder may not have been alone. When the context has
// ended before, the key was given back then, and Release returns what came of it. A second Release
// returns [ErrReleased].
func (l *Lease) Release() error {
	l.mu.Lock()
	if l.is(released) {
		l.mu.Unlock()
		return fmt.Errorf("lock: key %q: %w", l.Key(), ErrReleased)
	}
	l.set(released)
	if l.is(giving) {
		l.mu.Unlock()
		return l.wasGiven()
	}
	now := l.client.core.keeper.nowStamp()
	lost, ours := l.why(), !l.is(over)
	var last farewell
	if ours {
		e := byRelease
		if !l.trusted(now) {
			lost = l.untrusted()
			e = &ending{cause: lost}
		}
		last = l.stop(e)
	}
	tied := l.isTied()
	l.mu.Unlock()
	if tied {
		l.client.core.ties.remove(l)
	}
	if ours {
		last.do(l)
		if lost != nil {
			l.tellLost(lost)
		}
	}
	return l.giveBack(lost, now)
}

// endOr ends the lease by e, unless it was lost in that very moment: then it returns why.
func (l *Lease) endOr(e *ending) (lost error) {
	if l.end(e) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why()
}

// giveBack releases the grant, or hands it over to the next goroutine of this process, and passes
// the turn on. lost is why the lease had ended before, nil if its holder ended it, at now.
func (l *Lease) giveBack(lost error, now stamp) error {
	k, cfg := l.client.core, &l.client.cfg
	handed, err := lost == nil && k.share(l, now), error(nil)
	if !handed {
		k.sched.drop(l)
		if lost == nil {
			handed, err = k.pass(l)
		}
	}
	if !handed {
		ctx, cancel := k.releaseContext(cfg.ReleaseWait)
		err = l.grant.Release(ctx)
		if cancel != nil {
			cancel()
		}
		if lost == nil {
			k.leave(l.queue, l.politeness()) // who ends a lease himself is the only one to pass its turn on
		} else {
			l.passTurn(l.politeness())
		}
	}
	switch {
	case lost != nil:
		if err != nil && !errors.Is(err, ErrLost) {
			k.undo(l.grant, l.Key(), cfg)
		}
		return fmt.Errorf("lock: %w", lost)
	case err == nil:
		l.tellReleased(nil)
		return nil
	case errors.Is(err, ErrLost):
		gone := &LostError{Key: l.Key(), Reason: "found at its release", Err: err}
		l.tellLost(gone)
		return fmt.Errorf("lock: %w", gone)
	}
	l.tellReleased(err)
	k.undo(l.grant, l.Key(), cfg)
	l.mu.Lock()
	frees := l.until().Add(max(cfg.Margin, 0))
	l.mu.Unlock()
	return fmt.Errorf("lock: key %q was not given back yet, this goes on in the background; it frees itself at %s at the latest: %w",
		l.Key(), frees.UTC().Format(time.RFC3339Nano), err)
}

// contextEnded gives a lease back whose context is over.
func (l *Lease) contextEnded() {
	l.mu.Lock()
	if l.marks&(released|giving) != 0 {
		l.mu.Unlock()
		return
	}
	l.set(giving)
	m := l.rest()
	m.given = make(chan struct{})
	l.mu.Unlock()
	k := l.client.core
	lost := l.endOr(&ending{cause: context.Cause(l.parent), parent: true})
	// A lost lease has passed its turn on and is not counted any more; Close must not overlook it.
	if lost != nil && !k.begin() {
		m.err = fmt.Errorf("lock: key %q: %w; it frees itself", l.Key(), ErrClosed)
		close(m.given)
		return
	}
	k.janitor.do(func() {
		if lost != nil {
			defer k.end()
		}
		if m.err = l.giveBack(lost, k.keeper.nowStamp()); m.err != nil && lost == nil {
			l.client.cfg.Logger.Warn("lease given back at the end of its context", "key", l.Key(), "error", m.err)
		}
		close(m.given)
	})
}

// wasGiven waits until the end of the context has given the key back, and returns what came of it.
func (l *Lease) wasGiven() error {
	l.mu.Lock()
	m := l.more
	l.mu.Unlock()
	select {
	case <-m.given:
		return m.err
	case <-l.client.core.keeper.clock.After(l.client.cfg.ReleaseWait):
		return fmt.Errorf("lock: key %q is still being given back, at the end of its context", l.Key())
	}
}

// end ends the lease for its holder; false if it had ended before.
func (l *Lease) end(e *ending) bool {
	l.mu.Lock()
	if l.is(over) {
		l.mu.Unlock()
		return false
	}
	last := l.stop(e)
	l.mu.Unlock()
	l.client.core.sched.drop(l)
	last.do(l)
	return true
}

// farewell is what is to be done, without l.mu, when a lease has ended.
type farewell struct {
	cancel  context.CancelCauseFunc
	cause   error // for cancel
	disarm  func()
	unguard bool
}

// stop marks the lease as ended. Called with l.mu held.
func (l *Lease) stop(e *ending) (last farewell) {
	l.set(over)
	if e != byRelease {
		l.rest().ended = e
	}
	last = l.unwatch()
	if l.more != nil {
		last.cancel, last.cause = l.more.cancel, e.cause
	}
	return last
}

func (f farewell) do(l *Lease) {
	if f.cancel != nil {
		f.cancel(f.cause)
	}
	if f.disarm != nil {
		f.disarm()
	}
	if f.unguard {
		l.client.core.guards.batch.Unguard(l.grant)
	}
}

// lose ends the lease against its holder's will. The grant is kept, unrenewed: the job may still be
// stopping, and the next of ours must not start beside it. [Lease.Release] gives it back.
func (l *Lease) lose(cause error) {
	if l.end(&ending{cause: cause}) {
		l.passTurn(0)
		l.tellLost(cause)
	}
}

// outlived is lose when trust has run out.
func (l *Lease) outlived() {
	l.mu.Lock()
	cause := l.untrusted()
	l.mu.Unlock()
	l.lose(cause)
}

// untrusted says why trust ran out. Called with l.mu held.
func (l *Lease) untrusted() error {
	reason := "not renewed in time"
	if l.client.cfg.RenewEvery <= 0 {
		reason = "its time is over and it is not renewed"
	}
	return &LostError{Key: l.Key(), Reason: reason, Err: l.trouble()}
}

// trouble is how the last renewal failed, nil if it did not. Called with l.mu held.
func (l *Lease) trouble() error {
	if l.more == nil {
		return nil
	}
	return l.more.lastErr
}

// passTurn lets the next goroutine of this process try, once.
func (l *Lease) passTurn(stayAway time.Duration) {
	l.mu.Lock()
	first := !l.is(left)
	l.set(left)
	l.mu.Unlock()
	if first {
		l.client.core.leave(l.queue, stayAway)
	}
}

func (l *Lease) tellLost(cause error) {
	if f := l.client.cfg.Hooks.Lost; f != nil {
		f(Event{Key: l.Key(), Token: l.grant.Token(), Held: l.held(), Cause: cause})
	}
}

func (l *Lease) tellReleased(cause error) {
	if f := l.client.cfg.Hooks.Released; f != nil {
		if cause == nil && l.parent.Err() != nil {
			cause = context.Cause(l.parent)
		}
		f(Event{Key: l.Key(), Token: l.grant.Token(), Held: l.held(), Cause: cause})
	}
}

func (l *Lease) held() time.Duration {
	return l.client.core.keeper.now().Elapsed - l.asked
}
