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

	outwaited bool  // a key that was left to others was waited for, in place of giving up
	last      error // what the last attempt at the store said
	place     Place // in the store's queue, nil without one

	wake     chan struct{} // capacity 1, made when first armed
	cancel   func()        // disarms the wake-up, nil when not armed
	wakeless bool          // the store said that it cannot wake
	free     bool          // the key looked free when the watch was armed
	extras   int           // attempts in a row that were made because of that
	silent   bool          // since is set
	since    time.Duration // elapsed time since when the store has given no answer
	late     int           // how many grants came when trust in them was over
	found    bool          // the store has said that the key is held
	trouble  error         // of the last attempt whose context had not ended, nil: it found the key held
	cut      bool          // the wait ended before the store answered the last attempt
}

func (a *attempt) run(ctx context.Context) (*Lease, error) {
	queue, ticket, err := a.core.enter(a.client, a.key, a.once || a.client.cfg.Wait < 0)
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
	if !a.core.answered.Load() {
		a.silentFor()
	}
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
	lease, err := a.lease(ctx, got.grant, got.asked)
	switch {
	case errors.Is(err, ErrTooLate):
		a.tooLate(err)
		return nil, nil // the turn is still ours
	case err != nil:
		a.core.leave(a.queue, 0)
	}
	return lease, err
}

// tooLate notes a grant that could not be trusted any more when it came.
func (a *attempt) tooLate(err error) {
	a.late++
	a.last, a.trouble = err, err
}

// mostLate is after how many grants in one Acquire that came too late it ends:
// the TTL is shorter than this store takes.
const mostLate = 5

// campaign tries until it has the key or gives up. It is this goroutine's turn.
func (a *attempt) campaign(ctx context.Context) (*Lease, error) {
	if err := a.stayQuiet(ctx); err != nil {
		return nil, err
	}
	if a.queue.met && !a.once {
		a.stand(ctx) // the goroutine of ours before us found others there, and had to
	}
	for {
		asked := a.asks()
		grant, err := a.try(ctx)
		a.tried(ctx, err)
		if err == nil {
			var lease *Lease
			if lease, err = a.lease(ctx, grant, asked); !errors.Is(err, ErrTooLate) {
				return lease, err
			}
			a.tooLate(err)
		}
		if a.once && a.outwait(ctx, err) {
			continue
		}
		if err := a.hopeless(ctx, err); err != nil {
			return nil, err
		}
		if err := a.between(ctx, err); err != nil {
			return nil, err
		}
	}
}

// asks is the instant before an attempt. The first one goes by when the Acquire began, where that is known.
func (a *attempt) asks() stamp {
	if a.began == (stamp{}) || a.waited || a.tries > 0 {
		return a.core.keeper.nowStamp()
	}
	return a.began
}

// tried notes what came of an attempt.
func (a *attempt) tried(ctx context.Context, err error) {
	a.tries++
	if !a.cut || a.last == nil { // what was not answered hides no answer
		a.last = err
	}
	switch {
	case errors.Is(err, ErrHeld):
		a.found, a.trouble = true, nil
	case err != nil && ctx.Err() == nil:
		a.trouble = err
	}
	if err == nil || errors.Is(err, ErrHeld) || answered(err) {
		a.core.answered.Store(true)
	}
	others := errors.Is(err, ErrHeld) || err == nil && a.tries > 1
	a.queue.met = others && a.core.queuer != nil
}

// hopeless returns the error of an Acquire that makes no other attempt after one that
// ended with err; nil: it goes on.
//
//   - The key is held: it goes on.
//   - The grant came too late: it goes on, up to mostLate times.
//   - Waiting does not help: it ends.
//   - The trouble may pass: it goes on, at the first attempt too. Where nothing bounds
//     the wait and the store has never answered this Client, it ends after firstAnswer.
//   - Nothing is known of the trouble: it goes on where the store has said before that
//     the key is held, and ends where not.
//
// A client that keeps an old client's pace ends at the first trouble, as that does.
func (a *attempt) hopeless(ctx context.Context, err error) error {
	passes, known := passing(err)
	late := errors.Is(err, ErrTooLate) && a.late < mostLate
	goesOn := late || errors.Is(err, ErrHeld) || a.found && !known || passes && a.core.pacer == nil
	switch {
	case ctx.Err() != nil:
		return a.contextEnded(ctx)
	case a.cut:
		return a.waitEnded()
	case a.once, errors.Is(err, ErrNoRetry), !goesOn:
		return fmt.Errorf("key %q: %w", a.key, err)
	case passes && a.client.cfg.Wait == 0 && !a.core.answered.Load() && a.silentFor() >= firstAnswer:
		return fmt.Errorf("key %q: no answer within %v: %w", a.key, firstAnswer, err)
	}
	return nil
}

// firstAnswer is how long an Acquire without Config.Wait tries a store that has never
// answered: the address may be wrong.
const firstAnswer = 10 * time.Second

// silentFor is how long ago it began to wait for its turn, or its first attempt ended, without an answer of
// the store.
func (a *attempt) silentFor() time.Duration {
	now := a.core.keeper.now().Elapsed
	if !a.silent {
		a.silent, a.since = true, now
	}
	return now - a.since
}

// between does what lies between an attempt that ended with err and the next one: it takes a place in the
// store's queue, asks to be woken, or waits. An error ends the Acquire.
func (a *attempt) between(ctx context.Context, err error) error {
	answered := a.core.keeper.now().Elapsed
	if a.enter(ctx, err) || a.arm(ctx, err) {
		return nil
	}
	pause, more := a.pause(err, answered)
	if more {
		a.tellWaiting(err)
	}
	if err := a.sleep(ctx, pause); err != nil {
		return err
	}
	if !more && !a.outwait(ctx, err) {
		if ctx.Err() != nil {
			return a.contextEnded(ctx)
		}
		return a.waitEnded()
	}
	return nil
}

// outwait waits where the last attempt of an Acquire, or its only one, met a key
// that nobody holds and that is left to clients which poll. It reports that the
// time is over, so that one attempt more says whether the key is held. That is
// done once: whoever takes the key in turns may leave it again.
func (a *attempt) outwait(ctx context.Context, err error) bool {
	var held *HeldError
	if a.outwaited || !errors.As(err, &held) || !held.Vacant {
		return false
	}
	a.outwaited = true
	// The server frees the key when its last millisecond is over.
	return a.sleep(ctx, held.Left+time.Millisecond) == nil
}

// stayQuiet waits out this process's politeness, where the store knows of none. A
// single attempt does not: it asks what is.
func (a *attempt) stayQuiet(ctx context.Context) error {
	quiet := a.queue.moment // written before our turn began, with no hand-over since
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
func (a *attempt) try(ctx context.Context) (Grant, error) {
	call, free := a.bound(ctx)
	grant, err := a.ask(call)
	a.cut = err != nil && !errors.Is(err, ErrHeld) && cut(call, ctx)
	if free != nil {
		free()
	}
	if err == nil {
		a.place = nil
		return grant, nil
	}
	var unsure *UnsureError
	if errors.As(err, &unsure) && unsure.Grant != nil {
		a.place = nil
		a.core.undo(unsure.Grant, a.key, &a.client.cfg)
	}
	return nil, err
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
	call, free := a.bound(ctx)
	place, err := a.core.queuer.Enter(call, a.key)
	if free != nil {
		free()
	}
	if err != nil {
		return false // waiting goes on without a place; the next attempt will tell of the trouble
	}
	a.place = place
	return true
}

// lease makes a Lease of a grant, unless it came too late to be trusted at all.
func (a *attempt) lease(ctx context.Context, grant Grant, asked stamp) (*Lease, error) {
	l := newLease(a.client, a.queue, grant, asked.elapsed)
	now := a.core.keeper.nowStamp()
	l.trust = a.client.trustIn(grant.Term(), asked, now)
	if ctx.Err() != nil {
		a.core.undo(grant, a.key, &a.client.cfg)
		return nil, a.contextEnded(ctx)
	}
	if !l.trust.holds(now) {
		a.core.undo(grant, a.key, &a.client.cfg)
		return nil, fmt.Errorf("%w: the store took %v to grant a lease that is trusted for %v (Config.TTL less Config.Margin); raise Config.TTL",
			ErrTooLate, asked.age(now).Round(time.Millisecond), l.trust.span)
	}
	l.start()
	// A Close that can wait no longer ends the leases that it finds. This one may have begun after that.
	if a.core.hurry.Load() && l.end(ErrClosed) {
		a.core.undo(grant, a.key, &a.client.cfg)
		return nil, fmt.Errorf("key %q: %w", a.key, ErrClosed)
	}
	a.tellAcquired(l)
	return l, nil
}

func (a *attempt) tellAcquired(l *Lease) {
	if f := a.client.cfg.Hooks.Acquired; f != nil {
		l.tell(f, Event{Key: l.Key(), Token: l.grant.Token(), Wait: l.asked - a.began.elapsed, Until: l.Until()})
	}
}

func (a *attempt) tellWaiting(cause error) {
	a.waited = true
	if !a.told {
		a.told = true
		if f := a.client.cfg.Hooks.Waiting; f != nil {
			a.core.hooks.tell(f, Event{Key: a.key, Cause: cause})
		}
	}
}

// contextEnded joins the cause of ctx with the store's trouble, if that is why the key was not had.
func (a *attempt) contextEnded(ctx context.Context) error {
	if a.trouble != nil {
		return fmt.Errorf("key %q: %w; the attempt before had ended with: %w", a.key, context.Cause(ctx), a.trouble)
	}
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
		if k.hurry.Load() {
			return // it lapses by itself
		}
		if err := p.Leave(k.call(k.life)); err != nil {
			cfg.Logger.Warn("place in the queue could not be given up; it lapses by itself", "error", err)
		}
	})
}
