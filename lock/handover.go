// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// share hands a key to the next waiting goroutine of this process without a
// message to the store. l is the lease, which its holder ended at now. Trust
// continues from the last renewal, and the next holder's lease goes on
// renewing. share makes that lease here, where the clock was just read and the
// scheduler has the lease before, and not on the waiting goroutine.
func (k *core) share(l *Lease, now reading) bool {
	cfg, q := &l.client.cfg, l.queue
	sharer, ok := l.grant.(backend.Sharer)
	if !ok || cfg.LocalHandOvers <= 0 || !l.fit(now) {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.more(q, cfg, now.elapsed) || !q.last.next.client.inherits(l.client) {
		return false
	}
	grant, ok := sharer.Share()
	if !ok {
		return false
	}
	if q.shares == 0 {
		q.moment = now.elapsed
	}
	q.shares++
	t := q.pop()
	next := newLease(t.client, q, grant, now.elapsed)
	next.inherit(l)
	k.sched.replace(l, next, next.due())
	t.call(turn{lease: next})
	k.countOut() // counts out the lease that ended; the ticket counts for itself
	return true
}

// fit reports whether a lease that ended can be shared. It cannot while a
// renewal or a look at its key is under way: that would end after the grant has
// passed to the next holder. Nor can it when more than half of its trust has
// passed.
func (l *Lease) fit(now reading) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewal.busy && !l.watch.looking && l.trust.sent.age(now) <= l.trust.span/2
}

// inherits reports whether leases of c may continue with the trust of a lease
// of from. That trust is only a part of a TTL, too little for a lease that is
// not renewed or whose key is to stay taken, and it has from's margin.
func (c *Client) inherits(from *Client) bool {
	return c.cfg.RenewEvery > 0 && c.cfg.KeepFor == 0 && max(c.cfg.Margin, 0) <= max(from.cfg.Margin, 0)
}

// inherit gives l the trust of the lease before it on a shared grant.
func (l *Lease) inherit(before *Lease) {
	before.mu.Lock()
	defer before.mu.Unlock()
	l.trust = before.trust
	if l.client == before.client && before.renewal.next != never {
		l.renewal.next, l.renewal.warns = before.renewal.next, before.renewal.warns
	} else {
		l.planRenewal(l.granted) // by its own times; the lease before may have reached Config.LongestHold
	}
}

// refuse gives back a lease that was made for a goroutine which no longer waits
// for it. It calls no hook: no caller has held the lease.
func (l *Lease) refuse() {
	k := l.client.core
	l.mu.Lock()
	l.released = true
	l.mu.Unlock()
	ours := l.end(ErrReleased)
	l.letGo()
	k.undo(l.grant, l.Key(), &l.client.cfg)
	if ours {
		k.leave(l.queue, 0)
	}
}

// politeness returns how long the key of l is to be left to clients that only
// poll, if l is released now. If it is not zero the key is not handed over,
// since polling clients would not see a hand-over either.
func (l *Lease) politeness() time.Duration {
	wish := l.client.cfg.Politeness
	if wish < 0 {
		return 0
	}
	if p, ok := l.grant.(backend.Yielder); ok {
		return p.YieldFor(wish)
	}
	return wish
}

// releaseTo gives back g, the grant of l, and leaves the key to polling clients
// for gap if the store supports that. It returns how long this process alone
// has to stay away from the key.
func (l *Lease) releaseTo(ctx context.Context, g backend.Grant, gap time.Duration) (stayAway time.Duration,
	err error) {
	p, ok := g.(backend.Yielder)
	if !ok || gap <= 0 {
		return gap, g.Release(ctx)
	}
	if err = p.ReleaseTo(ctx, gap); err == nil {
		// The look is delayed so that it does not run alongside this process's
		// next attempt: which of the two came first would differ between runs
		// of a simulation.
		l.client.core.lookAfter(p, gap/16)
	}
	return 0, err
}

// lookAfter looks at a key that was left, again and again until the gap is
// over. Its findings only serve later releases, so a Close drops it.
func (k *core) lookAfter(p backend.Yielder, wait time.Duration) {
	k.sched.later(k.keeper.now().Elapsed+wait, func() {
		k.janitor.do(func() {
			if k.hurry.Load() {
				return
			}
			if next := p.Recheck(k.call(k.life)); next > 0 {
				k.lookAfter(p, next)
			}
		})
	})
}

// more reports whether a goroutine waits to which the key may be handed over,
// by count and time. Called with k.mu held.
func (k *core) more(q *queue, cfg *Config, now time.Duration) bool {
	if q.last == nil || int(q.shares) >= cfg.LocalHandOvers || k.closed {
		return false
	}
	return q.shares == 0 || now-q.moment < cfg.HandOverFor
}
