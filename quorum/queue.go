package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Waiters of different processes wait in a queue on one member's server: the
// first one in the order in which attempts at a crowded key ask the members. A
// release gives this member's vote to the first waiter, which then asks the
// others. So any number of waiters neither split the votes nor all wake at each
// release.
//
// The queue decides nothing: an attempt without a place may overtake it, and a
// lock needs a majority as ever. If the member is away, waiters make attempts
// without a place.

// queuer is a Voter with a queue on its server, as package modern has. The
// tokens of the place end in note, if that is not empty.
type queuer interface {
	EnterAs(ctx context.Context, key, note string) (backend.Place, error)
}

// lookEvery is how often a waiter asks at least. The queue's member may be away
// without a sign, and the others still be a majority.
const lookEvery = 2 * time.Second

// First is Try.
func (b *engine) First(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	return b.Try(ctx, key, ttl)
}

// Enter prepares a place in the queue of key.
func (b *engine) Enter(_ context.Context, key string) (backend.Place, error) {
	return &place{b: b, key: key}, nil
}

// place is a waiter of this process.
type place struct {
	b   *engine
	key string

	// line is the place in the queue of member at; nil: none.
	line backend.Place
	at   *member

	// outside is a member on whose server another client has the key, although
	// the queue's member voted for this place. That client does not use the
	// queue: the next try is made when it has released.
	outside *member
}

// Try makes an attempt from this place. Its errors are those of Backend.Try.
func (p *place) Try(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	b := p.b
	if err := b.mayTry(ctx, p.key, ttl); err != nil {
		return nil, err
	}
	defer b.work.Done()
	server := p.stand(ctx)
	if p.line == nil {
		return p.alone(ctx, ttl)
	}
	vote, err := p.line.Try(ctx, ttl)
	p.at.answered(err)
	var held *backend.HeldError
	switch {
	case err == nil:
	case !isUnsure(err) && errors.As(err, &held):
		return p.wait(ctx, ttl, held)
	default:
		p.giveUp(ctx, ttl, err)
		return p.alone(ctx, ttl)
	}
	m := p.at
	p.line = nil // used up
	a := b.attempt(ctx, p.key, ttl)
	a.has(m.index, vote)
	if now, err := b.ready(ctx, m); err != nil || now != server {
		// The vote may be that of another run, which does not vote yet.
		a.leave()
		_ = a.lose(err)
		return p.alone(ctx, ttl)
	}
	defer a.leave()
	g, err := a.gather(mostRounds)
	if err != nil {
		p.outside = a.winner()
		return nil, again(err)
	}
	return g, nil
}

// wait keeps the place of a try that found the key held by another client. If
// that client may have this vote only, the other members are asked too.
func (p *place) wait(ctx context.Context, ttl time.Duration, held *backend.HeldError) (backend.Grant, error) {
	now := backend.ReadClock(ctx).Elapsed
	known, _ := p.b.crowds.of(p.key, now)
	known = known.met(held.Owner, now)
	p.b.crowds.set(p.key, known)
	if !known.doubtful() {
		return nil, recheck(held)
	}
	g, err := p.alone(ctx, ttl)
	if err == nil {
		p.desert(ctx)
	}
	return g, err
}

// stand chooses a queue, unless the place is in one whose member votes. It
// returns the id of the member's server.
func (p *place) stand(ctx context.Context) (server string) {
	if p.line != nil {
		if server, err := p.b.ready(ctx, p.at); err == nil {
			return server
		}
		p.desert(ctx)
	}
	p.outside = nil
	for _, m := range p.b.rank(p.key) {
		if m.queue == nil || m.isAway() {
			continue
		}
		server, err := p.b.ready(ctx, m)
		if err != nil {
			continue
		}
		if p.line, err = m.queue.EnterAs(ctx, p.key, p.b.cfg.Note); err == nil {
			p.at = m
			return server
		}
		p.line = nil
	}
	return ""
}

// alone makes an attempt without the queue.
func (p *place) alone(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	g, err := p.b.Try(ctx, p.key, ttl)
	return g, again(err)
}

// giveUp leaves the queue after an error of its member. A vote that this place
// may have there is given back in the background.
func (p *place) giveUp(ctx context.Context, ttl time.Duration, err error) {
	var open *backend.UnsureError
	if errors.As(err, &open) && open.Grant != nil {
		g := p.b.newGrant(p.key, ttl)
		g.mu.Lock()
		g.votes[p.at.index] = vote{state: unsure, grant: open.Grant}
		g.end(ctx)
		g.mu.Unlock()
		p.line = nil // its grant leaves the queue
		return
	}
	p.desert(ctx)
}

// desert leaves the queue in the background. If its member does not hear of
// that, the place lapses.
func (p *place) desert(ctx context.Context) {
	line := p.line
	p.line = nil
	p.b.work.Add(1)
	go func() {
		defer p.b.work.Done()
		_ = line.Leave(context.WithoutCancel(ctx))
	}()
}

// has records that member i has voted, for a token of its own choice.
func (a *attempt) has(i int, granted backend.Grant) {
	a.g.token = granted.Token()
	a.g.votes[i] = vote{state: stands, grant: granted}
	a.asked[i], a.took = true, 1
}

// winner returns a member on which the client has the key that has it on a
// majority, or nil.
func (a *attempt) winner() *member {
	owners := map[string]int{}
	for i, err := range a.errs {
		var held *backend.HeldError
		if !errors.As(err, &held) {
			continue
		}
		if owners[held.Owner]++; owners[held.Owner] >= a.b.need {
			return a.b.members[i]
		}
	}
	return nil
}

// again makes the Client ask again soon after a HeldError.
func again(err error) error {
	var held *backend.HeldError
	if errors.As(err, &held) && !isUnsure(err) {
		recheck(held)
	}
	return err
}

func recheck(held *backend.HeldError) *backend.HeldError {
	if held.Again <= 0 || held.Again > lookEvery {
		held.Again = lookEvery
	}
	return held
}

// Await arms one call of wake for when this place is called, or the key changes
// where another client has it.
func (p *place) Await(ctx context.Context, wake func()) (cancel func(), free bool, err error) {
	switch {
	case p.line != nil:
		return p.line.Await(ctx, wake)
	case p.outside != nil && p.outside.waker != nil:
		cancel, _, err := p.outside.waker.Await(ctx, p.key, wake)
		return cancel, false, err
	}
	return p.b.Await(ctx, p.key, wake)
}

// Leave gives the place up.
func (p *place) Leave(ctx context.Context) error {
	line := p.line
	p.line = nil
	if line == nil {
		return nil
	}
	return line.Leave(ctx)
}
