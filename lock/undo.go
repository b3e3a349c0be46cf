package lock

import (
	"errors"
	"sync"
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
	k.undos.begin(key, cfg)
	from := k.keeper.now()
	if !k.janitor.do(func() { k.undoOnce(g, key, cfg, from, undoEvery) }) {
		k.tellLeft(key, cfg, ErrClosed) // Close could wait no longer
		k.undone(key)
	}
}

// undone counts an undo of key out.
func (k *core) undone(key string) {
	k.undos.end(key)
	k.end()
}

// undos are the keys whose grants are being undone. Several attempts at one key
// may be undone at the same time, and the log is told of the key once.
type undos struct {
	mu   sync.Mutex
	keys map[string]undoing
}

// undoing is what is under way for one key.
type undoing struct {
	cfg    *Config // of the last of them
	grants int
	told   bool
}

func (u *undos) begin(key string, cfg *Config) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keys == nil {
		u.keys = make(map[string]undoing)
	}
	one := u.keys[key]
	one.grants++
	one.cfg = cfg
	u.keys[key] = one
}

func (u *undos) end(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.keys[key]
	one.grants--
	if one.grants > 0 {
		u.keys[key] = one
		return
	}
	delete(u.keys, key)
}

// first reports whether the log is to be told of key, and notes that it was.
func (u *undos) first(key string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.keys[key]
	first := !one.told
	one.told = true
	u.keys[key] = one
	return first
}

// untold returns the keys of which the log was not told, with a Config of each.
func (u *undos) untold() map[string]*Config {
	u.mu.Lock()
	defer u.mu.Unlock()
	keys := make(map[string]*Config)
	for key, one := range u.keys {
		if !one.told {
			keys[key] = one.cfg
		}
	}
	return keys
}

// giveUp tells the log of what nobody undoes any more. Called when no worker and
// no scheduler runs.
func (k *core) giveUp() {
	for key, cfg := range k.undos.untold() {
		k.tellLeft(key, cfg, ErrClosed)
	}
	if n := k.stuck.rest(); n > 0 {
		k.hooks.log.Warn("more keys could not be given back; they free themselves", "keys", n)
	}
}

// tellLeft logs that a key which nobody holds was not given back. The undo of
// key is counted in.
func (k *core) tellLeft(key string, cfg *Config, err error) {
	if !k.undos.first(key) {
		return
	}
	if omitted, ok := k.stuck.due(k.keeper.now().Elapsed, 10*time.Second); ok {
		loud(cfg.Logger).Warn("key could not be given back; it frees itself",
			"key", key, "within", cfg.TTL, "error", err, "others since the last line", omitted)
	}
}

// undoOnce is one attempt at it; the next one is planned with twice the pause.
func (k *core) undoOnce(g Grant, key string, cfg *Config, from Instant, pause time.Duration) {
	if k.hurry.Load() { // Close's context has ended: nothing is begun
		k.tellLeft(key, cfg, ErrClosed)
		k.undone(key)
		return
	}
	err := g.Release(k.call(k.life))
	now := k.keeper.now()
	over := now.Elapsed-from.Elapsed >= cfg.TTL
	if err == nil || over || k.hurry.Load() {
		if err != nil && !errors.Is(err, ErrLost) {
			k.tellLeft(key, cfg, err)
		}
		k.undone(key)
		return
	}
	// The last attempt falls right behind the TTL: whatever arrived in time is found by then.
	next := min(now.Elapsed+pause, from.Elapsed+cfg.TTL)
	again := func() {
		if !k.janitor.do(func() { k.undoOnce(g, key, cfg, from, 2*pause) }) {
			k.tellLeft(key, cfg, err)
			k.undone(key)
		}
	}
	if !k.sched.later(next, again) {
		k.tellLeft(key, cfg, err)
		k.undone(key)
	}
}
