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

// Waiters of different processes wait in a queue on the server, so that a
// release wakes one of them. With any number of waiting processes, an
// acquisition needs the same few commands.
//
// A holder that got the key from the queue reserves it for the first waiter
// when it releases it, and calls that waiter. The waiter's own script then
// takes the key for a whole TTL. If the holder got the key without the queue,
// the first waiter watches the key and notices its release by any client. In
// the fair form no client overtakes the queue, and every release reserves.

const (
	// reservedFor is how long the key is kept for the waiter that was called.
	// It is longer than the time after which a waiter that missed its call asks
	// again. If the waiter died, the others wait that long, and until the next
	// of them asks.
	reservedFor = 1500 * time.Millisecond

	// soon is the longest pause before the second try of a place that is not
	// first, and before each further try while the place is second. Other
	// places that can be called are tried every five to ten seconds; see
	// patience in line.lua.
	soon = 2 * time.Second

	// pollEvery is how often the first waiter asks if the server does not
	// report changes. It finds releases by clients of other libraries;
	// getsetlock clients call the waiter.
	pollEvery = 100 * time.Millisecond
)

// lineArgs returns the arguments of a script that uses the queue: its keys,
// then words.
func (b *Backend) lineArgs(key string, words ...any) []any {
	of := scope.InName(b.cfg.Namespace) + ":" + key
	return append([]any{key, "gsl:queue:" + of, "gsl:alive:" + of}, words...)
}

var errAlone = errors.New("modern: the server refuses the scripts of the queue")

// Enter prepares a place in the queue of key.
func (b *Backend) Enter(_ context.Context, key string) (lock.Place, error) {
	if err := valid(key, shortestTTL); err != nil {
		return nil, err
	}
	if b.native.alone.Load() && !b.cfg.Fair {
		return nil, errAlone // waiters poll without a place
	}
	return b.placed(key, b.suffix)
}

// EnterAs is Enter for a member of a quorum. The tokens of the place end in
// note, if that is not empty.
func (b *Backend) EnterAs(ctx context.Context, key, note string) (lock.Place, error) {
	switch {
	case b.cfg.Fair || b.cfg.Replicas > 0:
		return nil, errNoMember
	case note == "":
		return b.Enter(ctx, key)
	case valid(key, shortestTTL) != nil:
		return nil, valid(key, shortestTTL)
	case b.native.alone.Load():
		return nil, errAlone
	}
	if err := validNote(note); err != nil {
		return nil, err
	}
	return b.placed(key, " "+note)
}

// placed returns a place whose tokens end in suffix.
func (b *Backend) placed(key, suffix string) (lock.Place, error) {
	p := &place{b: b, suffix: suffix, called: make(chan struct{}, 1)}
	if err := p.renew(key); err != nil {
		return nil, err
	}
	return p, nil
}

// renew gives the place a new token.
func (p *place) renew(key string) error {
	g, err := p.b.newGrant(key)
	if err != nil {
		return err
	}
	g.token = strings.TrimSuffix(g.token, p.b.suffix) + p.suffix
	p.g = g
	return nil
}

// place is a waiter of this process in the queue. The package comment draws its
// states.
type place struct {
	b      *Backend
	g      *grant
	suffix string        // text after its tokens: a blank and a note, or nothing
	member string        // member of the queue's sorted set, empty before the first try
	stands bool          // the place is in the queue, as far as the last try said
	heard  bool          // this process receives the calls for g's token
	called chan struct{} // capacity 1: the place was called since the last try
	atHead bool          // the place was first, as the last try said
	alone  bool          // no queue: this is an attempt without a place
	done   bool

	wake func() // guarded by b.wakes
}

// call takes a message that names the place. The message may have been sent
// before the place was made anew: then a try finds nothing.
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

// await sets the func that a call of this place runs; nil: none.
func (p *place) await(wake func()) {
	p.b.wakes.Lock()
	p.wake = wake
	p.b.wakes.Unlock()
}

// listen registers this process for the calls of this place. It runs before
// every try, since a lost connection has forgotten the registration. A call
// that was missed meanwhile does no harm: the try itself sees whether the key
// is reserved.
func (p *place) listen(ctx context.Context) {
	p.heard = false
	if p.b.cfg.Wake == lock.WakeOff || strings.HasPrefix(p.member, uncalled) {
		return
	}
	p.heard = p.b.notices.Register(ctx, p.g.token, p.call) == nil // the place keeps its position all the same
}

// Try takes the key if it is reserved for this place or free for it. Otherwise
// it keeps the place.
func (p *place) Try(ctx context.Context, ttl time.Duration) (lock.Grant, error) {
	if err := valid(p.g.key, ttl); err != nil {
		return nil, err
	}
	if p.done {
		return nil, errors.New("modern: this place in the queue is used up")
	}
	if p.alone {
		return p.b.Try(ctx, p.g.key, ttl)
	}
	select {
	case <-p.called: // this try answers the call
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

// errGone: the place is no longer in the queue.
var errGone = errors.New("modern: the place in the queue is gone")

// ask runs one try on the server. It returns:
//
//   - a grant: the key is taken.
//   - a [*lock.HeldError]: the place is in the queue, and waits.
//   - errGone: the place is no longer in the queue.
//   - a [*lock.UnsureError]: the key may have been taken. The place is used up.
//   - another error: the key was not taken.
//
// If the queue cannot be used, ask makes an attempt without a place, except in
// the fair form.
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
		// The queue of another key may still work.
		p.b.native.alone.Store(refusesLine(err) || p.b.native.alone.Load())
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

// refused records what a refused try learned.
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

// again makes the place be tried again after d at the latest.
func (r *refusal) again(d time.Duration) {
	if r.held.Again <= 0 || d < r.held.Again {
		r.held.Again = d
	}
}

// callable reports whether this place can be called when its turn has come.
func (p *place) callable() bool { return p.heard && !strings.HasPrefix(p.member, "- ") }

// anew replaces the place by a new one at the end of the queue.
func (p *place) anew() error {
	p.b.notices.Forget(p.g.token)
	p.member, p.stands, p.atHead = "", false, false
	return p.renew(p.g.key)
}

// end makes the place unusable, and ends the calls to it.
func (p *place) end() {
	p.done = true
	p.b.notices.Forget(p.g.token)
}

// Await arms a call of wake for when this place is called and, at the head of
// the queue, for when the key changes.
func (p *place) Await(ctx context.Context, wake func()) (cancel func(), free bool, err error) {
	if p.alone {
		return p.b.Await(ctx, p.g.key, wake)
	}
	p.await(wake)
	quiet := func() { p.await(nil) }
	select {
	case <-p.called:
		wake() // the call came between the last try and now
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
		// Getsetlock clients call this place when they release. Releases by
		// others are found by asking.
	}
	if !p.callable() {
		quiet()
		return nil, false, errNotCalled
	}
	return quiet, false, nil
}

// errNotCalled does not wrap ErrNoWake. A waiter that gets ErrNoWake polls from
// then on, even when it is at the head and can watch the key.
var errNotCalled = errors.New("modern: this place cannot be called")

// Leave gives the place up. If the key was reserved for it meanwhile, the key
// is reserved for the next waiter.
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

// uncalled is the prefix of a place whose process cannot be called. A place
// keeps its prefix.
const uncalled = "- "

// member returns the member of the queue's sorted set for a grant: the process
// to call, and the token by which to call it.
func (b *Backend) member(g *grant, heard bool) string {
	if !heard {
		return uncalled + g.token
	}
	return b.process + " " + g.token
}

// numbers returns how many fencing numbers an acquisition draws.
func (b *Backend) numbers() int {
	if b.cfg.Fence {
		return fenceBlock
	}
	return 0
}

// The ways in which a key is taken with the queue.
const (
	tries  = "try"   // without a place
	enters = "enter" // with a new place
	stays  = "stay"  // with a place in the queue
)

// refusal is the take script's reply when it does not take the key.
type refusal struct {
	at   int64 // 1: first in the queue, 2: second
	held *lock.HeldError
}

// The take script's replies differ in length.
const goneFields, takenFields, refusedFields = 0, 1, 7

// takeInLine runs the take script, which keeps a place if the key is held. It
// returns:
//
//   - nil and nil: the key is taken.
//   - a refusal: the key is held or not this waiter's turn.
//   - errGone: the place is no longer in the queue.
//   - another error: the trouble of the store.
func (b *Backend) takeInLine(ctx context.Context, g *grant, member string, ttl time.Duration,
	kind string) (*refusal, error) {
	args := b.lineArgs(g.key, b.fence, member, millis(ttl), b.numbers(), kind, flag(b.cfg.Fair))
	v, err := b.drawn(ctx, takeScript, args...)
	if spoilt(err) { // the script accepts any type on the lock's own key
		return nil, fmt.Errorf("%q or %q is no sorted set: another program wrote to the queue of waiters; delete what it wrote: %w", args[1], args[2], err)
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

// refusal reads the take script's description of the key.
func (b *Backend) refusal(key string, f []any, now time.Time) *refusal {
	at, _ := f[1].(int64)
	info := Info{Key: key}
	info.read(f[4], f[5], f[6], f[2], now)
	e := info.refusal(now)
	if !info.Exists {
		e.Protocol = "other waiters come first"
	}
	if info.HasTTL {
		// PTTL counts whole milliseconds without the present one, and the key
		// ends with the last of them.
		into, _ := f[3].(int64)
		e.Again = info.Left + time.Millisecond - time.Duration(into)*time.Microsecond
	}
	return &refusal{at, e}
}

// spoilt reports that a script met a key of another type than it expects.
// Servers before Redis 7 say so inside an error of their own.
func spoilt(err error) bool {
	var refusal redis.Error
	return err != nil && errors.As(err, &refusal) && strings.Contains(string(refusal), "WRONGTYPE ")
}

// giveOn reserves the key of a grant for the first waiter, or deletes the key
// if there is none. It returns false if the key does not carry the grant's
// token.
func (b *Backend) giveOn(ctx context.Context, g *grant) (bool, error) {
	reply, err := b.user.Eval(ctx, giveScript, b.lineArgs(g.key, g.token, millis(reservedFor))...)
	n, _ := reply.(int64)
	return n == 1, err
}

// leaveLine gives up a place, and the key if it carries the place's token or is
// reserved for it. It reports whether it gave up the key.
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
