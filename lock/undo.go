// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"errors"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// undoEvery is the first pause between two attempts to undo. Each further pause
// is twice as long, up to a third of the TTL.
const undoEvery = 50 * time.Millisecond

// undoTogether is how many grants are given back at the same time. A backend
// sends simultaneous commands in one message, and many leases may have been
// released while the store was away.
const undoTogether = 256

// undo gives back, in the background, a grant that has no holder or may not
// exist. It tries until the store says for certain that the grant is gone, or
// until its TTL has passed since now. Such a grant is never handed over: a
// delayed release of it would free the next holder.
//
// "Not held" is no reason to stop. The command that takes the key may still be
// under way and arrive after the one that gives it back.
func (k *core) undo(g backend.Grant, key string, cfg *Config) {
	k.countIn() // Close waits for the undo; the caller still counts, so Close has not ended
	k.undos.begin(key, cfg)
	from := k.keeper.now()
	if !k.janitor.do(func() { k.undoOnce(g, key, cfg, from, undoEvery) }) {
		k.tellLeft(key, cfg, ErrClosed) // Close has stopped waiting
		k.undone(key)
	}
}

// undone counts an undo of key out.
func (k *core) undone(key string) {
	k.undos.end(key)
	k.end()
}

// undos are the keys whose grants are being undone. Several attempts at one key
// may be undone at the same time; the log names the key once.
type undos struct {
	mu   sync.Mutex
	keys map[string]undoing
}

// undoing is the state of the undos of one key.
type undoing struct {
	cfg    *Config // Config of the last undo
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

// first reports whether the log has not named key yet, and records that it has.
func (u *undos) first(key string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.keys[key]
	first := !one.told
	one.told = true
	u.keys[key] = one
	return first
}

// untold returns the keys that the log has not named, with a Config of each.
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

// giveUp logs the keys that no goroutine undoes any more. Called when neither
// workers nor the scheduler run.
func (k *core) giveUp() {
	for key, cfg := range k.undos.untold() {
		k.tellLeft(key, cfg, ErrClosed)
	}
	if n := k.stuck.rest(); n > 0 {
		k.hooks.log.Warn("more keys could not be given back; they free themselves", "keys", n)
	}
}

// tellLeft logs that a key without a holder was not given back. Called before
// the undo of key is counted out.
func (k *core) tellLeft(key string, cfg *Config, err error) {
	if !k.undos.first(key) {
		return
	}
	if omitted, ok := k.stuck.due(k.keeper.now().Elapsed, 10*time.Second); ok {
		loud(cfg.Logger).Warn("key could not be given back; it frees itself",
			"key", key, "within", cfg.TTL, "error", err, "others since the last line", omitted)
	}
}

// undoOnce is one attempt to undo; it plans the next attempt after the pause,
// which grows.
func (k *core) undoOnce(g backend.Grant, key string, cfg *Config, from backend.Instant, pause time.Duration) {
	if k.hurry.Load() { // Close's context has ended: nothing new begins
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
	// The last attempt is made right after the TTL: it finds every command that
	// arrived in time.
	next := min(now.Elapsed+pause, from.Elapsed+cfg.TTL)
	again := func() {
		if !k.janitor.do(func() { k.undoOnce(g, key, cfg, from, min(2*pause, cfg.TTL/3)) }) {
			k.tellLeft(key, cfg, err)
			k.undone(key)
		}
	}
	if !k.sched.later(next, again) {
		k.tellLeft(key, cfg, err)
		k.undone(key)
	}
}
