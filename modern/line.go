package modern

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/lock"
)

// Waiters of different processes stand in a line on the server, so that a release wakes one of them:
// with any number of processes waiting, the commands for an acquisition stay the same few. Only the
// first in the line watches the key, so that it hears of a release by anybody; it calls the next to
// the front when it leaves. In the fair form nobody overtakes the line, and a release of ours puts the
// token of the first on the key.

const (
	// patience is how long a place counts without a new try. Waiters try at least once a second.
	patience = 3 * time.Second

	// claimWithin is for how long a fair release keeps the key for the first in line. A waiter that
	// died holds the others up for so long at the most.
	claimWithin = time.Second
)

// lineKeys are the keys of a script that touches the line.
func (b *Backend) lineKeys(key string) (order, alive string) {
	order = "gsl:queue:" + b.cfg.Namespace + ":" + key
	return order, order + ":alive"
}

// Enter prepares a place in the line of key.
func (b *Backend) Enter(ctx context.Context, key string) (lock.Place, error) {
	if err := valid(key, shortestTTL); err != nil {
		return nil, err
	}
	g, err := b.newGrant(key)
	if err != nil {
		return nil, err
	}
	p := &place{b: b, g: g, called: make(chan struct{}, 1)}
	g.stand()
	if b.cfg.Wake != WakeOff {
		// Without the right to subscribe the place is worth less and still keeps the order.
		p.forget, _ = b.notices.Register(ctx, g.token, p.call)
	}
	return p, nil
}

// place is a waiter of this process in the line.
type place struct {
	b      *Backend
	g      *grant
	forget func()        // nil where nobody calls us
	called chan struct{} // capacity 1: we were called since the last try
	atHead bool          // as the last try said
	wake   func()        // guarded by b.wakes
	done   bool
}

// call is what a message for this place does.
func (p *place) call() {
	select {
	case p.called <- struct{}{}:
	default:
	}
	p.b.wakes.Lock()
	wake := p.wake
	p.b.wakes.Unlock()
	if wake != nil {
		wake()
	}
}

func (p *place) await(wake func()) {
	p.b.wakes.Lock()
	p.wake = wake
	p.b.wakes.Unlock()
}

// Try takes the key if it is free for this place, and else keeps the place.
func (p *place) Try(ctx context.Context, ttl time.Duration) (lock.Grant, error) {
	if err := valid(p.g.key, ttl); err != nil {
		return nil, err
	}
	if p.done {
		return nil, errors.New("modern: this place in the line is used up")
	}
	select {
	case <-p.called:
	default:
	}
	g := p.g
	g.waits = true
	g.term = lock.Term{Sent: lock.Mark(ctx), TTL: ttl}
	reply, err := p.b.takeInLine(ctx, g, ttl, patience)
	if err != nil {
		err = p.b.attempted(g, err)
		var unsure *lock.UnsureError
		if errors.As(err, &unsure) {
			p.end()
		}
		return nil, err
	}
	if !reply.granted {
		p.atHead = reply.atHead
		return nil, reply.held
	}
	p.end()
	g.waits = false
	return p.b.granted(ctx, g)
}

func (p *place) end() {
	p.done = true
	if p.forget != nil {
		p.forget()
	}
}

// Await makes wake be called when this place is called, and, at the head of the line, when the key
// changes.
func (p *place) Await(ctx context.Context, wake func()) (cancel func(), free bool, err error) {
	p.await(wake)
	select {
	case <-p.called:
		return func() { p.await(nil) }, true, nil // between the last try and now
	default:
	}
	if !p.atHead {
		if p.forget == nil {
			return nil, false, errWakeOff
		}
		return func() { p.await(nil) }, false, nil
	}
	unwatch, free, err := p.b.Await(ctx, p.g.key, wake)
	if err != nil {
		p.await(nil)
		return nil, false, err
	}
	return func() { unwatch(); p.await(nil) }, free, nil
}

// Leave gives the place up. Should the key have been put aside for it meanwhile, the next gets it.
func (p *place) Leave(ctx context.Context) error {
	p.end()
	if _, err := p.b.leaveLine(ctx, p.g); err != nil {
		return trouble("leave the line for", p.g.key, err)
	}
	return nil
}

// lineReply is what the take script says.
type lineReply struct {
	granted bool
	atHead  bool
	held    error
}

// takeInLine runs the take script; without patience it takes no place.
func (b *Backend) takeInLine(ctx context.Context, g *grant, ttl, patience time.Duration) (lineReply, error) {
	order, alive := b.lineKeys(g.key)
	numbers, fair := 0, 0
	if b.cfg.Fence {
		numbers = fenceBlock
	}
	if b.cfg.Fair {
		fair = 1
	}
	v, err := b.drawn(ctx, takeScript, g.key, b.fence, order, alive, g.place, millis(ttl), numbers, millis(patience), fair)
	if err != nil {
		return lineReply{}, err
	}
	f, _ := v.([]any)
	switch len(f) {
	case 1:
		if b.cfg.Fence {
			g.fence, _ = f[0].(int64)
			g.spare = fenceBlock - 1
		}
		return lineReply{granted: true}, nil
	case 4:
		return b.inLine(g.key, f), nil
	}
	return lineReply{}, errOddReply
}

// inLine reads the refusal of the take script.
func (b *Backend) inLine(key string, f []any) lineReply {
	e := &lock.HeldError{Key: key}
	atHead, _ := f[1].(int64)
	left, _ := f[2].(int64)
	e.Left = time.Duration(max(left, 0)) * time.Millisecond
	e.Owner, _ = redis.String(f[3], nil)
	switch {
	case left == -2:
		e.Protocol = "others stand before us"
	case left == -1:
		e.Protocol = looks(Info{Exists: true, Type: "string", Value: e.Owner})
	}
	return lineReply{atHead: atHead == 1, held: e}
}

// leaveLine gives up the key, or the place, of a grant that was asked for in line.
func (b *Backend) leaveLine(ctx context.Context, g *grant) (bool, error) {
	order, alive := b.lineKeys(g.key)
	fair := 0
	if b.cfg.Fair {
		fair = 1
	}
	reply, err := b.drawn(ctx, leaveScript, g.key, b.fence, order, alive, g.place, fair, millis(claimWithin))
	n, _ := reply.(int64)
	return n == 1, err
}

var _ lock.Queuer = (*Backend)(nil)
