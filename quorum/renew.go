// SPDX-License-Identifier: Apache-2.0

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
// are left, the grant is lost and nothing is taken. Otherwise the late votes
// that stood before the renewal began count from now on, and the missing votes
// are taken again, in the background.
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
	var calls sync.WaitGroup
	start := func(f func()) {
		b.work.Add(1)
		calls.Add(1)
		go func() {
			defer b.work.Done()
			defer calls.Done()
			f()
		}()
	}
	for i, which := range r.begin(grants, backend.ReadClock(ctx).Elapsed) {
		start(func() {
			if len(which.leases) > 0 {
				r.ask(call, b.members[i], which)
			}
			<-r.decided
			b.mend(call, b.members[i], r.renewed(), ttl)
		})
	}
	b.work.Add(1)
	go func() {
		defer b.work.Done()
		calls.Wait()
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
	old     int             // votes that counted when it began
	waiting int             // of these, members without an answer
	lost    int             // … that said that the vote is gone
	terms   []backend.Term  // … that renewed it
	late    []backend.Grant // votes that stood when it began, and do not count yet
	trouble error           // of the last member that did not answer
	done    bool
	err     error
}

// batch is what one member is asked to renew.
type batch struct {
	leases []int           // indexes in a round's leases
	grants []backend.Grant // the member's
	counts []bool          // whether each of them counts
}

// begin notes which votes stand, and returns for each member the grants to
// renew there. A vote that was not renewed until its own term was over counts
// no more: the member may have given it to another client since.
func (r *round) begin(grants []backend.Grant, now time.Duration) []batch {
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
			switch v.late = v.late || now >= v.ends; {
			case !v.late:
				one.old++
			case now < v.ends:
				one.late = append(one.late, v.grant)
			}
			which := &asked[i]
			which.leases, which.grants = append(which.leases, k), append(which.grants, v.grant)
			which.counts = append(which.counts, !v.late)
		}
		one.g.mu.Unlock()
		one.waiting = one.old
		r.decide(one)
	}
	return asked
}

// ask renews the votes of one member.
func (r *round) ask(ctx context.Context, m *member, which batch) {
	terms, errs := make([]backend.Term, len(which.grants)), []error(nil)
	if err := r.b.ready(ctx, m); err != nil {
		errs = slices.Repeat([]error{err}, len(which.grants))
	} else {
		terms, errs = m.extend(ctx, which.grants, r.ttl)
	}
	var trouble error
	for j, k := range which.leases {
		switch {
		case restarted(errs[j]):
			errs[j] = fmt.Errorf("%w: %w", backend.ErrLost, errs[j])
		case errs[j] != nil && !errors.Is(errs[j], backend.ErrLost):
			trouble = errs[j]
		}
		one := &r.leases[k]
		one.g.renewed(m.index, which.grants[j], terms[j], errs[j])
		if which.counts[j] {
			r.answer(one, m, terms[j], errs[j])
		}
	}
	m.answered(trouble)
}

// renewed notes the outcome of a renewal at member i.
func (g *grant) renewed(i int, granted backend.Grant, term backend.Term, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := &g.votes[i]
	switch {
	case errors.Is(err, backend.ErrLost):
		g.lost(i, granted)
	case err == nil && v.grant == granted:
		v.ends = max(v.ends, ends(term, g.ttl))
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
		one.g.confirm(one.late)
	case one.waiting == 0:
		one.err = fmt.Errorf("quorum: key %q was renewed on %d members, and %d are needed: %w", one.g.key,
			len(one.terms), need, one.trouble)
	default:
		return
	}
	one.done = true
	if r.open--; r.open == 0 {
		close(r.decided)
	}
}

// confirm lets votes count that had come when a renewal began which has found a
// majority. Since then no other client had one.
func (g *grant) confirm(late []backend.Grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.votes {
		if v := &g.votes[i]; v.grant != nil && slices.Contains(late, v.grant) {
			v.late = false
		}
	}
}

// gather is how long votes that came late are collected before a renewal
// confirms them, in real time: no trust in a lease comes from it. A lease that
// is given back before needs none.
const gather = 2 * time.Millisecond

// confirmSoon sends a renewal that lets late votes count, and does not wait for
// the next one that is due: until then the loss of one member could end a lease
// that all others keep. g.mu is held, and the caller counts as work of the
// Backend.
func (g *grant) confirmSoon(ctx context.Context) {
	if g.confirming {
		return
	}
	g.confirming = true
	ctx = context.WithoutCancel(ctx)
	g.b.work.Add(1)
	go func() {
		defer g.b.work.Done()
		select {
		case <-time.After(gather):
		case <-g.b.life.Done():
		}
		g.mu.Lock()
		g.confirming = false
		over, ttl := g.over, g.ttl
		g.mu.Unlock()
		if !over {
			_, _ = g.Extend(ctx, ttl) // the next renewal reports a loss
		}
	}()
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

// mend takes missing votes of one member again.
func (b *engine) mend(ctx context.Context, m *member, grants []*grant, ttl time.Duration) {
	grants = slices.DeleteFunc(grants, func(g *grant) bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return !g.wants(m.index)
	})
	if len(grants) == 0 || !m.mending.CompareAndSwap(false, true) {
		return
	}
	defer m.mending.Store(false)
	for some := range slices.Chunk(grants, mendTogether) {
		if why, _ := b.stale(m); why != nil {
			return
		}
		var calls sync.WaitGroup
		for _, g := range some {
			calls.Go(func() { _ = g.take(ctx, m.index, ttl) }) // the next renewal tries again
		}
		calls.Wait()
	}
}
