package lock

import (
	"errors"
	"time"
)

// handOver gives the key of a lease that ends to the next waiting goroutine of this process: without
// a word to the store where the grant can be shared, else in one command where the backend has one.
// It reports whether the turn was passed on that way; the error is that of a release.
func (k *core) handOver(l *Lease) (handed bool, err error) {
	cfg, q := &l.client.cfg, l.queue
	sharer, _ := l.grant.(Sharer)
	if l.politeness() > 0 || sharer == nil && k.passer == nil {
		return false, nil
	}
	k.mu.Lock()
	if len(q.waiting) == 0 {
		k.mu.Unlock()
		return false, nil
	}
	now := k.keeper.now()
	var t *ticket
	if sharer != nil {
		t = k.next(q, cfg, &q.shares, cfg.LocalHandOvers, now)
	}
	k.mu.Unlock()
	if t != nil && k.share(l, t, sharer, now) {
		return true, nil
	}
	if k.passer == nil {
		return false, nil
	}
	return k.pass(l)
}

// politeness is how long this process stays away from the key after l. Where nobody polls for it, not
// at all.
func (l *Lease) politeness() time.Duration {
	most := l.client.cfg.Politeness
	if most <= 0 {
		return 0
	}
	if p, ok := l.grant.(Polite); ok && !p.Polite() {
		return 0
	}
	return most
}

// next returns the waiter to hand over to, if another hand-over is allowed by count and time. Called
// with k.mu held.
func (k *core) next(q *queue, cfg *Config, count *int, most int, now Instant) *ticket {
	if *count >= most || k.closed {
		return nil
	}
	if q.passes+q.shares == 0 {
		q.since = now.Elapsed
	} else if now.Elapsed-q.since >= cfg.HandOverFor {
		return nil
	}
	t := k.pop(q)
	if t != nil {
		*count++
	}
	return t
}

// share passes the key on to t inside this process. Trust goes on from where the last renewal put it;
// the next holder's lease renews it in its turn.
func (k *core) share(l *Lease, t *ticket, sharer Sharer, now Instant) (shared bool) {
	l.mu.Lock()
	got := turn{shared: true, sent: l.sent, span: l.span}
	// A renewal under way would end after the grant is somebody else's. Nor is a lease shared
	// whose time is nearly over.
	fit := l.busy == nil && l.sent.age(now) <= l.span/2
	l.mu.Unlock()
	if fit {
		got.grant, shared = sharer.Share()
	}
	if !shared {
		k.putBack(l.queue, t, &l.queue.shares)
		return false
	}
	k.handTo(l.queue, t, got)
	return true
}

// putBack returns a ticket to the head of its queue. count is what next counted it in.
func (k *core) putBack(q *queue, t *ticket, count *int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	*count--
	if t.gone {
		k.countOut() // its goroutine left meanwhile and saw that it had been called
		return
	}
	t.called = false
	q.waiting = append([]*ticket{t}, q.waiting...)
}

// pass passes the key on in one command.
func (k *core) pass(l *Lease) (handed bool, err error) {
	q, cfg := l.queue, &l.client.cfg
	asked := k.keeper.now()
	k.mu.Lock()
	t := k.next(q, cfg, &q.passes, cfg.HandOvers, asked)
	k.mu.Unlock()
	if t == nil {
		return false, nil
	}
	ctx, cancel := k.releaseContext(cfg.ReleaseWait)
	grant, err := k.passer.Pass(ctx, l.grant, t.client.cfg.TTL)
	if cancel != nil {
		cancel()
	}
	if errors.Is(err, ErrNotPassed) {
		k.putBack(q, t, &q.passes)
		return false, nil
	}
	got := turn{grant: grant, asked: asked}
	if err != nil {
		got = turn{}
		var unsure *UnsureError
		if errors.As(err, &unsure) && unsure.Grant != nil {
			k.undo(unsure.Grant, q.key, &t.client.cfg)
		}
	}
	k.handTo(q, t, got)
	return true, err
}

// handTo ends the turn of a lease that its holder ended, and gives the next one to t, whatever its
// goroutine has done meanwhile.
func (k *core) handTo(q *queue, t *ticket, got turn) {
	k.mu.Lock()
	k.countOut() // the lease that ended; the ticket counts for itself
	gone := t.gone
	if !gone {
		t.turn <- got
	}
	k.mu.Unlock()
	if gone {
		k.refuse(q, t, got)
	}
}
