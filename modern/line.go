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
	// claimWithin is for how long a fair release keeps the key for the first in line. A waiter that
	// died holds the others up for so long at the most.
	claimWithin = time.Second

	// pollEvery is how often the first in line asks where the server does not tell of changes: for
	// releases by clients of other libraries. Ours call it.
	pollEvery = 100 * time.Millisecond
)

// lineKeys are the keys of a script that touches the line.
func (b *Backend) lineKeys(key string) (order, alive string) {
	return "gsl:queue:" + b.cfg.Namespace + ":" + key, "gsl:alive:" + b.cfg.Namespace + ":" + key
}

var errAlone = errors.New("modern: the server refuses the scripts of the line")

// Enter prepares a place in the line of key.
func (b *Backend) Enter(_ context.Context, key string) (lock.Place, error) {
	if err := valid(key, shortestTTL); err != nil {
		return nil, err
	}
	if b.native.alone.Load() && !b.cfg.Fair {
		return nil, errAlone // waiters get on without
	}
	g, err := b.newGrant(key)
	if err != nil {
		return nil, err
	}
	return &place{b: b, g: g, called: make(chan struct{}, 1)}, nil
}

// place is a waiter of this process in the line.
type place struct {
	b      *Backend
	g      *grant
	forget func()        // nil where nobody calls us
	called chan struct{} // capacity 1: we were called since the last try
	atHead bool          // as the last try said
	alone  bool          // there is no line: this is an attempt like any other
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

// listen has the calls for this place delivered from here on. It is asked for before every try: a
// connection that was lost has forgotten it, and what was said meanwhile the try finds out.
func (p *place) listen(ctx context.Context) {
	p.forget = nil
	if p.b.cfg.Wake == WakeOff || p.b.native.deaf.Load() {
		return
	}
	forget, err := p.b.notices.Register(ctx, p.g.token, p.call)
	var refusal redis.Error
	switch {
	case err == nil:
		p.forget = forget
	case errors.As(err, &refusal):
		p.b.native.deaf.Store(true) // the place still keeps the order
	}
}

// Try takes the key if it is free for this place, and else keeps the place.
func (p *place) Try(ctx context.Context, ttl time.Duration) (lock.Grant, error) {
	g := p.g
	if err := valid(g.key, ttl); err != nil {
		return nil, err
	}
	if p.done {
		return nil, errors.New("modern: this place in the line is used up")
	}
	if p.alone {
		return p.b.Try(ctx, g.key, ttl)
	}
	p.listen(ctx)
	select {
	case <-p.called: // answered by this try
	default:
	}
	g.waits = true
	g.term = lock.Term{Sent: lock.Mark(ctx), TTL: ttl}
	refusal, err := p.b.takeInLine(ctx, g, ttl, true)
	switch {
	case refusesLine(err) && !p.b.cfg.Fair:
		p.b.native.alone.Store(true)
		p.end()
		p.done, p.alone = false, true
		return p.b.Try(ctx, g.key, ttl)
	case err != nil:
		err = p.b.attempted(g, err)
		var unsure *lock.UnsureError
		if errors.As(err, &unsure) {
			p.end()
		}
		return nil, err
	case refusal != nil:
		p.atHead = refusal.atHead
		if p.atHead && p.b.native.wakeless.Load() {
			refusal.held.Again = pollEvery
		}
		return nil, refusal.held
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
	if p.alone {
		return p.b.Await(ctx, p.g.key, wake)
	}
	p.await(wake)
	quiet := func() { p.await(nil) }
	select {
	case <-p.called:
		wake() // between the last try and now
		return quiet, false, nil
	default:
	}
	if p.atHead {
		unwatch, free, err := p.b.Await(ctx, p.g.key, wake)
		switch {
		case err == nil:
			return func() { unwatch(); quiet() }, free, nil
		case !errors.Is(err, lock.ErrNoWake) || p.forget == nil:
			quiet()
			return nil, false, err
		}
		// Ours call us when they release; a release by others is found by asking.
	}
	if p.forget == nil {
		quiet()
		return nil, false, errNotCalled
	}
	return quiet, false, nil
}

// errNotCalled is no ErrNoWake: that would make the waiter ask as often as if nobody told it anything
// also when it stands at the head and hears of the release.
var errNotCalled = errors.New("modern: nobody can call this place")

// Leave gives the place up. Should the key have been put aside for it meanwhile, the next gets it.
func (p *place) Leave(ctx context.Context) error {
	if p.alone {
		return nil
	}
	p.end()
	if _, err := p.b.leaveLine(ctx, p.g); err != nil {
		return trouble("leave the line for", p.g.key, err)
	}
	return nil
}

// refusal is what the take script says when it gives nothing.
type refusal struct {
	atHead bool
	held   *lock.HeldError
}

// The take script's replies are told apart by their length.
const takenFields, refusedFields = 1, 6

// takeInLine runs the take script, which keeps a place for who waits. Without error and refusal the
// key is taken.
func (b *Backend) takeInLine(ctx context.Context, g *grant, ttl time.Duration, waits bool) (*refusal, error) {
	order, alive := b.lineKeys(g.key)
	numbers := 0
	if b.cfg.Fence {
		numbers = fenceBlock
	}
	v, err := b.drawn(ctx, takeScript, g.key, b.fence, order, alive, g.place(), millis(ttl), numbers, flag(waits), flag(b.cfg.Fair))
	if err != nil {
		return nil, err
	}
	f, _ := v.([]any)
	switch len(f) {
	case takenFields:
		if first, _ := f[0].(int64); b.cfg.Fence {
			g.numbered(first)
		}
		return nil, nil
	case refusedFields:
		return b.refusal(g.key, f), nil
	}
	return nil, errOddReply
}

// refusal reads what stands on the key.
func (b *Backend) refusal(key string, f []any) *refusal {
	atHead, _ := f[1].(int64)
	info := Info{Key: key}
	info.read(f[3], f[4], f[5], f[2])
	e := &lock.HeldError{Key: key, Owner: info.Value, Left: info.Left, Protocol: info.Looks}
	if !info.Exists {
		e.Protocol = "others stand before us"
	}
	return &refusal{atHead: atHead == 1, held: e}
}

// leaveLine gives up the key, or the place, of a grant that was asked for in line.
func (b *Backend) leaveLine(ctx context.Context, g *grant) (bool, error) {
	order, alive := b.lineKeys(g.key)
	reply, err := b.drawn(ctx, leaveScript, g.key, b.fence, order, alive, g.place(), flag(b.cfg.Fair), millis(claimWithin))
	n, _ := reply.(int64)
	return n == 1, err
}

func flag(set bool) int {
	if set {
		return 1
	}
	return 0
}

var _ lock.Queuer = (*Backend)(nil)
