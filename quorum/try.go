// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Try asks every member for its vote at once. It returns:
//
//   - a grant: a majority voted and, with Config.Fences, has its number.
//   - an error that wraps [backend.ErrHeld]: other clients have too many votes.
//   - a [*ShortError]: too few members vote.
//   - a [*backend.UnsureError]: a majority may have voted, or may still.
func (b *engine) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := b.First(ctx, key, ttl)
	for round := 1; bare(err); round++ {
		if info, looked := b.Describe(ctx, key); looked == nil && info.Held != nil {
			return nil, info.Held
		}
		if !isSplit(err) || round == mostRounds || !b.pause(ctx, rand.N(apart<<round)) {
			break
		}
		g, err = b.attempt(ctx, key, ttl)
	}
	if _, ok := err.(*ShortError); !ok || !b.anyRests() { // an UnsureError has a grant to undo
		return g, err
	}
	if b.rested(ctx) {
		return b.attempt(ctx, key, ttl)
	}
	if short := Short(key, b.standings()); short != nil {
		return nil, short // in which more members have answered
	}
	return nil, err
}

// mostRounds is how often a Try asks for votes that are split between clients.
// These give them back meanwhile.
const mostRounds = 8

// isSplit reports whether err says that several clients have some votes each.
func isSplit(err error) bool {
	var held *backend.HeldError
	return bare(err) && errors.As(err, &held) && held.Protocol == split
}

// pause waits for d. It returns false if ctx ends before.
func (b *engine) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-b.cfg.Clock.After(d):
		return true
	case <-ctx.Done():
		return false
	case <-b.life.Done():
		return false
	}
}

// bare reports whether err says only that the key is held.
func bare(err error) bool {
	var held *backend.HeldError
	var open *backend.UnsureError
	return errors.As(err, &held) && !errors.As(err, &open)
}

// First is Try without the name of the holder in its HeldError. A client that
// just released a key for which it had to wait lets others go first.
func (b *engine) First(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	if behind := b.usual.of(key).behind(b.elapsed()); behind > 0 {
		b.pause(ctx, behind)
	}
	g, err := b.attempt(ctx, key, ttl)
	if err == nil {
		b.usual.note(key, 0)
	}
	return g, err
}

// attempt makes one attempt.
func (b *engine) attempt(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	switch {
	case key == "":
		return nil, errors.New("quorum: key is empty")
	case b.fits(ttl) != nil:
		return nil, fmt.Errorf("key %q: %w", key, b.fits(ttl))
	case ctx.Err() != nil:
		return nil, fmt.Errorf("quorum: key %q: nothing was sent: %w", key, context.Cause(ctx))
	case !b.begin():
		return nil, fmt.Errorf("quorum: key %q: %w", key, lock.ErrClosed)
	}
	defer b.work.Done()
	n := len(b.members)
	a := &attempt{b: b, g: b.newGrant(key, ttl), ctx: ctx, answers: make(chan answer, 2*n),
		errs: make([]error, n)}
	call, cancel := b.detached(ctx)
	a.cancel = cancel
	for i := range b.members {
		a.spawn(answer{index: i}, func() error { return a.g.take(call, i, ttl) })
	}
	b.work.Add(1)
	defer func() { // numbers may have been asked for since
		go func() {
			defer b.work.Done()
			a.calls.Wait()
			cancel(nil)
		}()
	}()
	g, err := a.run(call)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// attempt is one Try.
type attempt struct {
	b       *engine
	g       *grant
	ctx     context.Context         // the caller's
	cancel  context.CancelCauseFunc // of the members' calls, which may outlive the attempt
	calls   sync.WaitGroup
	answers chan answer
	errs    []error // why each member did not vote; errSilent: no answer yet
	took    int     // votes
	pending int     // members that were not asked in vain so far
	cut     error   // the caller's context ended
}

// answer is what one member said to a request for its vote, or, if raise is
// set, for writing the number back.
type answer struct {
	index int
	raise bool
	err   error
}

var errSilent = errors.New("no answer yet")

// spawn runs a call of a member.
func (a *attempt) spawn(as answer, call func() error) {
	a.pending++
	a.errs[as.index] = errSilent
	a.b.work.Add(1)
	a.calls.Add(1)
	go func() {
		defer a.b.work.Done()
		defer a.calls.Done()
		as.err = call()
		a.answers <- as
	}()
}

// run counts the votes.
func (a *attempt) run(call context.Context) (*grant, error) {
	for a.took < a.b.need && a.took+a.pending >= a.b.need && a.cut == nil {
		a.next()
	}
	if a.took < a.b.need {
		return nil, a.lose(a.refusal())
	}
	if err := a.b.sole(nil); err != nil {
		return nil, a.lose(err)
	}
	if a.b.cfg.Fences {
		if err := a.number(call); err != nil {
			return nil, a.lose(err)
		}
	}
	return a.win(), nil
}

// next waits for an answer, or for the end of the caller's context.
func (a *attempt) next() {
	select {
	case one := <-a.answers:
		a.pending--
		a.errs[one.index] = one.err
		if one.err == nil && !one.raise {
			a.took++
		}
	case <-a.ctx.Done():
		a.cut = context.Cause(a.ctx)
	}
}

// win makes the grant the caller's. The votes that came before count at once.
func (a *attempt) win() *grant {
	g := a.g
	g.mu.Lock()
	defer g.mu.Unlock()
	var terms []backend.Term
	for _, v := range g.votes {
		if v.state == stands {
			terms = append(terms, v.grant.Term())
		}
	}
	g.term, g.given = trusted(terms, a.b.need, g.ttl), true
	return g
}

// trusted returns the term of need votes: that which ends as the need-th last.
// Until then need votes stand, if no member ended one early. Each term counts
// from before its own command was sent.
func trusted(terms []backend.Term, need int, ttl time.Duration) backend.Term {
	slices.SortFunc(terms, func(x, y backend.Term) int { return cmp.Compare(ends(y, ttl), ends(x, ttl)) })
	return terms[need-1]
}

// errDecided ends the calls of an attempt that cannot win. It says nothing
// about the key, as the error of the attempt does: a member's error may wrap
// it.
var errDecided = errors.New("quorum: the attempt was decided by other members")

// lose gives every vote back, waits for the replies to that, and returns err,
// as an UnsureError if a majority may still stand.
func (a *attempt) lose(err error) error {
	a.cancel(errDecided)
	g := a.g
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end(a.ctx)
	g.settle(a.ctx)
	if g.count(asked, stands, unsure) >= a.b.need {
		return &backend.UnsureError{Grant: g, Err: err}
	}
	return err
}

// refusal returns why no majority voted.
func (a *attempt) refusal() error {
	if a.cut != nil {
		return fmt.Errorf("quorum: key %q: %d of %d members voted before the wait ended: %w", a.g.key, a.took,
			len(a.errs), a.cut)
	}
	if err := a.b.sole(nil); err != nil {
		return fmt.Errorf("quorum: key %q: %w", a.g.key, err)
	}
	if slices.ContainsFunc(a.errs, func(err error) bool { return errors.Is(err, backend.ErrHeld) }) {
		held := &backend.HeldError{Key: a.g.key}
		if a.took > 0 {
			held.Protocol = split
		}
		return held
	}
	now := backend.ReadClock(a.ctx).Wall
	var all []Standing
	for i, m := range a.b.members {
		all = append(all, standing(m, a.errs[i], now))
	}
	if err := Short(a.g.key, all); err != nil {
		return err
	}
	return fmt.Errorf("quorum: key %q: %w", a.g.key, errors.Join(a.errs...))
}

// split is the Protocol of a key of which another client has some votes, and
// this one had some.
const split = "the votes are split between clients"

// number gives the grant its fencing number, in a second round. The number is
// the greatest that the members which voted have drawn. It is written back to
// these members where the key still carries the token, so that each draws
// greater ones from then on. A majority must have it: each later majority has
// one of these members in common with it.
func (a *attempt) number(call context.Context) error {
	stood, err := a.g.choose()
	if err != nil {
		return err
	}
	for _, i := range stood {
		a.spawn(answer{index: i, raise: true}, func() error { return a.g.raise(call, i) })
	}
	for {
		raised := a.g.raised()
		switch {
		case raised >= a.b.need:
			return nil
		case raised+a.pending < a.b.need:
			return &unraisedError{a.g.key, raised, a.b.need, errors.Join(a.errs...)}
		case a.cut != nil:
			return a.refusal()
		}
		a.next()
	}
}

// choose sets the number, and returns the members that voted so far. From now
// on, take writes the number to each member that votes later.
func (g *grant) choose() (stood []int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var greatest int64
	for i, v := range g.votes {
		if v.state != stands {
			continue
		}
		f, ok := v.grant.(backend.Fenced)
		if !ok || f.Fence() <= 0 {
			return nil, fmt.Errorf(
				"quorum: key %q: %s draws no fencing numbers; set modern.Config.Fence on every member",
				g.key, g.b.members[i])
		}
		greatest = max(greatest, f.Fence())
		stood = append(stood, i)
	}
	g.fence = greatest
	return stood, nil
}

// raise writes the number back to member i.
func (g *grant) raise(ctx context.Context, i int) error {
	g.mu.Lock()
	granted := g.votes[i].grant
	g.mu.Unlock()
	if granted == nil { // the grant was given back meanwhile
		return errOver
	}
	err := g.b.members[i].Raise(ctx, granted, g.fence)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case errors.Is(err, backend.ErrLost):
		g.lost(i, granted)
	case err == nil && g.votes[i].grant == granted:
		g.votes[i].raised = true
	}
	return err
}

// raised returns how many members voted and have the number.
func (g *grant) raised() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range g.votes {
		if v.state == stands && v.raised {
			n++
		}
	}
	return n
}

// unraisedError says that a majority voted, and that fewer members than that
// took the number. It does not wrap their errors: a vote that was lost
// meanwhile is no lost lease.
type unraisedError struct {
	key          string
	raised, need int
	err          error
}

func (e *unraisedError) Error() string {
	return fmt.Sprintf("quorum: key %q: its fencing number was written to %d members, and %d are needed: %v",
		e.key, e.raised, e.need, e.err)
}

// Passing is true: votes end between two rounds when a server restarts or the
// TTL is short.
func (e *unraisedError) Passing() bool { return true }
