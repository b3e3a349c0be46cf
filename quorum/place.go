package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// Enter prepares a place in the queue of one member: the first that attempts at
// a crowded key ask. Who gets that member's vote from its queue asks the others
// with the same token. So a release wakes one process, and processes are served
// about in the order in which they came. The queue decides who asks first, and
// never who holds: that needs a majority.
func (b *Backend) Enter(ctx context.Context, key string) (lock.Place, error) {
	p := &place{b: b, key: key}
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// place is a place in the queue of one member. When it is used up, or the
// member is away, the next Try takes another one.
type place struct {
	b   *Backend
	key string
	m   *member
	at  lock.Place // nil: none
}

var errNoQueue = errors.New("quorum: no member that answers has a queue")

func (p *place) enter(ctx context.Context) error {
	p.b.meet(ctx)
	for _, m := range p.b.rank(p.key) {
		if m.queue == nil || m.isAway() {
			continue
		}
		at, err := m.queue.Enter(ctx, p.key)
		if err != nil {
			return fmt.Errorf("quorum: %s: %w", m, err)
		}
		p.m, p.at = m, at
		return nil
	}
	return errNoQueue
}

// meet asks the members that never answered who they are. Members are ranked by
// the ids of their servers, so each process must know them.
func (b *Backend) meet(ctx context.Context) {
	b.each(func(m *member) error {
		if m.isKnown() || m.isAway() {
			return nil
		}
		_, err := b.ready(ctx, m)
		m.answered(err)
		return nil
	})
}

// mostSilence is how long a waiter relies on its member: that may die without a
// sign.
const mostSilence = 2 * time.Second

// Try asks the member of the place, and the others if that voted. If the member
// is away, or its vote seems to be all that another client has, it is an
// attempt without a place.
func (p *place) Try(ctx context.Context, ttl time.Duration) (lock.Grant, error) {
	b := p.b
	if p.at == nil && p.enter(ctx) != nil {
		return b.Try(ctx, p.key, ttl)
	}
	if !b.begin() {
		return nil, fmt.Errorf("quorum: key %q: %w", p.key, lock.ErrClosed)
	}
	defer b.work.Done()
	server, err := b.ready(ctx, p.m)
	if err != nil {
		p.m.answered(err)
		p.leave(ctx)
		return b.Try(ctx, p.key, ttl)
	}
	granted, err := p.at.Try(ctx, ttl)
	p.m.answered(err)
	if err != nil {
		return p.refused(ctx, ttl, err)
	}
	// The queue's script goes over whatever connection there is. If the server
	// is still in the same run, that run voted.
	after, err := b.ready(ctx, p.m)
	return p.follow(ctx, ttl, granted, err == nil && after == server)
}

// follow asks the other members after the first one voted.
func (p *place) follow(ctx context.Context, ttl time.Duration, granted lock.Grant, sound bool) (lock.Grant,
	error) {
	a := p.b.attempt(ctx, p.key, ttl)
	defer a.leave()
	i := p.m.index
	a.g.token = granted.Token()
	a.g.votes[i] = vote{state: stands, grant: granted}
	a.asked[i] = true
	a.took++
	p.at = nil
	if !sound {
		return nil, a.lose(fmt.Errorf("quorum: key %q: %s restarted while it voted: %w", p.key, p.m,
			&lock.HeldError{Key: p.key}))
	}
	g, err := a.collect(mostRounds)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// refused handles the error of a try at the member.
func (p *place) refused(ctx context.Context, ttl time.Duration, err error) (lock.Grant, error) {
	var held *lock.HeldError
	var open *lock.UnsureError
	switch {
	case errors.As(err, &open) && open.Grant != nil:
		a := p.b.attempt(ctx, p.key, ttl)
		defer a.leave()
		a.g.token = open.Grant.Token()
		a.g.votes[p.m.index] = vote{state: unsure, grant: open.Grant}
		p.at = nil
		return nil, a.lose(fmt.Errorf("quorum: %s: %w", p.m, open.Err))
	case !errors.As(err, &held):
		return nil, fmt.Errorf("quorum: %s: %w", p.m, err)
	}
	now := lock.Mark(ctx).Elapsed
	known, _ := p.b.crowds.of(p.key, now)
	known = known.met(held.Owner, now)
	p.b.crowds.set(p.key, known)
	if known.doubtful() && held.Owner != "" {
		g, err := p.b.Try(ctx, p.key, ttl)
		if err == nil {
			p.leave(ctx)
			return g, nil
		}
		if !errors.Is(err, lock.ErrHeld) {
			return nil, err
		}
	}
	e := *held
	if e.Again <= 0 || e.Again > mostSilence {
		e.Again = mostSilence
	}
	return nil, &e
}

// leave gives the place up in the background. The caller counts as work of the
// Backend.
func (p *place) leave(ctx context.Context) {
	at := p.at
	p.at = nil
	p.b.work.Add(1)
	go func() {
		defer p.b.work.Done()
		_ = at.Leave(context.WithoutCancel(ctx)) // a place that is not tried lapses
	}()
}

// Await is [Backend.Await] for this place.
func (p *place) Await(ctx context.Context, wake func()) (cancel func(), free bool, err error) {
	if p.at == nil {
		return p.b.Await(ctx, p.key, wake)
	}
	return p.at.Await(ctx, wake)
}

// Leave gives up the place.
func (p *place) Leave(ctx context.Context) error {
	if p.at == nil {
		return nil
	}
	return p.at.Leave(ctx)
}

var _ lock.Queuer = (*Backend)(nil)
