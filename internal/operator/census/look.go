// SPDX-License-Identifier: Apache-2.0

package census

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// look takes one look at a key. While MONITOR shows every command, a look only
// corrects what expiry or eviction changed. Otherwise looks are the only
// evidence, and a look shows that a client wrote.
func (c *Census) look(o offset.Observed) {
	if !c.scope.Covers(c.cfg.DB, o.Key) || reading.IsMark(o.Key, o.Value) {
		return
	}
	id := keyID{c.cfg.DB, o.Key}
	k := c.keys[id]
	if k == nil {
		// A missing key counts too: an attempt that finds it free is known to
		// win.
		if o.Exists && !c.reader.IsLock(o) {
			return
		}
		k = c.key(id, o.At)
	}
	if back := k.polled.at.Sub(o.At); back > 0 && !c.monitoring(o.At) {
		// Without MONITOR, looks arrive in order, so the server's clock was set
		// back.
		k.polled.at, k.polled.moved = o.At, k.polled.moved+back
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
	p.at, p.moved = latest(p.at, o.At), 0
}

// learn takes the state of the key from a look. The holder stays the same: if
// its value is gone, its release will show that.
func (c *Census) learn(k *keyState, o offset.Observed) {
	if k.known && k.exists == o.Exists && k.value == o.Value {
		return
	}
	c.unseen(k, o)
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

// unseen takes a look that shows an old client's stamp which no line of MONITOR
// explains: it was written in a hole of MONITOR, or its line is late. The stamp
// is the last write, and an attempt for the longest pause. It is counted
// nowhere else, since a late line counts itself.
func (c *Census) unseen(k *keyState, o offset.Observed) {
	p, m := &k.polled, c.sources[SourceMonitor]
	switch {
	case !o.Exists, p.exists && p.value == o.Value, k.pending != nil && k.pending.value == o.Value:
		return
	case k.known: // MONITOR followed the key and knows another value
	case k.commanded.After(latest(p.at, m.off)):
		return // by a command that is not followed
	case p.at.IsZero() && !m.off.After(m.from):
		return // the key's first look, and MONITOR had no hole: it was written before
	}
	r := c.reader.ReadAny(o.Value, o.At)
	if !r.Legacy() || r.OfOurs(o.At, o.HasTTL, o.TTL) || !o.HasTTL && c.perhapsStampOfOurs(r, o.At) {
		return
	}
	k.speaks(r.Dialects)
	c.paused(k, o.At)
	c.attempted(k, nil, Act{
		At: o.At, What: ActWrote, DB: k.id.db, Key: k.id.name, Dialect: r.Dialects[0].Name,
		Value:  o.Value[:min(len(o.Value), 256)],
		Detail: "a look showed it, MONITOR did not",
	})
}

// polledChange counts a value that was not there at the last look, and ends the
// hold of the last one. Most looks end here: what did not change is not read
// again.
func (c *Census) polledChange(k *keyState, o offset.Observed) {
	p := &k.polled
	if p.exists == o.Exists && p.value == o.Value && !p.at.IsZero() {
		return
	}
	c.polledEnd(k, o.At)
	k.perhaps = ""
	a := Act{At: o.At, Value: o.Value}
	var r reading.Reading
	if o.Exists {
		r = c.reader.ReadAny(o.Value, o.At)
	}
	switch {
	case !o.Exists && p.at.IsZero():
		return // the first look: nothing was there that could be gone
	case !o.Exists:
		a.What = ActGone
	case r.Guard:
		a.What = ActGuard
	case r.Tomb:
		a.What = ActTombstone
	case r.Legacy():
		c.polledStamp(k, o, r, a)
		return
	default:
		for _, s := range c.stories(k, nil) {
			s.counts.Unreadable++
		}
		a.What = ActWrote
	}
	c.act(k, nil, a)
}

// polledEnd ends the hold of an old client whose value is gone.
func (c *Census) polledEnd(k *keyState, at time.Time) {
	p := &k.polled
	if !p.counted {
		return
	}
	p.counted = false
	begun := p.before
	if begun.IsZero() {
		begun = p.first
	}
	c.held(k, nil, Hold{
		At: begun, DB: k.id.db, Key: k.id.name, For: at.Sub(begun), Lease: c.cfg.Lease, Source: SourcePoll,
	})
}

// polledStamp takes a new value that a dialect can read: an old client
// acquired, unless a getsetlock client wrote the value or may have written it.
func (c *Census) polledStamp(k *keyState, o offset.Observed, r reading.Reading, a Act) {
	a.What = ActWrote
	switch {
	case r.OfOurs(o.At, o.HasTTL, o.TTL):
		a.Detail = "a stamp of a getsetlock client"
		c.act(k, nil, a)
		return
	case !o.HasTTL && c.perhapsStampOfOurs(r, o.At):
		k.perhaps = o.Value
		a.Detail = "a stamp one day ahead: perhaps of a getsetlock client whose PX was lost"
		c.act(k, nil, a)
		return
	}
	w := c.writer("", r, o.At)
	w.uses(o.Key)
	k.speaks(r.Dialects)
	c.paused(k, o.At)
	if p := &k.polled; p.at.IsZero() {
		c.stood(w, r, o.At)
	} else {
		// It was written after the look before and before this look, by a
		// server's clock that may have stepped in between. A value that stood
		// at the first look at a key was written at an unknown time.
		stepped := p.moved + unseenStep + o.At.Sub(p.at)/1000
		c.compare(w, r, o.At.Add(stepped), p.at.Add(-stepped))
	}
	a.What, k.polled.counted = ActAcquired, true
	c.act(k, w, a)
}
