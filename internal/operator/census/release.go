// SPDX-License-Identifier: Apache-2.0

package census

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// del takes a DEL, which ends a lock.
func (c *Census) del(q order) {
	k := c.keys[q.id]
	if k == nil {
		return
	}
	k.last, k.commanded = latest(k.last, q.at), latest(k.commanded, q.at)
	k.at(q.at)
	c.settle(k, q.addr, true)
	w := c.writers[q.addr]
	h := k.belief(q.addr)
	if h == nil {
		c.deleted(k, w, q)
		return
	}
	a := c.release(k, h, q)
	if h.taken {
		// The holder was still at work, but another client had won in between.
		for _, s := range c.stories(k, w) {
			s.counts.Overlaps++
		}
	}
	c.act(k, w, a)
	if !h.script && k.ended(h, q) {
		c.held(k, w, Hold{
			At: h.since, Addr: h.addr, DB: k.id.db, Key: k.id.name, For: q.at.Sub(h.since), Lease: h.lease,
			Source: SourceMonitor,
		})
	}
	k.drop(h)
	k.free()
}

// release returns the act by which a client that believes that it holds ends
// its hold.
func (c *Census) release(k *keyState, h *holding, q order) Act {
	a := Act{At: q.at, What: ActOverrun, Addr: q.addr}
	foreign := h != k.holder || k.known && (!k.exists || k.value != h.value)
	switch {
	case q.script || h.script:
		a.What, a.Detail = ActWrote, "released"
	case foreign && k.known && k.exists:
		a.Detail = "deleted another client's value, " + since(h, q)
	case foreign:
		a.Detail = "its own lock was gone, " + since(h, q)
	case c.pastBy(h, q):
		a.Detail = "its stamp was past, " + since(h, q)
	default:
		a.What = ActReleased
	}
	return a
}

// ended reports whether the holder itself ended its hold, so that the hold was
// a job. What a killed client left is deleted by doctor's script, or by a
// person. A plain DEL on another connection of the holder's host counts as the
// holder's own, since clients may take a connection from a pool for each
// command, unless another client had taken the lock over.
func (k *keyState) ended(h *holding, q order) bool {
	return q.addr == h.addr || !q.script && h == k.holder
}

func since(h *holding, q order) string {
	return "after " + q.at.Sub(h.since).Round(time.Millisecond).String()
}

// pastBy reports whether the holder's stamp was past. The lower end of its
// offset proves that; an unknown clock counts as right.
func (c *Census) pastBy(h *holding, q order) bool {
	if h.expiry.IsZero() {
		return false
	}
	ahead := h.ahead
	if w := c.writers[h.addr]; w != nil {
		if low := w.clock.At(q.at).Low; low != offset.NoLow {
			ahead = low
		}
	}
	return q.at.Add(ahead).After(h.expiry)
}

// deleted takes a DEL by a client that is not known to hold.
func (c *Census) deleted(k *keyState, w *writer, q order) {
	if k.known && !k.exists {
		return
	}
	a := Act{At: q.at, What: ActWrote, Addr: q.addr,
		Detail: "deleted"}
	if k.holder != nil && !q.script {
		a.What, a.Detail = ActOverrun, "deleted the lock of "+k.holder.addr+" without holding one"
	}
	c.act(k, w, a)
	k.free()
}

// expire takes a TTL. A TTL set by a client that does not hold shortens or
// lengthens another client's lock.
func (c *Census) expire(q order) {
	k := c.keys[q.id]
	if k == nil {
		return
	}
	k.at(q.at)
	if k.holder != nil && !q.script && k.belief(q.addr) != k.holder {
		c.act(k, c.writers[q.addr], Act{
			At: q.at, What: ActForeignExpire, Addr: q.addr, Value: k.value,
			Detail: q.ttl.String() + " on the lock of " + k.holder.addr})
	}
	switch {
	case q.ttl <= 0:
		k.known = false
	case !k.known || k.exists:
		k.ends, k.noTTL = q.at.Add(q.ttl), false
	}
}

// wrote takes a write that is no attempt of an old client: a renewal, a guard
// of a getsetlock client, or an accident.
func (c *Census) wrote(q order) {
	r := c.reader.ReadAny(q.value, q.at)
	k := c.keys[q.id]
	if k == nil {
		if !r.Guard && !r.Tomb {
			return
		}
		k = c.key(q.id, q.at)
	}
	k.at(q.at)
	w := c.writers[q.addr]
	own := k.holder != nil && k.belief(q.addr) == k.holder
	a := Act{At: q.at, What: ActWrote, Addr: q.addr, Value: q.value}
	switch {
	case r.Guard:
		a.What = ActGuard
	case r.Tomb:
		a.What = ActTombstone
	case own:
		a.Detail = "renewed"
	case !r.Legacy() && !q.script:
		a.Detail = "no named dialect reads it"
		for _, s := range c.stories(k, nil) {
			s.counts.Unreadable++
		}
	}
	c.act(k, w, a)
	k.stands(q.value)
	if q.ttl > 0 {
		k.ends, k.noTTL = q.at.Add(q.ttl), false
	}
	switch {
	case own:
		k.holder.value = q.value
		if r.Legacy() {
			k.holder.expiry = r.Stamp.Expiry
		}
	case q.script:
		k.take(&holding{addr: q.addr, value: q.value, since: q.at, script: true})
	}
}
