// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// attempt is one Acquire. It waits for its goroutine's turn in this process,
// then makes attempts at the store until one succeeds or the wait is over. It
// runs on its caller's goroutine and holds no mutex while it waits.
type attempt struct {
	client *Client
	core   *core
	key    string
	once   bool
	began  reading // start of the Acquire; zero where nothing uses it
	queue  *queue
	place  backend.Place // place in the store's queue, nil without one

	waited    bool // the attempt has waited, so trouble of the store is retried
	outwaited bool // the wait was extended once for a key that is left to others
	answers
	alarm
	voiced
}

// answers are what the store said to an attempt.
type answers struct {
	tries   int
	last    error         // error of the last attempt at the store
	trouble error         // error of the last attempt whose context lived; nil: it found the key held
	cut     bool          // the wait ended before the store answered the last attempt
	found   bool          // the store has said that the key is held
	late    int           // grants that came after trust in them had ended
	silent  bool          // since is set
	since   time.Duration // elapsed time from which on the store has given no answer
}

// alarm is the wake-up of an attempt that waits.
type alarm struct {
	wake     chan struct{} // capacity 1, made when first armed
	cancel   func()        // disarms the wake-up, nil when not armed
	wakeless bool          // the store said that it cannot wake
	free     bool          // the key looked free when the watch was armed
	extras   int           // attempts in a row because the key looked free
}

// voiced is what was said of an attempt that waits.
type voiced struct {
	told  bool          // Hooks.Waiting was called
	spoke bool          // the log has named what is waited for
	quiet time.Duration // elapsed time until which it does not; 0: not set
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

// line waits for this goroutine's turn in its process. It returns:
//
//   - a lease, when the goroutine before handed its own over;
//   - nil and nil, when this goroutine's turn to try has come;
//   - an error, when the wait ended, by its context, its bound or Close.
func (a *attempt) line(ctx context.Context, t *ticket) (*Lease, error) {
	a.waited = true
	if !a.core.answered.Load() {
		a.silentFor()
	}
	if a.client.cfg.Hooks.Waiting != nil { // without the hook the error would be of no use
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
	}
	return nil, nil
}

// tooLate records a grant that could no longer be trusted when it came.
func (a *attempt) tooLate(err error) {
	a.late++
	a.last, a.trouble = err, err
}

// mostLate is after how many late grants an Acquire ends: the TTL is shorter
// than this store takes to answer.
const mostLate = 5

// campaign tries until it has the key or gives up. Called when this goroutine
// has the turn.
func (a *attempt) campaign(ctx context.Context) (*Lease, error) {
	if err := a.stayQuiet(ctx); err != nil {
		return nil, err
	}
	if a.queue.met && !a.once {
		a.stand(ctx) // the goroutine before in this process met other waiters and took a place
	}
	for {
		asked := a.asks()
		grant, err := a.try(ctx)
		a.tried(ctx, err)
		if err == nil {
			var lease *Lease
			lease, err = a.lease(ctx, grant, asked)
			var unconfirmed *unconfirmedError
			switch {
			case errors.As(err, &unconfirmed):
				err = unconfirmed.error
				a.tried(ctx, err)
			case errors.Is(err, ErrTooLate):
				a.tooLate(err)
			default:
				return lease, err
			}
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

// asks returns the instant before an attempt. For the first attempt that is
// when the Acquire began, where that is known.
func (a *attempt) asks() reading {
	if a.began == (reading{}) || a.waited || a.tries > 0 {
		return a.core.keeper.nowReading()
	}
	return a.began
}

// tried records the outcome of an attempt.
func (a *attempt) tried(ctx context.Context, err error) {
	a.tries++
	if !a.cut || a.last == nil { // a missing answer does not replace an answer
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

// hopeless returns the error of an Acquire whose last attempt ended with err,
// or nil if the Acquire goes on:
//
//   - The Client was closed, and the attempt got no answer: it ends.
//   - The key is held: it goes on.
//   - The grant came too late: it goes on, up to mostLate times.
//   - Waiting does not help: it ends.
//   - The trouble may pass: it goes on, at the first attempt too. If nothing
//     bounds the wait and the store has never answered this Client, it ends
//     after firstAnswer.
//   - The error says nothing about waiting: it goes on if the store has said
//     before that the key is held, else it ends.
//
// A client that keeps an old client's pace ends at the first trouble, as the
// old client does.
func (a *attempt) hopeless(ctx context.Context, err error) error {
	passes, _ := passing(err)
	switch {
	case ctx.Err() != nil:
		return a.contextEnded(ctx)
	case a.cut:
		return a.waitEnded()
	case !errors.Is(err, ErrHeld) && a.core.shut(): // perhaps Close ended the attempt itself
		return fmt.Errorf("key %q: %w; the attempt before it failed with: %w", a.key, ErrClosed, err)
	case a.once, errors.Is(err, backend.ErrNoRetry), !a.goesOn(err):
		return fmt.Errorf("key %q: %w", a.key, err)
	case passes && a.client.cfg.Wait == 0 && !a.core.answered.Load() && a.silentFor() >= firstAnswer:
		return fmt.Errorf("key %q: no answer within %v: %w", a.key, firstAnswer, err)
	}
	return nil
}

// goesOn reports whether another attempt may end better than one with err.
func (a *attempt) goesOn(err error) bool {
	passes, known := passing(err)
	switch {
	case errors.Is(err, ErrTooLate): // no waiting makes the store faster
		return a.late < mostLate || passes && a.core.pacer == nil
	case errors.Is(err, ErrHeld):
		return true
	}
	return a.found && !known || passes && a.core.pacer == nil
}

// firstAnswer is how long an Acquire without Config.Wait tries a store that has
// never answered: the address may be wrong.
const firstAnswer = 10 * time.Second

// silentFor returns the time without an answer of the store. It counts from
// when the Acquire began to wait for its turn, or from the end of its first
// attempt.
func (a *attempt) silentFor() time.Duration {
	now := a.core.keeper.now().Elapsed
	if !a.silent {
		a.silent, a.since = true, now
	}
	return now - a.since
}

// between does what is due between an attempt that ended with err and the next
// one: it takes a place in the store's queue, arms a wake-up, or waits. An
// error ends the Acquire.
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

// outwait waits when the last attempt of an Acquire, or its only one, met a key
// that is left to clients that poll. It returns true when that time has passed,
// so that one more attempt can find out whether the key is held. It waits only
// once for each Acquire: the next holder may leave the key in the same way.
func (a *attempt) outwait(ctx context.Context, err error) bool {
	var held *HeldError
	if a.outwaited || !errors.As(err, &held) || !held.Vacant {
		return false
	}
	a.outwaited = true
	// The server frees the key when its last millisecond is over.
	return a.sleep(ctx, held.Left+time.Millisecond) == nil
}

// stayQuiet waits out this process's politeness, where the store does not
// enforce it. A single attempt does not wait: it asks for the present state.
func (a *attempt) stayQuiet(ctx context.Context) error {
	quiet := a.queue.moment // written before this turn began, with no hand-over since
	if quiet == 0 || a.once {
		return nil
	}
	rest := quiet - a.core.keeper.now().Elapsed
	if rest <= 0 {
		return nil
	}
	left, limited := a.left()
	if limited && left < rest {
		// The attempt is made even so, at the end of the wait: the key may well
		// be free.
		rest = left
	}
	a.waited = true
	return a.sleep(ctx, rest)
}

// try makes one attempt at the store. If a grant may or may not exist, it is
// undone in the background.
func (a *attempt) try(ctx context.Context) (backend.Grant, error) {
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
	var unsure *backend.UnsureError
	if errors.As(err, &unsure) && unsure.Grant != nil {
		a.place = nil
		a.core.undo(unsure.Grant, a.key, &a.client.cfg)
	}
	return nil, err
}

// ask sends the attempt. The first one needs no place in the store's queue: the
// key is mostly free.
func (a *attempt) ask(ctx context.Context) (backend.Grant, error) {
	switch {
	case a.place != nil:
		return a.place.Try(ctx, a.client.cfg.TTL)
	case a.core.queuer != nil && !a.once && a.tries == 0:
		return a.core.queuer.First(ctx, a.key, a.client.cfg.TTL)
	}
	return a.core.backend.Try(ctx, a.key, a.client.cfg.TTL)
}

// enter takes a place in the store's queue after the first attempt found the
// key held. It reports whether it has a place, which is then tried at once.
func (a *attempt) enter(ctx context.Context, err error) (entered bool) {
	if a.core.queuer == nil || a.place != nil || a.once || !errors.Is(err, ErrHeld) {
		return false
	}
	return a.stand(ctx)
}

// stand takes a place in the store's queue. It reports whether it has one.
func (a *attempt) stand(ctx context.Context) bool {
	call, free := a.bound(ctx)
	place, err := a.core.queuer.Enter(call, a.key)
	if free != nil {
		free()
	}
	if err != nil {
		return false // waiting goes on without a place; the next attempt reports the trouble
	}
	a.place = place
	return true
}

// lease makes a Lease of a grant. If the grant came too late to be trusted, or
// ctx has ended, it undoes the grant and returns an error.
func (a *attempt) lease(ctx context.Context, grant backend.Grant, asked reading) (*Lease, error) {
	now, term := a.core.keeper.nowReading(), grant.Term()
	l := newLease(a.client, a.queue, grant, now.elapsed)
	l.trust = a.client.trustIn(term, asked, now)
	if ctx.Err() != nil {
		a.core.undo(grant, a.key, &a.client.cfg)
		return nil, a.contextEnded(ctx)
	}
	if term.Given && a.client.scarce(l.trust, now) {
		if err := a.confirm(ctx, l); err != nil {
			return nil, err
		}
		now, term.Given = a.core.keeper.nowReading(), false
	}
	if !l.trust.holds(now) {
		a.core.undo(grant, a.key, &a.client.cfg)
		if l.trust.span <= 0 {
			return nil, fmt.Errorf("key %q: the store grants only %v of Config.TTL (%v), which does not exceed Config.Margin (%v); lower Config.TTL",
				a.key, grant.Term().TTL, a.client.cfg.TTL, a.client.cfg.Margin)
		}
		return nil, fmt.Errorf("%w: the store took %v to grant a lease that is trusted for %v (Config.TTL less Config.Margin); raise Config.TTL",
			ErrTooLate, asked.age(now).Round(time.Millisecond), l.trust.span)
	}
	l.start(term.Given && l.trust.left(now) < l.trust.span*2/3, asked, now)
	// A Close whose context has ended ends the leases that it finds. This lease
	// may have begun after that.
	if a.core.hurry.Load() && l.end(ErrClosed) {
		a.core.undo(grant, a.key, &a.client.cfg)
		return nil, fmt.Errorf("key %q: %w", a.key, ErrClosed)
	}
	a.tellAcquired(l)
	return l, nil
}

// scarce reports that less than a quarter of the TTL may be left of a grant
// that was given, or so little that its holder would be warned at once. A lease
// that is not renewed is to have all of it.
func (c *Client) scarce(t trust, now reading) bool {
	warns := c.cfg.Hooks.Endangered != nil && t.warnAt(&c.cfg) <= now.elapsed
	return c.cfg.RenewEvery <= 0 || t.left(now) < t.span/4 || warns
}

// confirm renews a lease before the caller gets it, and undoes its grant if
// that fails. If the store says that the grant is lost, the key counts as held,
// and nothing is undone.
func (a *attempt) confirm(ctx context.Context, l *Lease) error {
	asked := a.core.keeper.nowReading()
	call, free := a.bound(ctx)
	term, err := l.grant.Extend(call, a.client.cfg.TTL)
	a.cut = err != nil && cut(call, ctx)
	if free != nil {
		free()
	}
	switch {
	case err == nil:
		l.trust = a.client.trustIn(term, asked, a.core.keeper.nowReading())
		return nil
	case errors.Is(err, ErrLost): // no command that takes the key is under way, so nothing is left to undo
		return &unconfirmedError{&HeldError{Key: a.key}}
	}
	a.core.undo(l.grant, a.key, &a.client.cfg)
	return &unconfirmedError{err}
}

// unconfirmedError is the outcome of an attempt whose grant was given but not
// confirmed.
type unconfirmedError struct{ error }

func (a *attempt) tellAcquired(l *Lease) {
	if f := a.client.cfg.Hooks.Acquired; f != nil {
		l.tell(f, Event{Key: l.Key(), Token: l.grant.Token(), Wait: l.granted - a.began.elapsed,
			Until: l.Until()})
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

// contextEnded joins the cause of ctx with the store's trouble, if that kept
// the key from being acquired.
func (a *attempt) contextEnded(ctx context.Context) error {
	if a.trouble != nil {
		return fmt.Errorf("key %q: %w; the attempt before it failed with: %w", a.key, context.Cause(ctx),
			a.trouble)
	}
	return fmt.Errorf("key %q: %w", a.key, context.Cause(ctx))
}

// waitEnded joins ErrWaitEnded with the last answer of the store. If this
// goroutine's turn never came, its own process kept it out, which counts as
// held.
func (a *attempt) waitEnded() error {
	last := a.last
	if last == nil {
		last = &HeldError{Key: a.key, Protocol: "by this process"}
	}
	waited := a.core.keeper.now().Elapsed - a.began.elapsed
	return fmt.Errorf("key %q: %w after %v: %w", a.key, ErrWaitEnded, waited.Round(time.Millisecond), last)
}

// leavePlace gives up a place in the store's queue, in the background.
func (k *core) leavePlace(p backend.Place, cfg Config) {
	k.janitor.do(func() {
		if k.hurry.Load() {
			return // the place lapses by itself
		}
		if err := p.Leave(k.call(k.life)); err != nil {
			cfg.Logger.Warn("could not leave the store's queue; the place lapses by itself", "error", err)
		}
	})
}
