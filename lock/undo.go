package lock

import (
	"context"
	"errors"
	"time"
)

// undoEvery is the first pause between two attempts to undo; each further one is twice as long.
const undoEvery = 50 * time.Millisecond

// undo gives a grant back in the background that nobody holds, or may not exist: until the store
// says for certain that it is gone, or its TTL has passed since now. Such a grant is never handed
// on, since a delayed release of it would free the next holder.
//
// "Not held" is no reason to stop: the command that takes the key may still be on its way and arrive
// after the one that gives it back.
func (k *core) undo(g Grant, key string, cfg *Config) {
	k.mu.Lock()
	k.live++ // Close waits for it; also after closed was set, while its cause is still counted
	k.mu.Unlock()
	from := k.keeper.now()
	k.janitor.do(func() { k.undoOnce(g, key, cfg, from, undoEvery) })
}

// undoOnce is one attempt at it; the next one is planned with twice the pause.
func (k *core) undoOnce(g Grant, key string, cfg *Config, from Instant, pause time.Duration) {
	err := g.Release(k.call(context.Background()))
	now := k.keeper.now()
	over := now.Elapsed-from.Elapsed >= cfg.TTL
	if err == nil || over || k.hurry.Load() {
		if err != nil && !errors.Is(err, ErrLost) {
			cfg.Logger.Warn("key could not be given back; it frees itself", "key", key, "within", cfg.TTL, "error", err)
		}
		k.end()
		return
	}
	// The last attempt falls right behind the TTL: whatever arrived in time is found by then.
	next := min(now.Elapsed+pause, from.Elapsed+cfg.TTL)
	again := func() {
		k.janitor.do(func() { k.undoOnce(g, key, cfg, from, 2*pause) })
	}
	if !k.sched.later(next, again) {
		k.end()
	}
}

// handOver passes the grant of a lease that ends to the next waiting goroutine of this process in
// one command. It reports whether the turn was passed on that way; the error is that of a release.
func (k *core) handOver(l *Lease) (handed bool, err error) {
	cfg := &l.client.cfg
	if k.passer == nil || cfg.Politeness > 0 || cfg.Fair {
		return false, nil
	}
	k.mu.Lock()
	q := l.queue
	if q.passes >= cfg.HandOvers || k.closed {
		k.mu.Unlock()
		return false, nil
	}
	t := k.pop(q)
	if t == nil {
		k.mu.Unlock()
		return false, nil
	}
	q.passes++
	k.mu.Unlock()

	ctx, cancel := k.releaseContext(cfg.ReleaseWait)
	asked := k.keeper.now()
	grant, err := k.passer.Pass(ctx, l.grant, t.client.cfg.TTL)
	cancel()
	l.mu.Lock()
	l.left = true // the turn goes on with the ticket, whatever came of it
	l.mu.Unlock()
	got := turn{grant: grant, asked: asked}
	if err != nil {
		got = turn{}
		var unsure *UnsureError
		if errors.As(err, &unsure) && unsure.Grant != nil {
			k.undo(unsure.Grant, q.key, &t.client.cfg)
		}
	}
	k.mu.Lock()
	k.countOut() // the lease that ended; the ticket counts for itself
	if !t.gone {
		t.turn <- got
		k.mu.Unlock()
		return true, err
	}
	k.mu.Unlock()
	k.refuse(q, t, got)
	return true, err
}
