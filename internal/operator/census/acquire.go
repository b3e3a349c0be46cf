// SPDX-License-Identifier: Apache-2.0

package census

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// setnx takes an attempt. A value that no dialect reads is recorded as a write
// if the key is known as a lock.
func (c *Census) setnx(q order) {
	r := c.reader.Read(q.value, q.at, q.set)
	k := c.keys[q.id]
	if k != nil {
		k.at(q.at)
	}
	if !r.Legacy() || q.script {
		if k != nil && !(k.known && k.exists) || r.Guard || r.Tomb {
			c.wrote(q)
		}
		return
	}
	k = c.key(q.id, q.at)
	w := c.writer(q.addr, r, q.at)
	c.attempts(k, w, q, r)
	q.seen = c.compare(w, r, q.at, q.at)
	for addr := range k.getsets {
		if hostOf(addr) == hostOf(q.addr) {
			delete(k.getsets, addr)
		}
	}
	if p := c.peers[q.addr]; p != nil {
		p.setnx, p.stamp, p.tried = q.id.name, q.value, q.at
	}
	c.settle(k, q.addr, false)
	switch {
	case !k.known:
		// It counts as an attempt at once, since the client's next command may
		// never be seen.
		k.pending = &pending{q.addr, q.value, r, q.at}
		c.attempted(k, w, Act{
			At: q.at, What: ActLost, DB: k.id.db, Key: k.id.name, Addr: q.addr, Dialect: w.dialect().Name,
			Detail: "it is unknown whether it won",
		})
	case k.exists:
		c.lost(k, w, q)
	default:
		c.won(k, w, q, r, ActAcquired, "")
	}
}

func (c *Census) attempts(k *keyState, w *writer, q order, r reading.Reading) {
	c.paused(k, q.at)
	k.try(q.addr)
	k.speaks(r.Dialects)
	w.uses(q.id.name)
}

func (c *Census) lost(k *keyState, w *writer, q order) {
	if p := c.peers[q.addr]; p != nil && p.last.Equal(q.at) && p.setnx == q.id.name && !q.set &&
		w.dialect().HasTakeover() {
		p.lost = q.id.name // its GET must follow, if the connection is its own
	}
	c.waited(w, k.id, q.at, false)
	c.act(k, w, Act{At: q.at, What: ActLost, Addr: q.addr, Value: k.value})
}

func (c *Census) won(k *keyState, w *writer, q order, r reading.Reading, what ActKind, detail string) {
	k.stands(q.value)
	if q.ttl > 0 {
		k.ends, k.noTTL = q.at.Add(q.ttl), false
	}
	k.take(&holding{addr: q.addr, value: q.value, expiry: r.Stamp.Expiry, since: q.at, lease: w.assumed,
		ahead: q.seen.low.Low})
	c.waited(w, k.id, q.at, true)
	c.act(k, w, Act{At: q.at, What: what, Addr: q.addr, Value: q.value,
		Detail: detail})
}

// settle decides a pending attempt once the client's next command tells its
// outcome.
func (c *Census) settle(k *keyState, addr string, won bool) {
	p := k.pending
	if p == nil || p.addr != addr {
		return
	}
	k.pending = nil
	w := c.writer(addr, p.read, p.at)
	q := order{at: p.at, addr: addr, id: k.id, value: p.value}
	if !won {
		c.lost(k, w, q)
		return
	}
	known, exists, value := k.known, k.exists, k.value
	c.won(k, w, q, p.read, ActAcquired, "")
	if known {
		k.known, k.exists, k.value = known, exists, value
	}
}

// get records what the client read. Old clients send GET only after a SETNX
// that lost.
func (c *Census) get(q order) {
	k, w := c.keys[q.id], c.writers[q.addr]
	if p := c.peers[q.addr]; p != nil && !q.script && q.before.setnx == q.id.name {
		p.setnx, p.stamp, p.tried, p.get = q.before.setnx, q.before.stamp, q.before.tried, q.id.name
	}
	if k == nil || q.script {
		return
	}
	k.at(q.at)
	if w == nil {
		// A pool may send the GET on another connection than the SETNX.
		if r, known := k.reply(); c.hosts[hostOf(q.addr)] {
			k.foundLive(q, r, known)
		}
		return
	}
	if k.pending != nil && q.before.setnx == q.id.name {
		c.settle(k, q.addr, false)
	}
	delete(w.seen, k.id)
	r, known := k.reply()
	if known {
		w.remember(k.id, r)
	}
	if p := c.peers[q.addr]; p != nil && p.get == q.id.name {
		if rest := w.rest(known && !r.Nil); rest > 0 {
			p.rests = q.at.Add(rest)
		}
	}
	k.foundLive(q, r, known)
}

// getset takes the second half of a takeover. It decides who won and whose
// value was replaced, and records how old the clock reading was.
func (c *Census) getset(q order) {
	r := c.reader.ReadAny(q.value, q.at)
	k := c.keys[q.id]
	if !r.Legacy() || q.script {
		if k != nil || r.Guard || r.Tomb {
			c.wrote(q)
		}
		return
	}
	k = c.key(q.id, q.at)
	k.at(q.at)
	w := c.writer(q.addr, r, q.at)
	tried := q.before.setnx == q.id.name
	if !tried && k.holder != nil && k.holder.addr == q.addr {
		c.renewed(k, q, r)
		return
	}
	c.attempts(k, w, q, r)
	w.took(q)
	q.seen = c.compare(w, r, q.at, q.at)
	if !tried && c.getsetFirst(k, w, q) {
		return
	}
	old, oldKnown := k.reply()
	seen, seenKnown := w.seen[k.id]
	if !tried || !oldKnown || !seenKnown {
		k.pending = &pending{q.addr, q.value, r, q.at}
		k.stands(q.value)
		c.act(k, w, Act{At: q.at, What: ActWrote, Addr: q.addr, Value: q.value,
			Detail: "GETSET; it is unknown whether it won"})
		c.attempted(k, w, Act{At: q.at, What: ActTakeover, DB: k.id.db, Key: k.id.name, Addr: q.addr,
			Dialect: w.dialect().Name})
		return
	}
	if w.dialect().LegacyWins(old, seen, w.clockAt(q.at)) == dialect.Won {
		c.tookOver(k, w, q, r, old, seen)
		return
	}
	c.lostGetset(k, w, q, perhapsWon(q, old, seen, w.clockAt(q.at)))
}

func (c *Census) renewed(k *keyState, q order, r reading.Reading) {
	k.stands(q.value)
	k.holder.value, k.holder.expiry = q.value, r.Stamp.Expiry
	c.act(k, nil, Act{At: q.at, What: ActWrote, Addr: q.addr, Value: q.value,
		Detail: "renewed"})
}

// getsetFirst reports the second GETSET in a row without a SETNX of that host
// in between. No client with a SETNX in its loop does that, even if the watch
// began in the middle of its first attempt.
func (c *Census) getsetFirst(k *keyState, w *writer, q order) bool {
	if len(k.getsets) >= mostActs {
		clear(k.getsets)
	}
	if k.getsets[q.addr]++; k.getsets[q.addr] < 2 {
		return false
	}
	k.stands(q.value)
	c.act(k, w, Act{At: q.at, What: ActGetsetFirst, Addr: q.addr, Value: q.value})
	return true
}

// clockAt returns the client's clock at that instant, as well as it is known.
func (w *writer) clockAt(at time.Time) time.Time {
	// The promptest of its writes gives the best estimate. If several clients
	// share the address, it is unknown which one this is.
	if low := w.clock.At(at).Low; low != offset.NoLow {
		return at.Add(low)
	}
	return at
}

func (c *Census) tookOver(k *keyState, w *writer, q order, r reading.Reading, old, seen dialect.Reply) {
	what, detail := ActTakeover, ""
	d := w.dialect()
	mine := false
	if d.OrMine && !seen.Nil {
		s, err := d.Decode(seen.Value, q.at)
		mine = err == nil && s.ID == r.Stamp.ID
	}
	switch h := k.holder; {
	case mine && h != nil && h.addr != q.addr:
		what, detail = ActDoubleGrant, "while held by "+h.addr
	case old.Nil:
		what, detail = ActAcquired, "by GETSET on a missing key"
	case h != nil:
		detail = "from " + h.addr
	}
	c.won(k, w, q, r, what, detail)
}

// lostGetset records a losing GETSET: its value stays, whichever client holds.
// perhaps: a client of another dialect that writes such bytes would have won.
func (c *Census) lostGetset(k *keyState, w *writer, q order, perhaps bool) {
	what, detail := ActGhost, ""
	if h := k.holder; h != nil && h.addr != q.addr {
		what, detail = ActClobber, "over "+h.addr
	}
	k.stands(q.value)
	c.waited(w, k.id, q.at, false)
	c.act(k, w, Act{At: q.at, What: what, Addr: q.addr, Value: q.value, Detail: detail,
		Perhaps: perhaps})
}
