package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Lease is one key held, until it is released, its context ends, or it is lost. Its methods are safe
// for concurrent use.
type Lease struct {
	client *Client
	key    string
	queue  *queue // not to be touched after the turn was passed on
	grant  Grant
	parent context.Context
	asked  time.Duration // elapsed time before the attempt that got it

	event event // its place in the scheduler

	mu       sync.Mutex
	sent     Instant       // trust runs from here …
	span     time.Duration // … for so long
	renewAt  time.Duration // elapsed time of the next renewal, never: no renewal
	guardAt  time.Duration // elapsed time of the next guard, never: none
	guarded  time.Duration // elapsed time of the last one
	tieAt    time.Duration // elapsed time at which the end of parent begins to be watched
	warnAt   time.Duration // elapsed time at which its holder is warned, never: no warning
	busy     chan struct{} // not nil while an Extend is under way; closed after it
	lastErr  error         // of the last renewal, nil if it succeeded
	ended    error         // why the lease ended, nil while it lives
	released bool          // Release was called
	given    chan struct{} // not nil when the end of the context gives the key back; closed after it
	givenErr error         // of that; to be read after given was closed
	guarding bool          // a Guard is under way, or about to be
	left     bool          // the turn was passed on
	ctx      context.Context
	cancel   context.CancelCauseFunc
	tied     bool   // the end of parent is listened for
	tieIndex int    // where in the leases of parent it stands, plus one; guarded by core.ties
	disarm   func() // cancels the guard's watch
}

const never = time.Duration(1<<63 - 1)

func newLease(ctx context.Context, c *Client, q *queue, grant Grant, asked, now Instant) *Lease {
	l := &Lease{
		client: c, key: q.key, queue: q, grant: grant, parent: ctx, asked: asked.Elapsed,
		renewAt: never, guardAt: never, tieAt: never, warnAt: never,
	}
	l.event.lease = l
	l.count(grant.Term(), asked, now)
	return l
}

// count moves trust to a new term. asked, the instant before the call, stands in for a Sent that
// the backend left out or that lies ahead of now. Called with l.mu held, or before l is shared.
func (l *Lease) count(t Term, asked, now Instant) {
	cfg := &l.client.cfg
	ttl := cfg.TTL
	if t.TTL > 0 {
		ttl = min(ttl, t.TTL)
	}
	l.sent = t.Sent
	if t.Sent.Wall.IsZero() || t.Sent.Elapsed > now.Elapsed || t.Sent.Wall.After(now.Wall) {
		l.sent = asked
	}
	l.span = ttl - max(cfg.Margin, 0)
}

func (l *Lease) trusted(now Instant) bool { return l.sent.age(now) < l.span }

// trustEnd is when trust ends, in elapsed time, if no wall clock steps.
func (l *Lease) trustEnd() time.Duration { return l.sent.Elapsed + l.span }

// start hands l, which Acquire waited for so long, to the scheduler.
func (l *Lease) start(waited time.Duration) {
	k, cfg := l.client.core, &l.client.cfg
	l.planRenewal()
	// A lease that is given back before its first look pays neither for being watched in the store
	// nor for being tied to its context.
	first := l.sent.Elapsed + firstLook(cfg.TTL)
	if k.waker != nil {
		l.guardAt = first
	}
	if l.parent.Done() != nil {
		l.tieAt = first
	}
	k.sched.set(&l.event, l.due()) // until here nobody else knows l
	if f := cfg.Hooks.Acquired; f != nil {
		f(Event{Key: l.key, Token: l.grant.Token(), Wait: waited, Until: l.Until()})
	}
}

// firstLook is how old a lease becomes before the end of its context, and changes to its key, are
// listened for: a short time against the lease, a long one against an empty critical section.
// [Lease.Context] ties it at once.
func firstLook(ttl time.Duration) time.Duration { return min(ttl/20, 100*time.Millisecond) }

// tie gives the key back when the context ends, from now on. Called with l.mu held.
func (l *Lease) tie() {
	l.tieAt = never
	if !l.tied && !l.released && l.given == nil && l.parent.Done() != nil {
		l.tied = true
		l.client.core.ties.add(l)
	}
}

// planRenewal sets the next renewal, spread over the last tenth of the period so that leases taken
// together are not renewed together for ever. Called with l.mu held.
func (l *Lease) planRenewal() {
	every := l.client.cfg.RenewEvery
	if every <= 0 {
		l.renewAt = never
		return
	}
	if l.span < l.client.cfg.TTL-max(l.client.cfg.Margin, 0) {
		every = min(every, l.span/2) // the store granted less than was asked for
	}
	l.renewAt = l.sent.Elapsed + every - l.client.cfg.Jitter(every/10)
	if l.client.cfg.Hooks.Endangered != nil {
		l.warnAt = l.renewAt + (l.trustEnd()-l.renewAt)/2
	}
}

// due is when the scheduler should look at l next. Called with l.mu held.
func (l *Lease) due() time.Duration {
	at := min(l.trustEnd(), l.tieAt, l.warnAt)
	if l.busy == nil {
		at = min(at, l.renewAt)
	}
	if !l.guarding {
		at = min(at, l.guardAt)
	}
	return at
}

// Key returns the name under which the lease was acquired.
func (l *Lease) Key() string { return l.key }

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
// before.
func (l *Lease) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent.Wall.Add(l.span)
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
	now := l.client.core.keeper.now()
	l.mu.Lock()
	if l.ended == nil && !l.trusted(now) {
		l.mu.Unlock()
		l.outlived()
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	return l.ended
}

// Context returns a context that is cancelled the moment the lease ends; [context.Cause] tells why.
// It is a child of the context given to Acquire and carries the lease for nested calls of
// [Client.Do].
func (l *Lease) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.tie()
		l.ctx, l.cancel = context.WithCancelCause(holding{Context: l.parent, lease: l})
		if l.ended != nil {
			l.cancel(l.ended)
		}
	}
	return l.ctx
}

type leaseKey struct{}

// holding is a context that carries a lease.
type holding struct {
	context.Context
	lease *Lease
}

func (h holding) Value(key any) any {
	if _, ok := key.(leaseKey); ok {
		return h.lease
	}
	return h.Context.Value(key)
}

// heldBy returns the lease on key that ctx carries, through any number of nested ones.
func heldBy(ctx context.Context, k *core, key string) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	for ; l != nil; l, _ = l.parent.Value(leaseKey{}).(*Lease) {
		if l.client.core == k && l.key == key {
			return l
		}
	}
	return nil
}

// Renew extends the lease now, waiting for a renewal that is under way. The error is that of the
// renewal; the lease itself ends only if the store said that the key is lost or trust runs out.
func (l *Lease) Renew(ctx context.Context) error {
	for {
		if err := l.Err(); err != nil {
			return fmt.Errorf("lock: key %q: %w", l.key, err)
		}
		busy, mine := l.occupy()
		if mine {
			break
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return fmt.Errorf("lock: key %q: %w", l.key, context.Cause(ctx))
		}
	}
	k := l.client.core
	asked := k.keeper.now()
	term, err := l.grant.Extend(k.call(ctx), l.client.cfg.TTL)
	l.extended(term, err, asked)
	if err != nil {
		return fmt.Errorf("lock: key %q: %w", l.key, err)
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
	if l.released {
		l.mu.Unlock()
		return fmt.Errorf("lock: key %q: %w", l.key, ErrReleased)
	}
	l.released = true
	if l.given != nil {
		l.mu.Unlock()
		return l.wasGiven()
	}
	lost, ours := l.ended, l.ended == nil
	var ending ending
	if ours {
		cause := ErrReleased
		if !l.trusted(l.client.core.keeper.now()) {
			lost = l.untrusted()
			cause = lost
		}
		ending = l.stop(cause)
	}
	tied := l.tied
	l.mu.Unlock()
	if tied {
		l.client.core.ties.remove(l)
	}
	if ours {
		l.finish(ending)
		if lost != nil {
			l.tellLost(lost)
		}
	}
	return l.giveBack(lost)
}

// endOr ends the lease with cause, unless it was lost in that very moment: then it returns why.
func (l *Lease) endOr(cause error) (lost error) {
	if l.end(cause) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// giveBack releases the grant, or hands it over to the next goroutine of this process, and passes
// the turn on. lost is why the lease had ended before, nil if its holder ended it.
func (l *Lease) giveBack(lost error) error {
	k, cfg := l.client.core, &l.client.cfg
	handed, err := false, error(nil)
	if lost == nil {
		handed, err = k.handOver(l)
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
			k.undo(l.grant, l.key, cfg)
		}
		return fmt.Errorf("lock: %w", lost)
	case err == nil:
		l.tellReleased(nil)
		return nil
	case errors.Is(err, ErrLost):
		gone := &LostError{Key: l.key, Reason: "found at its release", Err: err}
		l.tellLost(gone)
		return fmt.Errorf("lock: %w", gone)
	}
	l.tellReleased(err)
	k.undo(l.grant, l.key, cfg)
	l.mu.Lock()
	frees := l.sent.Wall.Add(l.span + max(cfg.Margin, 0))
	l.mu.Unlock()
	return fmt.Errorf("lock: key %q was not given back yet, this goes on in the background; it frees itself at %s at the latest: %w",
		l.key, frees.UTC().Format(time.RFC3339Nano), err)
}

// contextEnded gives a lease back whose context is over.
func (l *Lease) contextEnded() {
	l.mu.Lock()
	if l.released || l.given != nil {
		l.mu.Unlock()
		return
	}
	l.given = make(chan struct{})
	l.mu.Unlock()
	k := l.client.core
	lost := l.endOr(context.Cause(l.parent))
	// A lost lease has passed its turn on and is not counted any more; Close must not overlook it.
	if lost != nil && !k.begin() {
		l.givenErr = fmt.Errorf("lock: key %q: %w; it frees itself", l.key, ErrClosed)
		close(l.given)
		return
	}
	k.janitor.do(func() {
		if lost != nil {
			defer k.end()
		}
		if l.givenErr = l.giveBack(lost); l.givenErr != nil && lost == nil {
			l.client.cfg.Logger.Warn("lease given back at the end of its context", "key", l.key, "error", l.givenErr)
		}
		close(l.given)
	})
}

// wasGiven waits until the end of the context has given the key back, and returns what came of it.
func (l *Lease) wasGiven() error {
	select {
	case <-l.given:
		return l.givenErr
	case <-l.client.core.keeper.clock.After(l.client.cfg.ReleaseWait):
		return fmt.Errorf("lock: key %q is still being given back, at the end of its context", l.key)
	}
}

// end ends the lease for its holder; false if it had ended before.
func (l *Lease) end(cause error) bool {
	l.mu.Lock()
	if l.ended != nil {
		l.mu.Unlock()
		return false
	}
	ending := l.stop(cause)
	l.mu.Unlock()
	l.finish(ending)
	return true
}

// ending is what is to be called, without l.mu, when a lease has ended.
type ending struct {
	cause  error
	cancel context.CancelCauseFunc
	disarm func()
}

// stop marks the lease as ended. Called with l.mu held.
func (l *Lease) stop(cause error) ending {
	l.ended = cause
	e := ending{cause, l.cancel, l.disarm}
	l.disarm = nil
	return e
}

func (l *Lease) finish(e ending) {
	l.client.core.sched.drop(&l.event)
	if e.cancel != nil {
		e.cancel(e.cause)
	}
	if e.disarm != nil {
		e.disarm()
	}
}

// lose ends the lease against its holder's will. The grant is kept, unrenewed: the job may still be
// stopping, and the next of ours must not start beside it. [Lease.Release] gives it back.
func (l *Lease) lose(cause error) {
	if l.end(cause) {
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
	return &LostError{Key: l.key, Reason: reason, Err: l.lastErr}
}

// passTurn lets the next goroutine of this process try, once.
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
		f(Event{Key: l.key, Token: l.grant.Token(), Held: l.held(), Cause: cause})
	}
}

func (l *Lease) tellReleased(cause error) {
	if f := l.client.cfg.Hooks.Released; f != nil {
		if cause == nil && l.parent.Err() != nil {
			cause = context.Cause(l.parent)
		}
		f(Event{Key: l.key, Token: l.grant.Token(), Held: l.held(), Cause: cause})
	}
}

func (l *Lease) held() time.Duration {
	return l.client.core.keeper.now().Elapsed - l.asked
}
