package lock

import "errors"

// handOver gives the key of a lease that ends to the next waiting goroutine of this process: without
// a word to the store where the grant can be shared, else in one command where the backend has one.
// It reports whether the turn was passed on that way; the error is that of a release.
func (k *core) handOver(l *Lease) (handed bool, err error) {
	cfg := &l.client.cfg
	if cfg.Politeness > 0 {
		return false, nil
	}
	if k.share(l) {
		return true, nil
	}
	if k.passer == nil {
		return false, nil
	}
	return k.pass(l)
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

// share passes the key on inside this process. Trust goes on from where the last renewal put it; the
// next holder's lease renews it in its turn.
func (k *core) share(l *Lease) bool {
	sharer, ok := l.grant.(Sharer)
	if !ok {
		return false
	}
	q, now := l.queue, k.keeper.now()
	k.mu.Lock()
	t := k.next(q, &l.client.cfg, &q.shares, l.client.cfg.LocalHandOvers, now)
	if t == nil {
		k.mu.Unlock()
		return false
	}
	k.mu.Unlock()
	l.mu.Lock()
	got := turn{shared: true, sent: l.sent, span: l.span}
	// A renewal under way would end after the grant is somebody else's. Nor is a lease shared
	// whose time is nearly over.
	unfit := l.busy != nil || l.sent.age(now) > l.span/2
	l.mu.Unlock()
	if !unfit {
		got.grant, ok = sharer.Share()
	}
	if unfit || !ok {
		k.putBack(q, t)
		return false
	}
	k.handTo(l, q, t, got)
	return true
}

// putBack returns a ticket to the head of its queue.
func (k *core) putBack(q *queue, t *ticket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	q.shares--
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
	cancel()
	got := turn{grant: grant, asked: asked}
	if err != nil {
		got = turn{}
		var unsure *UnsureError
		if errors.As(err, &unsure) && unsure.Grant != nil {
			k.undo(unsure.Grant, q.key, &t.client.cfg)
		}
	}
	k.handTo(l, q, t, got)
	return true, err
}

// handTo ends l's turn and gives the next one to t, whatever its goroutine has done meanwhile.
func (k *core) handTo(l *Lease, q *queue, t *ticket, got turn) {
	l.mu.Lock()
	l.left = true
	l.mu.Unlock()
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
