package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Try asks all members for key at once. It returns when a majority voted, or
// at most a fifth later if members are slower. Their votes are taken too, in
// the background. Without a majority every vote is given back. If this process
// was refused key in the last two seconds, one member is asked first.
//
// It returns:
//
//   - a grant: a majority voted and, with Config.Fences, has its number.
//   - an error that wraps [backend.ErrHeld]: other clients have too many votes.
//   - a [*ShortError]: too few members vote.
//   - a [*backend.UnsureError]: a majority may have voted, or may still.
func (b *engine) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	if err := b.mayTry(ctx, key, ttl); err != nil {
		return nil, err
	}
	defer b.work.Done()
	a := b.attempt(ctx, key, ttl)
	_, ordered := b.crowds.of(key, a.now)
	g, err := a.run(ordered)
	if split := (*splitError)(nil); errors.As(err, &split) && !ordered && !isUnsure(err) {
		// Clients that asked at the same time have split the votes. All but one
		// of them end at the first member.
		g, err = b.attempt(ctx, key, ttl).run(true)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// mayTry counts an attempt in, unless it returns an error.
func (b *engine) mayTry(ctx context.Context, key string, ttl time.Duration) error {
	switch {
	case key == "":
		return errors.New("quorum: key is empty")
	case b.fits(ttl) != nil:
		return fmt.Errorf("key %q: %w", key, b.fits(ttl))
	case ctx.Err() != nil:
		return fmt.Errorf("quorum: key %q: nothing was sent: %w", key, context.Cause(ctx))
	case !b.begin():
		return fmt.Errorf("quorum: key %q: %w", key, lock.ErrClosed)
	}
	return nil
}

func isUnsure(err error) bool {
	var unsure *backend.UnsureError
	return errors.As(err, &unsure)
}

// attempt is one Try.
type attempt struct {
	b    *engine
	g    *grant
	ttl  time.Duration
	ctx  context.Context // the caller's
	call context.Context // of the members' calls, which may outlive the attempt
	now  time.Duration   // elapsed time at its beginning

	cancel  context.CancelCauseFunc
	calls   sync.WaitGroup // calls of members
	answers chan answer

	asked   []bool  // members asked so far
	open    []bool  // … of which no answer came yet
	pending int     // members without an answer
	took    int     // votes
	errs    []error // why each member did not vote
	raising int     // numbers being written back
	cut     error   // the caller's context ended
	late    bool    // a wait is over

	patience *patience
}

// answer is what one member said to a request for its vote, or, if raise is
// set, for writing the number back.
type answer struct {
	index int
	raise bool
	err   error
}

func (b *engine) attempt(ctx context.Context, key string, ttl time.Duration) *attempt {
	n := len(b.members)
	a := &attempt{b: b, g: b.newGrant(key, ttl), ttl: ttl, ctx: ctx, now: backend.ReadClock(ctx).Elapsed,
		patience: newPatience(), asked: make([]bool, n), open: make([]bool, n), errs: make([]error, n),
		answers: make(chan answer, (2+mostRounds)*n)}
	a.call, a.cancel = b.detached(ctx)
	return a
}

// mostRounds is how often an attempt that got the first member's vote asks
// those members again that other clients had, as long as none of these clients
// has a majority. They are giving their votes back.
const mostRounds = 8

// run makes the attempt. If ordered, it asks one member first.
func (a *attempt) run(ordered bool) (*grant, error) {
	defer a.leave()
	if ordered {
		if held := a.askOne(); held != nil {
			return nil, held
		}
		return a.gather(mostRounds)
	}
	return a.gather(1)
}

// gather asks all members that were not asked yet, in so many rounds at most.
func (a *attempt) gather(rounds int) (*grant, error) {
	for round := 1; ; round++ {
		for i := range a.b.members {
			a.ask(i)
		}
		for a.took < a.b.need && a.took+a.pending >= a.b.need && a.cut == nil {
			a.next()
		}
		if a.took >= a.b.need {
			break
		}
		a.drain()
		err := a.refusal()
		if split := (*splitError)(nil); a.took == 0 || round == rounds || !errors.As(err, &split) {
			return nil, a.lose(err)
		}
		a.again()
	}
	if a.b.cfg.Fences {
		if err := a.number(); err != nil {
			return nil, a.lose(err)
		}
	}
	a.linger()
	return a.win(), nil
}

// linger waits a little for the votes past the majority. Those that come before
// the attempt returns count at once.
func (a *attempt) linger() {
	for over := a.patience.brief(a.b.lingers); a.expects() && a.cut == nil && !a.late; {
		a.nextUntil(over)
	}
	a.late = false
}

// expects reports whether a member has yet to answer that answered last time.
func (a *attempt) expects() bool {
	return slices.ContainsFunc(a.b.members, func(m *member) bool { return a.open[m.index] && !m.isAway() })
}

// again lets the members be asked again, after a pause, at which another client
// had the vote.
func (a *attempt) again() {
	for pause := a.patience.pause(); !a.late && a.cut == nil; {
		a.nextUntil(pause)
	}
	a.late = false
	for i, err := range a.errs {
		if errors.Is(err, backend.ErrHeld) {
			a.asked[i], a.errs[i] = false, nil
		}
	}
}

// win makes the grant the caller's.
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
	g.term, g.granted = trusted(terms, a.b.need, a.ttl), true
	return g
}

// trusted returns the term of need votes: that which ends as the need-th last.
// Until then need votes stand, if no member ended one early. Each term counts
// from before its own command was sent.
func trusted(terms []backend.Term, need int, ttl time.Duration) backend.Term {
	end := func(t backend.Term) time.Duration {
		if t.TTL == 0 {
			return t.Sent.Elapsed + ttl
		}
		return t.Sent.Elapsed + t.TTL
	}
	slices.SortFunc(terms, func(x, y backend.Term) int { return cmp.Compare(end(y), end(x)) })
	return terms[need-1]
}

// ask asks member i for its vote, if that was not done yet.
func (a *attempt) ask(i int) {
	if a.asked[i] {
		return
	}
	a.asked[i], a.open[i] = true, true
	a.pending++
	a.spawn(answer{index: i}, func() error { return a.g.take(a.call, i, a.ttl) })
}

// spawn runs a call of a member.
func (a *attempt) spawn(as answer, call func() error) {
	a.b.work.Add(1)
	a.calls.Add(1)
	go func() {
		defer a.b.work.Done()
		defer a.calls.Done()
		as.err = call()
		a.answers <- as
	}()
}

// leave ends the context of the members' calls when the last of them returned.
func (a *attempt) leave() {
	a.b.work.Add(1)
	go func() {
		defer a.b.work.Done()
		a.calls.Wait()
		a.cancel(nil)
	}()
}

// drain waits briefly for the other answers, which tell a holder from clients
// that split the votes.
func (a *attempt) drain() {
	for a.pending > 0 && a.cut == nil && !a.late {
		a.nextUntil(a.patience.over())
	}
	a.patience.stop()
	a.late = false
}

// next waits for an answer, or for the end of the caller's context.
func (a *attempt) next() { a.nextUntil(nil) }

func (a *attempt) nextUntil(over <-chan time.Time) {
	select {
	case <-over:
		a.late = true
	case one := <-a.answers:
		a.heed(one)
	case <-a.ctx.Done():
		a.cut = context.Cause(a.ctx)
	}
}

// heed counts an answer.
func (a *attempt) heed(one answer) {
	if one.raise {
		a.raising--
		a.errs[one.index] = one.err
		return
	}
	a.pending--
	a.open[one.index] = false
	if one.err == nil {
		a.took++
	} else {
		a.errs[one.index] = one.err
	}
}

// askOne asks one member of a crowded key first. It returns the error of an
// attempt that ends there. A member that is away, or does not answer, is passed
// over.
func (a *attempt) askOne() error {
	known, crowded := a.b.crowds.of(a.g.key, a.now)
	if !crowded {
		return nil
	}
	for _, m := range a.b.rank(a.g.key) {
		if m.isAway() {
			continue
		}
		a.ask(m.index)
		for a.pending > 0 && a.cut == nil {
			a.next()
		}
		var held *backend.HeldError
		if a.cut != nil || a.took > 0 {
			return nil
		}
		if !errors.As(a.errs[m.index], &held) {
			continue
		}
		known = known.met(held.Owner, a.now)
		a.b.crowds.set(a.g.key, known)
		if known.doubtful() {
			return nil
		}
		return held
	}
	return nil
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
	var held []*backend.HeldError
	for _, err := range a.errs {
		if one := (*backend.HeldError)(nil); errors.As(err, &one) {
			held = append(held, one)
		}
	}
	if len(held) > 0 {
		return a.held(held)
	}
	short := &ShortError{Key: a.g.key}
	now := backend.ReadClock(a.ctx).Wall
	for i, m := range a.b.members {
		err := a.errs[i]
		if a.open[i] {
			err = errSilent
		}
		short.Members = append(short.Members, standing(m, err, now))
	}
	short.VotesAt = votesAt(short.Members)
	return short
}

var errSilent = errors.New("no answer yet")

// held returns the error for votes that other clients have, and notes the
// crowd.
func (a *attempt) held(refused []*backend.HeldError) error {
	owners := map[string]int{}
	var lefts []time.Duration
	most := refused[0]
	for _, h := range refused {
		if owners[h.Owner]++; owners[h.Owner] > owners[most.Owner] {
			most = h
		}
		if h.Left > 0 {
			lefts = append(lefts, h.Left)
		}
	}
	known, _ := a.b.crowds.of(a.g.key, a.now)
	if known.at = a.now; owners[most.Owner] >= a.b.need {
		known = crowd{at: a.now, owner: most.Owner, since: a.now, real: true}
	}
	unknown := len(a.errs) - a.took - len(refused) // members that may have the same value
	a.b.crowds.set(a.g.key, known)
	e := &backend.HeldError{Key: a.g.key, Owner: most.Owner, Protocol: most.Protocol, Until: most.Until}
	if owners[most.Owner]+unknown < a.b.need {
		e.Owner, e.Until, e.Protocol = "", time.Time{}, "the votes are split between clients"
		return &splitError{e}
	}
	slices.Sort(lefts)
	// Members that have not answered count as free: a waiter that asks too
	// early loses nothing.
	if missing := max(a.b.need-a.took-a.pending, 1); missing <= len(lefts) {
		e.Left = lefts[missing-1]
	}
	return e
}

// splitError is the HeldError of an attempt at a key of which no client has a
// majority.
type splitError struct{ error }

func (e *splitError) Unwrap() error { return e.error }
