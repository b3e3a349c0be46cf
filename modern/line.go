// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Waiters of different processes wait in a queue on the server, so that a
// release wakes one of them. With any number of waiting processes, an
// acquisition needs the same few commands.
//
// Every release gives the key to the first waiter: the script writes that
// waiter's own token for its whole TTL and tells its process. So no client can
// come in between, and the waiter sends nothing. What other clients release,
// the first waiter notices by its watch of the key. In the fair form no
// getsetlock client overtakes the queue.

const (
	// soon is the longest pause before the second try of a place that is not
	// first, and before each further try while the place is second. Other
	// places that can be called are tried every five to ten seconds; see
	// patience in line.lua.
	soon = 2 * time.Second

	// pollEvery is how often the first waiter asks if the server does not
	// report changes. It finds releases by clients of other libraries;
	// getsetlock clients give the waiter the key.
	pollEvery = 100 * time.Millisecond
)

// lineArgs returns the arguments of a script that uses the queue: its keys,
// then words.
func (b *engine) lineArgs(key string, words ...any) []any {
	order, alive := b.queue(key)
	return append([]any{key, order, alive, b.counter(key)}, words...)
}

// queue returns the names of the two keys of a queue.
func (b *engine) queue(key string) (order, alive string) {
	return names.InSlot(b.order, key), names.InSlot(b.alive, key)
}

// counter returns the key of the fencing numbers of key's lock. The locks of a
// slot share it: a counter never ends, and one for every lock that ever was
// would fill the server.
func (b *engine) counter(key string) string { return names.OfSlot(b.fence, key) }

var errAlone = errors.New("modern: the server refuses the scripts of the queue")

// Enter prepares a place in the queue of key.
func (b *engine) Enter(_ context.Context, key string) (backend.Place, error) {
	if err := valid(key, shortestTTL); err != nil {
		return nil, err
	}
	if b.native.alone.Load() && !b.cfg.Fair {
		return nil, errAlone // waiters poll without a place
	}
	p := &place{b: b}
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
	p.g = g
	return nil
}

// place is a waiter of this process in the queue. The package comment draws its
// states.
type place struct {
	b       *engine
	g       *grant
	member  string        // member of the queue's sorted set, empty before the first try
	ttl     time.Duration // TTL in member, with which the key is given
	refused backend.Term  // the last try that the server refused: a gift came after it
	stands  bool          // the place is in the queue, as far as the last try said
	heard   bool          // this process receives the calls for g's token
	atHead  bool          // the place was first, as the last try said
	alone   bool          // no queue: this is an attempt without a place
	done    bool

	calls // guarded by the mutex of b.waits
}

// listen registers this process for the calls of this place. It runs before
// every try, since the connection may have been lost. A call that was missed
// meanwhile does no harm: the try itself sees whether the key was given.
func (p *place) listen(ctx context.Context) {
	p.heard = false
	if p.b.cfg.Wake == lock.WakeOff || strings.HasPrefix(p.member, uncalled) {
		return
	}
	p.b.waits.add(p)
	p.heard = p.b.notices.Open(ctx) == nil // the place keeps its position all the same
}

// Try returns the key if it was given to this place, or takes it if it is free
// for it. Otherwise it keeps the place.
func (p *place) Try(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	if err := valid(p.g.key, ttl); err != nil {
		return nil, err
	}
	if p.done {
		return nil, errors.New("modern: this place in the queue is used up")
	}
	if p.alone {
		return p.b.Try(ctx, p.g.key, ttl)
	}
	switch number := p.b.waits.given(p); {
	case number > 0 && p.refused.TTL > 0:
		p.refused.Given = true
		return p.granted(ctx, p.refused, number)
	case number > 0:
		p.stands = true // the try that got the place here seemed to fail: trust has nothing to count from
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

// granted ends the place with its grant. number is the first fencing number.
func (p *place) granted(ctx context.Context, t backend.Term, number int64) (backend.Grant, error) {
	p.done = true
	p.b.waits.keep(p)
	g := p.g
	g.doubt, g.queued = nil, true
	g.written(t)
	if p.b.cfg.Fence {
		g.numbered(number)
	}
	return p.b.granted(ctx, g)
}

// errGone: the place is no longer in the queue.
var errGone = errors.New("modern: the place in the queue is gone")

// ask runs one try on the server. It returns:
//
//   - a grant: the key is taken.
//   - a [*backend.HeldError]: the place is in the queue, and waits.
//   - errGone: the place is no longer in the queue.
//   - a [*backend.UnsureError]: the key may have been taken. The place is used
//     up.
//   - another error: the key was not taken.
//
// If the queue cannot be used, ask makes an attempt without a place, except in
// the fair form.
func (p *place) ask(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	g := p.g
	p.listen(ctx)
	kind := stays
	if !p.stands {
		kind = enters
	}
	if p.member == "" {
		p.member, p.ttl = p.b.member(g, p.heard, ttl), ttl
	}
	if g.place() != p {
		g.doubt = &doubt{place: p}
	}
	sent := backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl}
	number, refusal, err := p.b.takeInLine(ctx, g, p.member, ttl, kind)
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
		g.written(sent)
		err = p.b.attempted(g, err)
		var unsure *backend.UnsureError
		if errors.As(err, &unsure) {
			p.end() // the key may have its token, which is never given
		}
		return nil, err
	case refusal != nil:
		p.refused = backend.Term{Sent: sent.Sent, TTL: p.ttl}
		return nil, p.waits(refusal, kind)
	}
	return p.granted(ctx, sent, number)
}

// waits records what a refused try learned.
func (p *place) waits(r *refusal, kind string) *backend.HeldError {
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
	p.b.waits.drop(p.g.token)
	p.member, p.stands, p.atHead, p.refused = "", false, false, backend.Term{}
	return p.renew(p.g.key)
}

// end makes the place unusable. A key that is given to it goes on to the next.
func (p *place) end() {
	p.done = true
	p.b.waits.drop(p.g.token)
}

// Await arms a call of wake for when this place is called or given the key and,
// at the head of the queue, for when the key changes.
func (p *place) Await(ctx context.Context, wake func()) (cancel func(), free bool, err error) {
	if p.alone {
		return p.b.Await(ctx, p.g.key, wake)
	}
	quiet := func() { p.b.waits.await(p, nil) }
	if p.b.waits.await(p, wake) {
		wake() // the call came between the last try and now
		return quiet, false, nil
	}
	if p.atHead {
		unwatch, free, err := p.b.Await(ctx, p.g.key, wake)
		switch {
		case err == nil:
			return func() { unwatch(); quiet() }, free, nil
		case !errors.Is(err, backend.ErrNoWake) || !p.callable():
			quiet()
			return nil, false, err
		}
		// Getsetlock clients give this place the key when they release it.
		// Releases by others are found by asking.
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

// Leave gives the place up. If the key was given to it meanwhile, the next
// waiter gets the key.
func (p *place) Leave(ctx context.Context) error {
	if p.alone || p.member == "" {
		return nil
	}
	p.end()
	if _, err := p.b.leaveLine(ctx, p.b.user, p.g.key, p.member); err != nil {
		return trouble("leave the line for", p.g.key, err)
	}
	return nil
}

// uncalled is the prefix of a place whose process cannot be called. A place
// keeps its prefix.
const uncalled = "- "

// member returns the member of the queue's sorted set for a grant: the process
// to call, the TTL and the count of fencing numbers with which the key is
// wanted, and the token.
func (b *engine) member(g *grant, heard bool, ttl time.Duration) string {
	process := b.process + " "
	if !heard {
		process = uncalled
	}
	return fmt.Sprintf("%s%d %d %s", process, millis(ttl), b.numbers(), g.token)
}

// numbers returns how many fencing numbers an acquisition draws.
func (b *engine) numbers() int {
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
	held *backend.HeldError
}

// The take script's replies differ in length.
const goneFields, takenFields, refusedFields = 0, 1, 7

// takeInLine runs the take script, which keeps a place if the key is held. It
// returns:
//
//   - a number: the key is taken. It is the first fencing number, or 1.
//   - a refusal: the key is held or not this waiter's turn.
//   - errGone: the place is no longer in the queue.
//   - another error: the trouble of the store.
func (b *engine) takeInLine(ctx context.Context, g *grant, member string, ttl time.Duration,
	kind string) (number int64, no *refusal, err error) {
	args := b.lineArgs(g.key, member, millis(ttl), b.numbers(), kind, flag(b.cfg.Fair))
	v, err := b.drawn(ctx, takeScript, args...)
	if spoilt(err) { // the script accepts any type on the lock's own key
		return 0, nil, fmt.Errorf("%q or %q is no sorted set: another program wrote to the queue of waiters; delete what it wrote: %w", args[1], args[2], err)
	}
	if err != nil {
		return 0, nil, err
	}
	f, _ := v.([]any)
	switch {
	case v != nil && len(f) == goneFields:
		return 0, nil, errGone
	case len(f) == takenFields:
		number, _ = f[0].(int64)
		return number, nil, nil
	case len(f) == refusedFields:
		return 0, b.refusal(g.key, f, backend.ReadClock(ctx).Wall), nil
	}
	return 0, nil, errOddReply
}

// refusal reads the take script's description of the key.
func (b *engine) refusal(key string, f []any, now time.Time) *refusal {
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

// giveOn gives the key that carries token to the first waiter, or deletes it if
// there is none. It returns false if the key does not carry the token. Only a
// Backend that draws numbers may draw them for a waiter. Without that the
// script calls a waiter that wants numbers, and the waiter takes the key.
func (b *engine) giveOn(ctx context.Context, on sender, key, token string) (bool, error) {
	var reply any
	var err error
	switch {
	case b.cfg.Fence:
		reply, err = b.drawnOn(ctx, on, giveNumberedScript, b.lineArgs(key, token)...)
	case on == sender(b.user): // the usual way, without an allocation for the arguments
		order, alive := b.queue(key)
		reply, err = b.user.Eval(ctx, giveScript, key, order, alive, token)
	default:
		order, alive := b.queue(key)
		reply, err = on.Eval(ctx, giveScript, key, order, alive, token)
	}
	n, _ := reply.(int64)
	return n == 1, err
}

// leaveLine gives up a place, and the key if it carries the place's token. It
// reports whether it gave up the key.
func (b *engine) leaveLine(ctx context.Context, on sender, key, member string) (bool, error) {
	reply, err := b.drawnOn(ctx, on, leaveScript, b.lineArgs(key, member)...)
	n, _ := reply.(int64)
	return n == 1, err
}

// giveUp gives up a key if it carries token: the first waiter gets it, or it is
// deleted. Where the scripts of the queue are refused, or only a part of their
// keys has moved to another node, it is only deleted. It returns false if the
// key does not carry the token.
func (b *engine) giveUp(ctx context.Context, on sender, key, token string) (bool, error) {
	if b.cfg.Fair || !b.native.alone.Load() {
		given, err := b.giveOn(ctx, on, key, token)
		if !spoilt(err) && !wire.IsMoving(err) && (b.cfg.Fair || !refusesLine(err) && !refuses(err)) {
			return given, err
		}
		if refusesLine(err) {
			b.native.alone.Store(true)
		}
	}
	return deleteKey(ctx, on, key, token)
}

// deleteKey deletes a key if it carries token, and touches no other key.
func deleteKey(ctx context.Context, on sender, key, token string) (bool, error) {
	reply, err := on.Eval(ctx, releaseScript, key, token)
	deleted, _ := reply.(int64)
	return deleted == 1, err
}

func flag(set bool) int {
	if set {
		return 1
	}
	return 0
}
