package lock

import (
	"errors"
	"time"
)

// undoEvery is the first pause between two attempts to undo; each further one is twice as long.
const undoEvery = 50 * time.Millisecond

// undoTogether is how many grants are given back at the same time. A backend
// sends what is asked of it at once in one message, and many leases may have
// been released while the store was away.
const undoTogether = 256

// undo gives a grant back in the background that nobody holds, or may not exist: until the store
// says for certain that it is gone, or its TTL has passed since now. Such a grant is never handed
// on, since a delayed release of it would free the next holder.
//
// "Not held" is no reason to stop: the command that takes the key may still be on its way and arrive
// after the one that gives it back.
func (k *core) undo(g Grant, key string, cfg *Config) {
	k.countIn() // Close waits for it; also after closed was set, while its cause is still counted
	from := k.keeper.now()
	if !k.janitor.do(func() { k.undoOnce(g, key, cfg, from, undoEvery) }) {
		k.tellLeft(key, cfg, ErrClosed) // Close could wait no longer
		k.end()
	}
}

// tellLeft logs that a key which nobody holds was not given back.
func (k *core) tellLeft(key string, cfg *Config, err error) {
	if omitted, ok := k.stuck.due(k.keeper.now().Elapsed, 10*time.Second); ok {
		loud(cfg.Logger).Warn("key could not be given back; it frees itself",
			"key", key, "within", cfg.TTL, "error", err, "others since the last line", omitted)
	}
}

// undoOnce is one attempt at it; the next one is planned with twice the pause.
func (k *core) undoOnce(g Grant, key string, cfg *Config, from Instant, pause time.Duration) {
	if k.hurry.Load() { // Close's context has ended: nothing is begun
		k.tellLeft(key, cfg, ErrClosed)
		k.end()
		return
	}
	err := g.Release(k.call(k.life))
	now := k.keeper.now()
	over := now.Elapsed-from.Elapsed >= cfg.TTL
	if err == nil || over || k.hurry.Load() {
		if err != nil && !errors.Is(err, ErrLost) {
			k.tellLeft(key, cfg, err)
		}
		k.end()
		return
	}
	// The last attempt falls right behind the TTL: whatever arrived in time is found by then.
	next := min(now.Elapsed+pause, from.Elapsed+cfg.TTL)
	again := func() {
		if !k.janitor.do(func() { k.undoOnce(g, key, cfg, from, 2*pause) }) {
			k.end()
		}
	}
	if !k.sched.later(next, again) {
		k.end()
	}
}
