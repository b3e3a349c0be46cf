package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// attempt is one Acquire: the wait for this process's turn, then attempts at the store until one
// succeeds or the wait is over. It runs on its caller's goroutine and holds no mutex while it waits.
type attempt struct {
	client *Client
	core   *core
	key    string
	once   bool
	began  stamp // zero where nobody wants to know

	queue  *queue
	waited bool // something was waited for, so that trouble of the store is retried
	told   bool // Hooks.Waiting was called
	tries  int
	last   error // what the last attempt at the store said
	place  Place // in the store's queue, nil without one

	wake     chan struct{} // capacity 1, made when first armed
	cancel   func()        // disarms the wake-up, nil when not armed
	wakeless bool          // the store said that it cannot wake
	free     bool          // the key looked free when the watch was armed
	extras   int           // attempts in a row that were made because of that
	exact    bool          // the pause before the next attempt ends with the key's life
}

func (a *attempt) run(ctx context.Context) (*Lease, error) {
	queue, ticket, err := a.core.enter(ctx, a.client, a.key, a.once || a.client.cfg.Wait < 0)
	if err != nil {
		return nil, err
	}
	a.queue = queue
	if ticket != nil {
		lease, err := a.line(ctx, ticket)
		if lease != nil || err != nil {
			return lease, err
		}
	}
	lease, err := a.campaign(ctx)
	if a.cancel != nil {
		a.cancel()
	}
	if err != nil {
		if a.place != nil {
			a.core.leavePlace(a.place, a.client.cfg)
		}
		a.core.leave(queue, 0)
		return nil, err
	}
	return lease, nil
}

// line waits for this process's turn. It returns a lease when the goroutine before handed its own
// over, and neither lease nor error when it is our turn to try.
func (a *attempt) line(ctx context.Context, t *ticket) (*Lease, error) {
	a.waited = true
	if a.client.cfg.Hooks.Waiting != nil { // or the error would be made for nobody
		a.tellWaiting(&HeldError{Key: a.key, Protocol: "by this process"})
	}
	var over <-chan time.Time
	if left, limited := a.left(); limited {
		over = a.core.keeper.clock.After(left)
	}
	select {
	case <-t.ready:
	case <-ctx.Done():
		a.core.abandon(a.queue, t)
		return nil, a.contextEnded(ctx)
	case <-over:
		a.core.abandon(a.queue, t)
		return nil, a.waitEnded()
	}
	got := a.core.reuse(t)
	switch {
	case got.closed:
		return nil, ErrClosed
	case got.lease != nil && ctx.Err() != nil:
		got.lease.refuse()
		return nil, a.contextEnded(ctx)
	case got.lease != nil:
		a.tellAcquired(got.lease)
		return got.lease, nil
	case got.grant == nil:
		return nil, nil
	}
	lease, err := a.lease(ctx, got.grant, got.asked, got.grant.Term())
	if err != nil {
		a.core.leave(a.queue, 0)
	}
	return lease, err
}

// campaign tries until it has the key or gives up. It is this goroutine's turn.
func (a *attempt) campaign(ctx context.Context) (*Lease, error) {
	if err := a.stayQuiet(ctx); err != nil {
		return nil, err
	}
	if a.queue.met && !a.once {
		a.stand(ctx) // the goroutine of ours before us found others there, and had to
	}
	for {
		asked := a.began
		if asked == (stamp{}) || a.waited || a.tries > 0 {
			asked = a.core.keeper.nowStamp()
		}
		grant, term, err := a.try(ctx)
		a.tries++
		a.queue.met = a.core.queuer != nil && (err == nil && a.tries > 1 || errors.Is(err, ErrHeld))
		if err == nil {
			return a.lease(ctx, grant, asked, term)
		}
		if ctx.Err() != nil {
			return nil, a.contextEnded(ctx)
		}
		a.last = err
		if a.once || errors.Is(err, ErrNoRetry) || !a.waited && !errors.Is(err, ErrHeld) {
			return nil, fmt.Errorf("key %q: %w", a.key, err)
		}
		answered := a.core.keeper.now().Elapsed
		if a.enter(ctx, err) || a.arm(ctx, err) {
			continue
		}
		pause, more := a.pause(err, answered)
		if more {
			a.tellWaiting(err)
		}
		if err := a.rest(ctx, pause); err != nil {
			return nil, err
		}
		if !more {
			return nil, a.waitEnded()
		}
	}
}

// stayQuiet waits out this process's politeness. A single attempt does not: it asks what is.
func (a *attempt) stayQuiet(ctx context.Context) error {
	quiet := a.queue.mark // written before our turn began, with no hand-over since
	if quiet == 0 || a.once {
		return nil
	}
	rest := quiet - a.core.keeper.now().Elapsed
	if rest <= 0 {
		return nil
	}
	left, limited := a.left()
	if limited && left < rest {
		// Even so the attempt is made, at the end of the wait: the key may well be free.
		rest = left
	}
	a.waited = true
	return a.sleep(ctx, rest)
}

// try makes one attempt at the store. A grant that may or may not exist is undone in the background.
func (a *attempt) try(ctx context.Context) (Grant, Term, error) {
	grant, err := a.ask(a.core.call(ctx))
	if err == nil && a.place != nil {
		a.place = nil
		term, err := a.prolong(ctx, grant)
		if err != nil {
			return nil, Term{}, err
		}
		return grant, term, nil
	}
	if err == nil {
		return grant, grant.Term(), nil
	}
	var unsure *UnsureError
	if errors.As(err, &unsure) && unsure.Grant != nil {
		a.place = nil
		a.core.undo(unsure.Grant, a.key, &a.client.cfg)
	}
	return nil, Term{}, err
}

// prolong extends a grant of a place that was given the key for its claim, when its waiter had not
// asked for too long to trust what is left.
func (a *attempt) prolong(ctx context.Context, g Grant) (Term, error) {
	cfg, t := &a.client.cfg, g.Term()
	if t.TTL <= 0 || t.Sent.age(a.core.keeper.now()) <= (t.TTL-max(cfg.Margin, 0))/2 {
		return t, nil
	}
	t, err := g.Extend(a.core.call(ctx), cfg.TTL)
	if err != nil {
		a.core.undo(g, a.key, cfg)
	}
	return t, err
}

// ask makes the first attempt without a place in the store's queue: the key is mostly free.
func (a *attempt) ask(ctx context.Context) (Grant, error) {
	if a.place == nil {
		return a.core.backend.Try(ctx, a.key, a.client.cfg.TTL)
	}
	return a.place.Try(ctx, a.client.cfg.TTL)
}

// enter takes a place in the store's queue after a first attempt found the key held; it is tried at
// once.
func (a *attempt) enter(ctx context.Context, err error) (entered bool) {
	if a.core.queuer == nil || a.place != nil || a.once || !errors.Is(err, ErrHeld) {
		return false
	}
	return a.stand(ctx)
}

// stand takes a place in the store's queue.
func (a *attempt) stand(ctx context.Context) bool {
	place, err := a.core.queuer.Enter(a.core.call(ctx), a.key, a.client.claim())
	if err != nil {
		return false // waiting goes on without a place; the next attempt will tell of the trouble
	}
	a.place = place
	return true
}

// claim is the TTL under which a place in the store's queue may be given the key. It is short, since
// nobody renews for a waiter that died, and long enough for one who has heard of it to renew: trust in
// it counts from the waiter's last attempt, which may be a little more than recheckEvery ago. A lease
// that is not renewed needs its whole TTL, and asks for it.
func (c *Client) claim() time.Duration {
	if c.cfg.RenewEvery <= 0 {
		return 0
	}
	return min(c.cfg.TTL, max(c.cfg.Margin, 0)+2*recheckEvery)
}

// lease makes a Lease of a grant, unless it came too late to be trusted at all.
func (a *attempt) lease(ctx context.Context, grant Grant, asked stamp, term Term) (*Lease, error) {
	l := newLease(ctx, a.client, a.queue, grant, asked.elapsed)
	now := a.core.keeper.nowStamp()
	l.count(term, asked, now)
	if ctx.Err() != nil {
		a.core.undo(grant, a.key, &a.client.cfg)
		return nil, a.contextEnded(ctx)
	}
	if !l.trusted(now) {
		a.core.undo(grant, a.key, &a.client.cfg)
		return nil, fmt.Errorf("key %q: the store took %v to grant a lease that is trusted for %v (Config.TTL less Config.Margin); raise Config.TTL",
			a.key, asked.age(now).Round(time.Millisecond), l.span())
	}
	l.start()
	// A Close that cannot wait ends the leases that it finds. It would wait for this one if it began
	// behind that.
	if a.core.hurry.Load() && l.end(&ending{cause: ErrClosed}) {
		a.core.undo(grant, a.key, &a.client.cfg)
		return nil, fmt.Errorf("key %q: %w", a.key, ErrClosed)
	}
	a.tellAcquired(l)
	return l, nil
}

func (a *attempt) tellAcquired(l *Lease) {
	if f := a.client.cfg.Hooks.Acquired; f != nil {
		f(Event{Key: l.Key(), Token: l.grant.Token(), Wait: l.asked - a.began.elapsed, Until: l.Until()})
	}
}

func (a *attempt) tellWaiting(cause error) {
	a.waited = true
	if !a.told {
		a.told = true
		if f := a.client.cfg.Hooks.Waiting; f != nil {
			f(Event{Key: a.key, Cause: cause})
		}
	}
}

func (a *attempt) contextEnded(ctx context.Context) error {
	return fmt.Errorf("key %q: %w", a.key, context.Cause(ctx))
}

// waitEnded joins ErrWaitEnded with the last answer of the store; a goroutine whose turn never came
// was kept out by its own process, which counts as held.
func (a *attempt) waitEnded() error {
	last := a.last
	if last == nil {
		last = &HeldError{Key: a.key, Protocol: "by this process"}
	}
	waited := a.core.keeper.now().Elapsed - a.began.elapsed
	return fmt.Errorf("key %q: %w after %v: %w", a.key, ErrWaitEnded, waited.Round(time.Millisecond), last)
}

// leavePlace gives a place in the store's queue up in the background.
func (k *core) leavePlace(p Place, cfg Config) {
	k.janitor.do(func() {
		if err := p.Leave(k.call(context.Background())); err != nil {
			cfg.Logger.Warn("place in the queue could not be given up; it lapses by itself", "error", err)
		}
	})
}
