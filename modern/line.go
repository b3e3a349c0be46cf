package modern

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/lock"
)

// Waiters of different processes stand in a line on the server, so that a release wakes one of them:
// with any number of processes waiting, the commands for an acquisition stay the same few. A holder that
// got the key from the line reserves it for the first there when it releases it, and calls that waiter,
// whose own script then takes the key for a whole TTL. Where the holder came otherwise, the first in line
// watches the key, and hears of its release by anybody. In the fair form nobody overtakes the line, and
// every release reserves.

const (
	// reservedFor is for how long the key is kept for the waiter that was called. It is longer than the time
	// after which a waiter asks again that missed its call. One that died holds the others up for so long,
	// and until the next of them asks.
	reservedFor = 1500 * time.Millisecond

	// soon is how long after its first try a place is tried again that may not have come to the front yet,
	// and how often while it is the second. From the front, and from further behind, a place that can be
	// called is tried every five to ten seconds; see patience in line.lua.
	soon = 2 * time.Second

	// pollEvery is how often the first in line asks where the server does not tell of changes: for
	// releases by clients of other libraries. Ours call it.
	pollEvery = 100 * time.Millisecond
)

// lineArgs are the arguments of a script that touches the line: its keys, then words.
func (b *Backend) lineArgs(key string, words ...any) []any {
	of := scope.InName(b.cfg.Namespace) + ":" + key
	return append([]any{key, "gsl:queue:" + of, "gsl:alive:" + of}, words...)
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
	member string        // what stands in the line, empty before the first try
	stands bool          // it does, as far as the last try said
	heard  bool          // our notices carry the token of g
	called chan struct{} // capacity 1: we were called since the last try
	atHead bool          // as the last try said
	alone  bool          // there is no line: this is an attempt like any other
	done   bool

	wake func() // guarded by b.wakes
}

// call is what a message does that names the place, also one that was sent to it before it stood anew: then
// a try finds nothing.
func (p *place) call() {
	p.b.wakes.Lock()
	wake := p.wake
	p.b.wakes.Unlock()
	select {
	case p.called <- struct{}{}:
	default:
	}
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
	p.heard = false
	if p.b.cfg.Wake == lock.WakeOff || strings.HasPrefix(p.member, uncalled) {
		return
	}
	p.heard = p.b.notices.Register(ctx, p.g.token, p.call) == nil // the place keeps the order all the same
}

// Try takes the key if it is reserved for this place or free for it, and else keeps the place.
func (p *place) Try(ctx context.Context, ttl time.Duration) (lock.Grant, error) {
	if err := valid(p.g.key, ttl); err != nil {
		return nil, err
	}
	if p.done {
		return nil, errors.New("modern: this place in the line is used up")
	}
	if p.alone {
		return p.b.Try(ctx, p.g.key, ttl)
	}
	select {
	case <-p.called: // answered by this try
	default:
	}
	for {
		g, err := p.ask(ctx, ttl)
		if err != errGone {
			return g, err
		}
		if err := p.anew(); err != nil {
			return nil, err
		}
	}
}

// errGone: the place is not in the line any more.
var errGone = errors.New("modern: the place in the line is gone")

// ask tries by the server.
func (p *place) ask(ctx context.Context, ttl time.Duration) (lock.Grant, error) {
	g := p.g
	p.listen(ctx)
	kind := stays
	if !p.stands {
		kind = enters
	}
	if p.member == "" {
		p.member = p.b.member(g, p.heard)
	}
	if g.place() != p {
		g.doubt = &doubt{place: p}
	}
	g.written(lock.Term{Sent: lock.Mark(ctx), TTL: ttl})
	refusal, err := p.b.takeInLine(ctx, g, p.member, ttl, kind)
	switch {
	case err == errGone:
		return nil, err
	case !p.b.cfg.Fair && (refusesLine(err) || spoilt(err)):
		p.b.native.alone.Store(refusesLine(err) || p.b.native.alone.Load()) // the line of another key may well be good
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
		return nil, p.refused(refusal, kind)
	}
	p.end()
	g.doubt, g.lined = nil, kind == stays
	return p.b.granted(ctx, g)
}

// refused notes what a try learned.
func (p *place) refused(r *refusal, kind string) *lock.HeldError {
	p.stands, p.atHead = true, r.at == 1
	switch {
	case p.atHead && p.b.native.wakeless.Load():
		r.again(pollEvery)
	case r.at == 2, !p.atHead && kind == enters:
		r.again(soon)
	}
	return r.held
}

// again has the place tried again after d at the latest.
func (r *refusal) again(d time.Duration) {
	if r.held.Again <= 0 || d < r.held.Again {
		r.held.Again = d
	}
}

// callable reports whether this place can be told that its turn has come.
func (p *place) callable() bool { return p.heard && !strings.HasPrefix(p.member, "- ") }

// anew makes it another place, at the end of the line.
func (p *place) anew() error {
	g, err := p.b.newGrant(p.g.key)
	if err != nil {
		return err
	}
	p.b.notices.Forget(p.g.token)
	p.g, p.member, p.stands, p.atHead = g, "", false, false
	return nil
}

func (p *place) end() {
	p.done = true
	p.b.notices.Forget(p.g.token)
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
		case !errors.Is(err, lock.ErrNoWake) || !p.callable():
			quiet()
			return nil, false, err
		}
		// Ours call us when they release; a release by others is found by asking.
	}
	if !p.callable() {
		quiet()
		return nil, false, errNotCalled
	}
	return quiet, false, nil
}

// errNotCalled is no ErrNoWake: that would make the waiter ask as often as if nobody told it anything
// also when it stands at the head and hears of the release.
var errNotCalled = errors.New("modern: nobody can call this place")

// Leave gives the place up. Should the key have been reserved for it meanwhile, the next has it reserved.
func (p *place) Leave(ctx context.Context) error {
	if p.alone || p.member == "" {
		return nil
	}
	p.end()
	if _, err := p.b.leaveLine(ctx, p.g.key, p.member); err != nil {
		return trouble("leave the line for", p.g.key, err)
	}
	return nil
}

// uncalled begins a place whose process cannot be called. It keeps its place in the line as it is.
const uncalled = "- "

// member is what stands in the line for a grant: the process to call, and the name by which to call it.
func (b *Backend) member(g *grant, heard bool) string {
	if !heard {
		return uncalled + g.token
	}
	return b.process + " " + g.token
}

// numbers is how many fencing numbers an acquisition draws.
func (b *Backend) numbers() int {
	if b.cfg.Fence {
		return fenceBlock
	}
	return 0
}

// How a key is taken in line.
const (
	tries  = "try"   // without a place
	enters = "enter" // with a new place
	stays  = "stay"  // with a place in the line
)

// refusal is what the take script says when it gives nothing.
type refusal struct {
	at   int64 // 1: first in line, 2: second
	held *lock.HeldError
}

// The take script's replies are told apart by their length.
const goneFields, takenFields, refusedFields = 0, 1, 7

// takeInLine runs the take script, which keeps a place for who waits. Without error and refusal the
// key is taken.
func (b *Backend) takeInLine(ctx context.Context, g *grant, member string, ttl time.Duration, kind string) (*refusal, error) {
	args := b.lineArgs(g.key, b.fence, member, millis(ttl), b.numbers(), kind, flag(b.cfg.Fair))
	v, err := b.drawn(ctx, takeScript, args...)
	if spoilt(err) { // of the lock's own key the script takes whatever is there
		return nil, fmt.Errorf("%q or %q is no sorted set: another program wrote to the line of waiters; delete what it wrote: %w", args[1], args[2], err)
	}
	if err != nil {
		return nil, err
	}
	f, _ := v.([]any)
	switch {
	case v != nil && len(f) == goneFields:
		return nil, errGone
	case len(f) == takenFields:
		if first, _ := f[0].(int64); b.cfg.Fence {
			g.numbered(first)
		}
		return nil, nil
	case len(f) == refusedFields:
		return b.refusal(g.key, f, lock.Mark(ctx).Wall), nil
	}
	return nil, errOddReply
}

// refusal reads what stands on the key.
func (b *Backend) refusal(key string, f []any, now time.Time) *refusal {
	at, _ := f[1].(int64)
	info := Info{Key: key}
	info.read(f[4], f[5], f[6], f[2], now)
	e := info.refusal(now)
	if !info.Exists {
		e.Protocol = "others stand before us"
	}
	if info.HasTTL {
		// PTTL counts whole milliseconds, the one that runs not included, and the key ends with the
		// last of them.
		into, _ := f[3].(int64)
		e.Again = info.Left + time.Millisecond - time.Duration(into)*time.Microsecond
	}
	return &refusal{at, e}
}

// spoilt reports that a script met a key of another type than it expects.
// Servers before Redis 7 say so in the middle of an error of their own.
func spoilt(err error) bool {
	var refusal redis.Error
	return err != nil && errors.As(err, &refusal) && strings.Contains(string(refusal), "WRONGTYPE ")
}

// giveOn reserves the key of a grant for the first in line, or deletes it.
func (b *Backend) giveOn(ctx context.Context, g *grant) (bool, error) {
	reply, err := b.user.Eval(ctx, giveScript, b.lineArgs(g.key, g.token, millis(reservedFor))...)
	n, _ := reply.(int64)
	return n == 1, err
}

// leaveLine gives up a place, and the key should it carry its token or be reserved for it.
func (b *Backend) leaveLine(ctx context.Context, key, member string) (bool, error) {
	reply, err := b.drawn(ctx, leaveScript, b.lineArgs(key, member, millis(reservedFor))...)
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
