package audit

import (
	"time"

	"github.com/getsetlock/getsetlock/skew"
)

// look takes one sight of a key. While MONITOR shows every command it only sets right what expiry or
// eviction changed unseen; else it is all there is, and tells that somebody wrote.
func (c *Census) look(o skew.Observed) {
	if !c.scope.Covers(c.cfg.DB, o.Key) || markOfOurs(o.Key, o.Value) {
		return
	}
	id := keyID{c.cfg.DB, o.Key}
	k := c.keys[id]
	if k == nil {
		// A missing key counts too: who finds it free is known to win.
		if o.Exists && !c.isLock(o) {
			return
		}
		k = c.key(id, o.At)
	}
	if o.At.Before(k.commanded) || o.At.Before(k.polled.at) {
		return
	}
	k.at(o.At)
	k.noTTL = o.Exists && !o.HasTTL
	if c.monitoring(o.At) {
		c.learn(k, o)
	} else {
		c.polledChange(k, o)
		k.known = false
	}
	p := &k.polled
	if p.at.IsZero() || p.exists != o.Exists || p.value != o.Value {
		p.before, p.first, p.exists, p.value = p.at, o.At, o.Exists, o.Value
	}
	p.at = latest(p.at, o.At)
}

// isLock says whether a value is one that a client of a lock leaves on its key.
func (c *Census) isLock(o skew.Observed) bool {
	if markOfOurs(o.Key, o.Value) {
		return false
	}
	r := c.readAny(o.Value, o.At)
	return len(r.dialects) > 0 || r.guard || r.tomb
}

// learn takes the key as it was seen. Who holds stays who held: if its value is gone, its release will
// tell.
func (c *Census) learn(k *keyState, o skew.Observed) {
	if k.known && k.exists == o.Exists && k.value == o.Value {
		return
	}
	if p := k.pending; p != nil && o.Exists {
		c.settle(k, p.addr, p.value == o.Value)
	}
	k.pending = nil
	if !k.asked.IsZero() && o.Exists {
		k.live = Found{Value: o.Value, Times: 1, Last: k.asked, Addr: k.askedBy}
	}
	k.asked = time.Time{}
	k.known, k.exists, k.value, k.learnt = true, o.Exists, o.Value, o.At
	k.ends = time.Time{}
	if o.HasTTL {
		k.ends = o.At.Add(o.TTL)
	}
}

// polledChange counts a value that was not there at the last look, and ends the hold of the last one. Most looks end
// here: what did not change is not read again.
func (c *Census) polledChange(k *keyState, o skew.Observed) {
	p := &k.polled
	if p.exists == o.Exists && p.value == o.Value && !p.at.IsZero() {
		return
	}
	var r reading
	if o.Exists {
		r = c.readAny(o.Value, o.At)
	}
	if p.counted {
		p.counted = false
		begun := p.before
		if begun.IsZero() {
			begun = p.first
		}
		c.held(k, nil, Hold{
			At: begun, DB: k.id.db, Key: k.id.name, For: o.At.Sub(begun), Lease: c.cfg.Lease, Source: SourcePoll,
		})
	}
	k.perhaps = ""
	a := Act{At: o.At, Value: o.Value, Source: SourcePoll}
	switch {
	case !o.Exists:
		if !p.at.IsZero() {
			a.What = ActGone
			c.act(k, nil, a)
		}
	case r.guard:
		a.What = ActGuard
		c.act(k, nil, a)
	case r.tomb:
		a.What = ActTombstone
		c.act(k, nil, a)
	case r.legacy() && stampOfOurs(r, o.At, o.HasTTL, o.TTL):
		a.What, a.Detail = ActWrote, "a stamp of a getsetlock client"
		c.act(k, nil, a)
	case r.legacy() && !o.HasTTL && c.perhapsStampOfOurs(r, o.At):
		k.perhaps = o.Value
		a.What, a.Detail = ActWrote, "a stamp a day ahead: perhaps a getsetlock client's without its PX"
		c.act(k, nil, a)
	case r.legacy():
		w := c.writer("", r, o.At)
		w.uses(o.Key)
		k.speaks(r.dialects)
		w.wrote(o.Key, r, o.At, time.Time{}, 0)
		c.paused(k, o.At)
		if !p.at.IsZero() {
			// Written after the look before. What stood at the first look of a key was
			// written at a time that nobody knows.
			c.compare(w, r, o.At, p.at)
		}
		a.What, p.counted = ActAcquired, true
		c.act(k, w, a)
	default:
		c.counts.Unreadable++
		k.counts.Unreadable++
		a.What = ActWrote
		c.act(k, nil, a)
	}
}
