// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// work is what a worker is to do for a lease.
type work uint8

const (
	extending work = 1 << iota
	watching
)

// expire ends the lease if its trust has run out.
func (l *Lease) expire(now reading) {
	l.mu.Lock()
	over := l.cause == nil && !l.trust.holds(now)
	l.mu.Unlock()
	if over {
		l.outlived()
	}
}

// tick is called by the scheduler for a lease that is due. It returns the work
// to be done for the lease, and plans the next look at it.
func (l *Lease) tick(now reading) (work work) {
	l.mu.Lock()
	if l.cause != nil {
		l.mu.Unlock()
		return 0
	}
	cfg := &l.client.cfg
	before := l.trust.sent.elapsed
	l.trust = l.trust.awake(now)
	if l.renewal.next != never { // a renewal comes when the trust has its planned age
		l.renewal.next -= before - l.trust.sent.elapsed
	}
	endangered := l.renewal.warns && l.trust.warnAt(cfg) <= now.elapsed
	if endangered {
		l.renewal.warns = false
	}
	if l.renewal.wanted(now.elapsed, l.slack()) {
		l.renewal.busy = true
		work |= extending
	}
	if l.watch.wanted(now.elapsed) {
		l.watch.looking = true
		work |= watching
	}
	forgotten := cfg.LongestHold == 0 && !l.warned && now.elapsed-l.granted > longHold*cfg.TTL
	if forgotten {
		l.warned = true
	}
	l.client.core.sched.set(l, l.due())
	var e Event
	if endangered {
		e = Event{Key: l.Key(), Token: l.grant.Token(), Until: l.until(), Cause: l.renewal.err}
	}
	l.mu.Unlock()
	if endangered {
		l.tell(cfg.Hooks.Endangered, e)
	}
	if forgotten {
		cfg.Logger.Warn("lease held for more than ten TTLs; if its Release was forgotten, Config.LongestHold frees the key (negative: no warning)",
			"key", l.Key(), "TTL", cfg.TTL)
	}
	return work
}

// longHold is the number of TTLs after which the log warns about a lease, once.
const longHold = 10

// slack is how much earlier than planned a renewal may be sent, so that it
// travels with others.
func (l *Lease) slack() time.Duration {
	return min(l.client.cfg.RenewEvery/20, mostSlack)
}

// occupy reserves the right to call Extend. It returns:
//
//   - mine true: the caller may call Extend.
//   - idle: an Extend is under way; wait until idle is closed and try again.
//   - ended: the lease has ended, and its grant may belong to another lease by
//     now.
func (l *Lease) occupy() (idle <-chan struct{}, mine bool, ended error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cause != nil:
		return nil, false, l.cause
	case !l.renewal.busy:
		l.renewal.busy = true
		return nil, true, nil
	}
	a := l.listeners()
	if a.idle == nil {
		a.idle = make(chan struct{})
	}
	return a.idle, false, nil
}

// extendTogether is the most leases that one call of the backend renews. Trust
// counts from before the call, so in a call of a hundred thousand the last
// lease would lose the time that the others took. With a slow store, only a
// part of the renewals is late and not all of them.
const extendTogether = 1024

// serve extends and watches leases. It runs on the scheduler's goroutine and
// hands the work to the workers, renewals in groups that can travel together.
// Watches have workers of their own: every new lease needs one, and renewals do
// not wait for them.
func (k *core) serve(extends, watches []*Lease) {
	k.watchAll(watches)
	type group struct {
		ttl   time.Duration
		shard any
	}
	groups := make(map[group][]*Lease)
	for _, l := range extends {
		g := group{ttl: l.client.cfg.TTL}
		if s, ok := l.grant.(backend.Sharded); ok {
			g.shard = s.Shard()
		}
		groups[g] = append(groups[g], l)
	}
	for g, leases := range groups {
		ttl := g.ttl
		if k.batch != nil && len(leases) > 1 {
			for some := range slices.Chunk(leases, extendTogether) {
				k.renewer.do(func() { k.extendAll(some, ttl) })
			}
			continue
		}
		for _, l := range leases {
			k.renewer.do(func() { k.extend(l, ttl) })
		}
	}
}

func (k *core) extend(l *Lease, ttl time.Duration) {
	if k.hurry.Load() {
		return // Close has ended the lease
	}
	asked := k.keeper.nowReading()
	ctx, cancel := k.renewContext(k.life, asked, l)
	defer cancel()
	term, err := l.grant.Extend(ctx, ttl)
	l.extended(term, err, asked, true)
}

// errNoAnswer is the cause of a renewal's context that ended without an answer.
// The store may still carry out such a renewal; it is tried again.
var errNoAnswer = errors.New(
	"the store has not answered within two thirds of the time for which the lease was still trusted")

// renewContext returns the context of a renewal that begins at asked. It ends
// when two thirds of the remaining trust have passed: the connection may be
// dead, and another attempt needs time, which may find a better one.
func (k *core) renewContext(ctx context.Context, asked reading, leases ...*Lease) (context.Context,
	context.CancelFunc) {
	var left time.Duration
	for _, l := range leases {
		l.mu.Lock()
		left = max(left, l.trust.end()-asked.elapsed)
		l.mu.Unlock()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, left*2/3, errNoAnswer)
	return k.call(ctx), cancel
}

func (k *core) extendAll(leases []*Lease, ttl time.Duration) {
	if k.hurry.Load() {
		return // Close has ended them
	}
	grants := make([]backend.Grant, len(leases))
	for i, l := range leases {
		grants[i] = l.grant
	}
	asked := k.keeper.nowReading()
	ctx, cancel := k.renewContext(k.life, asked, leases...)
	defer cancel()
	terms, errs := k.batch.ExtendAll(ctx, grants, ttl)
	for i, l := range leases {
		l.extended(terms[i], errs[i], asked, true)
	}
}

// retryRenewal is the shortest pause after a failed renewal.
const retryRenewal = 50 * time.Millisecond

// lastRetries is the shortest pause when trust is about to end.
const lastRetries = 10 * time.Millisecond

// extended applies the outcome of an Extend. asked is the instant before the
// call: trust never counts from later than the backend says, nor from later
// than the reply. planned is false for a Renew by the holder.
func (l *Lease) extended(t backend.Term, err error, asked reading, planned bool) {
	k, cfg := l.client.core, &l.client.cfg
	now := k.keeper.nowReading()
	l.mu.Lock()
	l.renewal.busy = false
	if a := l.audience; a != nil && a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
	if l.cause != nil {
		l.mu.Unlock()
		return
	}
	l.renewal.err = err
	switch {
	case err == nil:
		l.trust = l.client.trustIn(t, asked, now)
		l.planRenewal(now.elapsed)
	case errors.Is(err, backend.ErrNotRenewable):
		l.renewal.next = never
	case !planned:
		// The holder's own Renew failed. The next planned renewal keeps its
		// time.
	default:
		l.renewFrom(now.elapsed + l.trust.retryAfter(cfg, now.elapsed))
	}
	lost := errors.Is(err, ErrLost)
	if !lost {
		k.sched.set(l, l.due())
	}
	until := l.until()
	l.mu.Unlock()
	switch {
	case lost:
		l.lose(&LostError{Key: l.Key(), Err: err})
	case err == nil:
		if f := cfg.Hooks.Renewed; f != nil {
			l.tell(f, Event{Key: l.Key(), Token: l.grant.Token(), Until: until})
		}
	default:
		if omitted, ok := k.refused.due(now.elapsed, max(cfg.RenewEvery, time.Second)); ok {
			cfg.Logger.Warn("lease not renewed", "key", l.Key(), "until", until, "error", err,
				"others since the last line", omitted)
		}
		if f := cfg.Hooks.RenewFailed; f != nil {
			l.tell(f, Event{Key: l.Key(), Token: l.grant.Token(), Until: until, Cause: err})
		}
	}
}
