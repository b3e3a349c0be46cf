package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Extend is ExtendAll of one grant.
func (g *grant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	terms, errs := g.b.ExtendAll(ctx, []backend.Grant{g}, ttl)
	return terms[0], errs[0]
}

// ExtendAll renews the votes that stand, with as few messages to each member as
// that member needs for so many keys. It returns when each grant has a majority
// of renewed votes that counted before, or cannot have one.
//
// The order is: renew first. If fewer than a majority of the votes that count
// are left, the grant is lost and nothing is taken. Otherwise the missing votes
// are taken again, in the background. The next renewal confirms them, and they
// count from the one after that on. A holder that took votes before it knew of
// its majority could get back a key that another client held in between. So
// could one whose request for a vote was under way for that long, if the vote
// counted at once.
//
// A member that does not answer is no loss: the error then does not wrap
// [backend.ErrLost], and the next renewal may reach it.
func (b *engine) ExtendAll(ctx context.Context, grants []backend.Grant, ttl time.Duration) ([]backend.Term,
	[]error) {
	if len(grants) == 0 {
		return nil, nil
	}
	r := &round{b: b, ttl: ttl, decided: make(chan struct{}), open: len(grants)}
	if err := r.refuse(ctx, grants); err != nil {
		return make([]backend.Term, len(grants)), slices.Repeat([]error{err}, len(grants))
	}
	defer b.work.Done()
	call, cancel := b.detached(ctx)
	asked := r.begin(grants)
	var calls sync.WaitGroup
	for _, m := range b.members {
		if which := asked[m.index]; len(which.leases) > 0 {
			b.work.Add(1)
			calls.Add(1)
			go func() {
				defer b.work.Done()
				defer calls.Done()
				r.ask(call, m, which)
			}()
		}
	}
	b.work.Add(1)
	go func() {
		defer b.work.Done()
		calls.Wait()
		b.mend(call, r.renewed(), ttl)
		cancel(nil)
	}()
	select {
	case <-r.decided:
	case <-ctx.Done():
	}
	return r.outcome(context.Cause(ctx))
}

// refuse returns why nothing can be renewed. If it returns nil, the round
// counts as work of the Backend.
func (r *round) refuse(ctx context.Context, grants []backend.Grant) error {
	for _, granted := range grants {
		g, ok := granted.(*grant)
		if !ok || g.b != r.b {
			return errForeignGrant
		}
	}
	switch {
	case r.b.fits(r.ttl) != nil:
		return r.b.fits(r.ttl)
	case ctx.Err() != nil:
		return fmt.Errorf("quorum: nothing was renewed: %w", context.Cause(ctx))
	case !r.b.begin():
		return fmt.Errorf("quorum: nothing was renewed: %w", lock.ErrClosed)
	}
	return nil
}

// round is one renewal of many grants.
type round struct {
	b       *engine
	ttl     time.Duration
	decided chan struct{} // closed when open is zero

	mu     sync.Mutex
	leases []renewal
	open   int // grants without an outcome
}

// renewal is the renewal of one grant.
type renewal struct {
	g       *grant
	old     int            // votes that counted when it began
	waiting int            // of these, members without an answer
	lost    int            // … that said that the vote is gone
	terms   []backend.Term // … that renewed it
	fresh   []found        // votes that it renewed and that do not count yet
	trouble error          // of the last member that did not answer
	done    bool
	err     error
}

// found is a vote that a renewal found.
type found struct {
	index int
	grant backend.Grant // the member's
}

// batch is what one member is asked to renew.
type batch struct {
	leases []int           // indexes in a round's leases
	grants []backend.Grant // the member's
	counts []bool          // whether each of them counts
}

// begin notes which votes stand, and returns for each member the grants to
// renew there.
func (r *round) begin(grants []backend.Grant) []batch {
	asked := make([]batch, len(r.b.members))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases = make([]renewal, len(grants))
	for k := range grants {
		one := &r.leases[k]
		one.g = grants[k].(*grant)
		one.g.mu.Lock()
		one.g.ttl = max(one.g.ttl, r.ttl)
		for i := range one.g.votes {
			v := &one.g.votes[i]
			if v.state != stands || one.g.over {
				continue
			}
			if v.counts() {
				one.old++
			}
			if v.busy { // the last renewal there has no answer yet
				continue
			}
			v.busy = true
			if v.counts() {
				one.waiting++
			}
			asked[i].add(k, *v)
		}
		one.g.mu.Unlock()
		r.decide(one)
	}
	return asked
}

// add adds vote v of lease k.
func (b *batch) add(k int, v vote) {
	b.leases, b.grants = append(b.leases, k), append(b.grants, v.grant)
	b.counts = append(b.counts, v.counts())
}

// ask renews the votes of one member.
func (r *round) ask(ctx context.Context, m *member, which batch) {
	gs := which.grants
	terms, errs := m.extend(ctx, gs, r.ttl)
	if twin := r.b.twin(ctx, m, r.ttl/10); twin != nil {
		errs = slices.Repeat([]error{twin}, len(gs))
	}
	var trouble error
	for j, k := range which.leases {
		if errs[j] != nil && !errors.Is(errs[j], backend.ErrLost) {
			trouble = errs[j]
		}
		r.leases[k].g.renewed(m.index, gs[j], errs[j])
		if which.counts[j] {
			r.answer(&r.leases[k], m, terms[j], errs[j])
		} else if errs[j] == nil {
			r.confirm(&r.leases[k], found{m.index, gs[j]})
		}
	}
	m.answered(trouble)
}

// renewed notes the outcome of a renewal at member i.
func (g *grant) renewed(i int, granted backend.Grant, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.votes[i].busy = false
	if errors.Is(err, backend.ErrLost) {
		g.lost(i, granted)
	}
}

func (r *round) answer(one *renewal, m *member, t backend.Term, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one.waiting--
	switch {
	case err == nil:
		one.terms = append(one.terms, t)
	case errors.Is(err, backend.ErrLost):
		one.lost++
	default:
		one.trouble = fmt.Errorf("%s: %w", m, err)
	}
	r.decide(one)
}

// confirm notes that the renewal found a vote that does not count yet. It does
// as soon as the renewal has succeeded.
func (r *round) confirm(one *renewal, v found) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one.fresh = append(one.fresh, v); one.done && one.err == nil {
		one.g.confirm(v.index, v.grant)
	}
}

// decide notes the outcome of a renewal as soon as no answer can change it.
// r.mu is held.
func (r *round) decide(one *renewal) {
	need := r.b.need
	switch {
	case one.done:
		return
	case one.old-one.lost < need:
		one.err = one.g.lostWith(one.old - one.lost)
	case len(one.terms) >= need:
	case one.waiting == 0:
		one.err = fmt.Errorf("quorum: key %q was renewed on %d members, and %d are needed: %w", one.g.key,
			len(one.terms), need, one.why())
	default:
		return
	}
	one.done = true
	for _, v := range one.fresh {
		if one.err == nil {
			one.g.confirm(v.index, v.grant)
		}
	}
	if r.open--; r.open == 0 {
		close(r.decided)
	}
}

var errSlow = errors.New("a member has not answered the renewal before this one")

func (one *renewal) why() error {
	if one.trouble == nil {
		return errSlow
	}
	return one.trouble
}

// outcome returns the terms and errors so far. cut is why the caller's context
// ended, for those without an outcome.
func (r *round) outcome(cut error) ([]backend.Term, []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	terms, errs := make([]backend.Term, len(r.leases)), make([]error, len(r.leases))
	for k := range r.leases {
		one := &r.leases[k]
		switch {
		case !one.done:
			errs[k] = fmt.Errorf("quorum: key %q was renewed on %d members in time, and %d are needed: %w",
				one.g.key, len(one.terms), r.b.need, cut)
		case one.err != nil:
			errs[k] = one.err
		default:
			terms[k] = trusted(slices.Clone(one.terms), r.b.need, r.ttl)
		}
	}
	return terms, errs
}

// renewed returns the grants of which a majority of the votes that counted was
// renewed.
func (r *round) renewed() (gs []*grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.leases {
		if one.done && one.err == nil {
			gs = append(gs, one.g)
		}
	}
	return gs
}

// mendTogether is how many votes of one member are taken again at the same
// time.
const mendTogether = 32

// mend takes the missing votes of grants again. The next renewal confirms them.
// Members that may not vote now are not asked. It returns when all
// have answered.
func (b *engine) mend(ctx context.Context, grants []*grant, ttl time.Duration) {
	var all sync.WaitGroup
	for _, m := range b.members {
		var missing []*grant
		for _, g := range grants {
			if g.misses(m.index) {
				missing = append(missing, g)
			}
		}
		if len(missing) == 0 || !m.mending.CompareAndSwap(false, true) {
			continue
		}
		all.Go(func() {
			defer m.mending.Store(false)
			b.mendAt(ctx, m, missing, ttl)
		})
	}
	all.Wait()
}

func (b *engine) mendAt(ctx context.Context, m *member, missing []*grant, ttl time.Duration) {
	if _, err := b.ready(ctx, m); err != nil {
		m.answered(err)
		return
	}
	for some := range slices.Chunk(missing, mendTogether) {
		var all sync.WaitGroup
		for _, g := range some {
			all.Go(func() { _ = g.take(ctx, m.index, ttl) }) // the next renewal tries again
		}
		all.Wait()
	}
}

// misses reports whether the vote of member i is to be taken again.
func (g *grant) misses(i int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wants(i)
}
