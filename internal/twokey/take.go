// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Attempt is what one attempt asks for.
type Attempt struct {
	Strategy Strategy
	TTL      time.Duration
	Account  Account // nil: none
}

// Statuses in the acquire scripts' replies.
const (
	tookFree = 1
	tookOver = 2
	tookTomb = 3 // the lease depends on the tombstone that is there
)

// Take makes one attempt: one round trip when the key is free or held, two and
// the settle when it takes over. It returns:
//   - a grant: both keys were written;
//   - a [*backend.HeldError] or [*TypeError]: the key is taken;
//   - a [*backend.UnsureError]: the key may have been taken, and the error's
//     grant undoes that;
//   - another error: nothing was taken.
func (e *Engine) Take(ctx context.Context, key string, a Attempt) (*Grant, error) {
	k, err := e.Keys(key)
	if err != nil {
		return nil, err
	}
	g, err := e.newGrant(k, a)
	if err != nil {
		return nil, err
	}
	took, seen, err := e.acquire(ctx, g, a.TTL, "")
	// Where M is all there is, only M counts.
	if err == nil && took == 0 && a.Strategy != Nothing {
		seen = e.judge(ctx, k, seen, a.TTL)
		if e.mayTakeOver(seen) {
			took, seen, err = e.acquire(ctx, g, a.TTL, seen.Value)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case took == 0:
		return nil, e.Held(k.Name, seen)
	}
	e.watch.forget(k.L)
	if took == tookOver {
		e.Count.Takeovers.Add(1)
	}
	if e.settles(g, took) {
		if err := e.settle(ctx, g); err != nil {
			return nil, err
		}
	}
	g.settled = true
	e.Count.Acquired.Add(1)
	if err := e.number(ctx, g); err != nil {
		return nil, err
	}
	return g, nil
}

// acquire runs the script once. If seen is not empty, it replaces exactly that
// value on L. It returns:
//   - took > 0: the key is taken, as tookFree, tookOver or tookTomb;
//   - took == 0 without an error: the key is held, as o shows;
//   - a [*backend.UnsureError]: the script may have run;
//   - another error: nothing was taken.
func (e *Engine) acquire(ctx context.Context, g *Grant, ttl time.Duration, seen string,
) (took int64, o Observation, err error) {
	at := e.Clock.begin()
	g.account.Sending(ttl)
	g.term = backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl}
	var room [14]any
	script, clockAt, args := g.acquisition(room[:0], ttl, seen)
	reply, err := e.timed(ctx, script, clockAt, args...)
	at = e.Clock.end(at)
	if err != nil {
		err = e.Trouble(g.k, "take", err)
		if unknown, may := wire.MayBeSent(err); may {
			e.Count.Unsure.Add(1)
			g.pending = unknown.Pending
			return 0, o, &backend.UnsureError{Grant: g, Err: err}
		}
		return 0, o, err
	}
	took, look := g.taken(reply)
	switch {
	case took == 0 && look == nil:
		return 0, o, e.Trouble(g.k, "take", errOddReply)
	case took == 0:
		o, err = e.look(g.k, look, at)
		if err == nil {
			e.note(&o)
		}
		return 0, o, err
	}
	g.turn = e.polite().Took(g.k.L, at.sent)
	if !g.server.IsZero() {
		e.sawClock(at, g.server.UnixMicro())
	}
	return took, o, nil
}

// mayTakeOver reports whether an attempt may replace the value that its look
// showed. A value that is not a plausible stamp is never replaced (rule 2).
// Nothing is replaced while M exists (rule 8).
func (e *Engine) mayTakeOver(o Observation) bool {
	if o.MarkExists || !o.Exists || o.Err != nil || !e.Settings.Dialect.HasTakeover() {
		return false
	}
	return e.Settings.Takeover.Expired(o)
}

// settles reports whether this acquisition needs another look before it is a
// grant. That is so after a takeover (rule 5), and after every acquisition
// where old clients take what they think is their own (rule 6). A tombstone
// needs no second look: only settled guards have left one.
func (e *Engine) settles(g *Grant, took int64) bool {
	d := &e.Settings.Dialect
	if took == tookTomb || g.strategy == Nothing || !d.HasTakeover() {
		return false
	}
	return took == tookOver || d.NeedsSettleEvery() || e.Settings.SettleAlways
}

// settle waits for longer than an old client can be between its clock reading
// and its GETSET, and looks again. By then every old client that judged the
// former value has written. The end of [lock.Config.Wait] does not cut the wait
// short; the end of the context given to Acquire does. It returns:
//
//   - nil: L is unchanged, and the attempt is granted.
//   - a [*backend.HeldError]: L has changed, and the attempt is undone.
//   - a [*backend.UnsureError]: whether L has changed is unknown, or the
//     attempt could not be undone. The error's grant undoes it.
func (e *Engine) settle(ctx context.Context, g *Grant) error {
	ctx = backend.IgnoreWait(ctx)
	select {
	case <-e.Clock.After(e.Settings.Terms.Settle()):
	case <-ctx.Done():
		return &backend.UnsureError{Grant: g, Err: fmt.Errorf("%s: settling key %q: %w",
			e.Settings.Package, g.k.Name, context.Cause(ctx))}
	}
	err := g.check(ctx)
	lost := lossOf(err)
	switch {
	case err == nil:
		return nil
	case lost == nil:
		return &backend.UnsureError{Grant: g, Err: err}
	}
	e.Count.Clobbered.Add(1)
	seen := lost.Seen
	if !lost.Mark {
		seen.MarkExists = false // the token on M is this grant's, and about to be deleted
	}
	held := e.Held(g.k.Name, seen)
	if err := g.Release(ctx); err != nil && !errors.Is(err, backend.ErrLost) {
		return &backend.UnsureError{Grant: g, Err: held}
	}
	return held
}

// number draws the fencing number of a stamp, while the lock is held: so every
// later holder's number is greater. Other marks have it already.
func (e *Engine) number(ctx context.Context, g *Grant) error {
	if e.Settings.Counters == "" || g.strategy != Stamp {
		return nil
	}
	reply, err := e.timed(ctx, numberScript, 2, e.counter(g.k), argBlock)
	if err != nil {
		return &backend.UnsureError{Grant: g, Err: e.Trouble(g.k, "draw a number for", err)}
	}
	g.fence = Number(reply)
	return nil
}

// Probe runs the scripts of an attempt and of what follows on a key that nobody
// else uses.
func (e *Engine) Probe(ctx context.Context, l string, a Attempt) error {
	k := newKeys(l, l, true)
	g, err := e.newGrant(k, a)
	if err != nil {
		return err
	}
	took, seen, err := e.acquire(ctx, g, a.TTL, "")
	switch {
	case err != nil:
		return err
	case took == 0:
		return e.Held(k.Name, seen)
	}
	g.settled = true
	if err := g.check(ctx); err != nil {
		return err
	}
	if _, err := g.Extend(ctx, a.TTL); err != nil {
		return err
	}
	return g.Release(ctx)
}

// Held returns the error that names the key's holder: a [*backend.HeldError],
// or a [*TypeError] if L has a type that no old client's lock can have.
func (e *Engine) Held(name string, o Observation) error {
	h := &backend.HeldError{Key: name, Protocol: e.Settings.Dialect.Name}
	var wrong *TypeError
	switch {
	case errors.As(o.Err, &wrong) && !o.MarkExists:
		e.Count.Foreign.Add(1)
		return wrong
	case o.MarkExists:
		e.heldByMark(h, o)
		return h
	case !o.Exists:
		return h // the key has been freed meanwhile
	}
	if o.HasTTL {
		h.Left, h.Until = o.PTTL, o.Local.Add(o.PTTL)
	}
	switch {
	case !e.Settings.Dialect.HasStamp():
		if e.Settings.Dialect.Shape != dialect.ShapeConstant {
			h.Owner = o.Value
		}
	case o.Err != nil:
		e.Count.Foreign.Add(1)
		h.Protocol = o.Err.Error()
	default:
		e.heldByStamp(h, o)
	}
	return h
}

// heldByMark fills in h for an M: a getsetlock client's, or what a release left
// to old clients.
func (e *Engine) heldByMark(h *backend.HeldError, o Observation) {
	if left, ok := o.left(); ok {
		h.Vacant, h.Left, h.Until = true, left, o.Local.Add(left)
		h.Protocol = "left to old clients of " + e.Settings.Dialect.Name
		return
	}
	var both bool
	h.Owner, _, both = o.Token()
	h.Left, h.Until = o.MarkPTTL, o.Local.Add(o.MarkPTTL)
	switch {
	case !both: // nothing on L belongs to that token
		h.Protocol = "a token alone, as phase clean and package modern write it"
	case o.Ours():
		h.Protocol = "getsetlock alongside " + e.Settings.Dialect.Name
	default: // rule 8: the holder then never renews the rest of M
		h.Protocol = "getsetlock alongside " + e.Settings.Dialect.Name +
			"; another client removed or replaced its value, and it has not released yet"
		h.Final = true
	}
}

// heldByStamp fills in h for a stamp on L without an M. Such a stamp is an old
// client's, or what a getsetlock client left when its M was lost.
func (e *Engine) heldByStamp(h *backend.HeldError, o Observation) {
	h.Owner = o.Stamp.ID
	h.Passed = e.wantsLook(o)
	d := &e.Settings.Dialect
	if uses[byTerms](e.Settings.Takeover) && d.HasTakeover() {
		h.Why = o.Doubt(e.Settings.Terms)
	}
	if p, ok := e.Settings.Takeover.(patient); ok && d.HasTakeover() {
		h.Left = least(h.Left, p.left(o))
	}
	if o.HasTTL && !d.ServerExpires() {
		// A getsetlock client wrote it, since its old clients set no TTL. No
		// client renews it without M.
		h.Until, h.Final = o.Local.Add(h.Left), true
	} else {
		h.Stamp = o.Stamp.Expiry
	}
	if o.Unremembered != nil {
		h.Protocol += fmt.Sprintf(", and a look at it could not be remembered: %v", o.Unremembered)
	} else if !uses[unchanged](e.Settings.Takeover) {
		return
	}
	period := time.Duration(e.period.Load())
	h.Again = period
	if o.Sparse > 0 {
		h.Protocol += fmt.Sprintf(", last looked at %v ago, which is too seldom: to see that it does not change, look at least every %v",
			o.Sparse.Round(time.Millisecond), samples*period)
	}
}
