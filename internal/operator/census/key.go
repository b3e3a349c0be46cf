// SPDX-License-Identifier: Apache-2.0

package census

import (
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// keyState is one key as the events left it.
type keyState struct {
	id keyID
	present
	beliefs
	finds
	polled  polled
	attempt time.Time // the last attempt of an old client
	perhaps string    // a value that may be a getsetlock client's whose PX was lost

	story
	last     time.Time
	dialects []string
	timeline []Act
}

// present is the state of a key on the server, as far as it is known.
type present struct {
	// known says that exists and value are the key's present state.
	known, exists bool
	value         string
	noTTL         bool // the value has no TTL, by what was seen last
	// learnt is the look that known rests on; commanded is the last command.
	// Sources are sometimes late, so older news from one kind must not be
	// combined with newer news from the other.
	learnt, commanded time.Time
	ends              time.Time // when the server's TTL ends the key; zero: no TTL
}

// beliefs are the clients that hold, or believe that they do.
type beliefs struct {
	holder   *holding
	replaced []*holding // whose lock another client took and who have not released since; bounded
	pending  *pending
	// getsets counts, by address, GETSETs in a row without a SETNX of that host
	// in between.
	getsets map[string]int
	tried   map[string]bool // addresses that tried for the lock
}

// finds are the values that old clients read.
type finds struct {
	live    Found     // read and not taken over
	asked   time.Time // when a client read the key while its value was unknown here
	askedBy string
}

// holding is a client that believes that it holds.
type holding struct {
	addr   string // empty if polls saw the hold
	value  string
	expiry time.Time // the stamp's expiry, by the client's clock; zero: no stamp
	since  time.Time
	script bool
	lease  time.Duration
	ahead  time.Duration // how far the clock was ahead at least when the lock was won; 0: unknown
	// taken: another client won the lock while this one believed that it held.
	taken bool
}

// pending is an attempt whose outcome is not known yet.
type pending struct {
	addr  string
	value string
	read  reading.Reading
	at    time.Time
}

// polled is the last look at a key.
type polled struct {
	at, first time.Time // the last look, and the first that showed this value
	before    time.Time // the last look that did not show it
	exists    bool
	value     string
	counted   bool          // the value was counted as an old client's
	moved     time.Duration // sum of the steps of the server's clock since the last look, without sign
}

const mostReplaced = 8

// key returns a key's state, and creates it if necessary.
func (c *Census) key(id keyID, at time.Time) *keyState {
	k := c.keys[id]
	if k == nil {
		if len(c.keys) >= c.cfg.MaxKeys {
			c.forgetKey()
		}
		k = &keyState{id: id, beliefs: beliefs{getsets: map[string]int{}, tried: map[string]bool{}}}
		c.keys[id] = k
	}
	k.last = latest(k.last, at)
	return k
}

// forgetKey drops the key with the oldest last event; of equals, the first by
// name.
func (c *Census) forgetKey() {
	var oldest *keyState
	for _, k := range c.keys {
		if oldest == nil || k.last.Before(oldest.last) ||
			k.last.Equal(oldest.last) && before(k.id, oldest.id) {
			oldest = k
		}
	}
	if oldest == nil {
		return
	}
	delete(c.keys, oldest.id)
	for _, w := range c.writers {
		delete(w.waiting, oldest.id)
		delete(w.seen, oldest.id)
	}
	c.gone.keys++
}

func before(a, b keyID) bool { return a.db < b.db || a.db == b.db && a.name < b.name }

// unknown forgets the key's value and holders, since it was not watched for a
// time. Waiting clients keep waiting.
func (k *keyState) unknown() {
	k.known, k.holder, k.replaced, k.pending = false, nil, nil, nil
	clear(k.getsets)
}

// at applies the server's TTL. If it ended the key since the last event, its
// holder is replaced.
func (k *keyState) at(now time.Time) {
	if now.Before(k.learnt) {
		// known rests on a look that is newer than now: the state before that
		// look is unknown.
		k.known, k.learnt = false, time.Time{}
	}
	if k.ends.IsZero() || now.Before(k.ends) {
		return
	}
	k.ends = time.Time{}
	k.known, k.exists, k.value = true, false, ""
	if k.holder != nil {
		k.lose()
	}
}

// stands stores the value that a command left.
func (k *keyState) stands(value string) {
	k.asked = time.Time{}
	k.known, k.exists, k.value, k.ends = true, true, value, time.Time{}
	k.noTTL = true
}

func (k *keyState) free() {
	k.asked = time.Time{}
	k.known, k.exists, k.value, k.ends, k.noTTL = true, false, "", time.Time{}, false
}

// reply returns what a GET returns now, and whether that is known.
func (k *keyState) reply() (dialect.Reply, bool) {
	if !k.exists {
		return dialect.Nil(), k.known
	}
	return dialect.Text(k.value), k.known
}

// lose moves the holder to the replaced ones.
func (k *keyState) lose() {
	k.replaced = append(reading.Bounded(k.replaced, mostReplaced), k.holder)
	k.holder = nil
}

// take makes a client the holder. Another client that still believes that it
// holds is replaced; an earlier belief of the same client is dropped.
func (k *keyState) take(h *holding) {
	if k.holder != nil && k.holder.addr != h.addr {
		k.lose()
	}
	for _, r := range k.replaced {
		r.taken = r.taken || r.addr != h.addr
	}
	k.replaced = slices.DeleteFunc(k.replaced, func(r *holding) bool { return r.addr == h.addr })
	k.holder = h
}

// belief returns the holding that this address releases: its own, or that of
// another connection of the same host if this address never tried for the lock
// itself. The latter are clients that take a connection from a pool for each
// command.
func (k *keyState) belief(addr string) *holding {
	all := k.replaced
	if k.holder != nil {
		all = append(all[:len(all):len(all)], k.holder)
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].addr == addr {
			return all[i]
		}
	}
	if k.tried[addr] {
		return nil
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].addr != "" && hostOf(all[i].addr) == hostOf(addr) {
			return all[i]
		}
	}
	return nil
}

// drop ends a belief.
func (k *keyState) drop(h *holding) {
	if k.holder == h {
		k.holder = nil
	}
	k.replaced = slices.DeleteFunc(k.replaced, func(r *holding) bool { return r == h })
}

func (k *keyState) speaks(ds []*dialect.Dialect) {
	// A value that an already listed dialect also reads is no mixture: it may
	// be of either.
	for _, d := range ds {
		if slices.Contains(k.dialects, d.Name) {
			return
		}
	}
	if len(ds) > 0 && len(k.dialects) < mostWriterKeys {
		k.dialects = append(k.dialects, ds[0].Name)
	}
}

// try remembers an address that tries, up to a limit.
func (k *keyState) try(addr string) {
	if len(k.tried) >= mostActs {
		clear(k.tried)
	}
	k.tried[addr] = true
}

// act adds an act to the key, its client and the sums.
func (c *Census) act(k *keyState, w *writer, a Act) {
	a.DB, a.Key = k.id.db, k.id.name
	a.Value = a.Value[:min(len(a.Value), 256)]
	if who, ok := c.clients[a.Addr]; ok {
		a.Name, a.Library = who.Name, who.Library
	}
	if w != nil && a.Dialect == "" {
		a.Dialect = w.dialect().Name
	}
	for _, s := range c.stories(k, w) {
		s.counts.add(a.What)
		if a.What.attempt() {
			s.attempted(&a)
		}
	}
	if a.What == ActLost {
		return
	}
	k.timeline = append(reading.Bounded(k.timeline, mostActs), a)
}

// attempted keeps an attempt that is counted elsewhere or not at all.
func (c *Census) attempted(k *keyState, w *writer, a Act) {
	for _, s := range c.stories(k, w) {
		s.attempted(&a)
	}
}

// story is what clients did: all of them, those of one key, or one of them.
type story struct {
	counts                Counts
	lastWrite, lastFailed *Act // the last attempts that wrote, and that wrote nothing
}

// stories are those to which an act on a key belongs. w may be nil.
func (c *Census) stories(k *keyState, w *writer) []*story {
	if w == nil {
		return []*story{&c.story, &k.story}
	}
	return []*story{&c.story, &k.story, &w.story}
}

// attempted keeps the attempt if it is the last one.
func (s *story) attempted(a *Act) {
	last := &s.lastWrite
	if a.What == ActLost {
		last = &s.lastFailed
	}
	if *last == nil || !a.At.Before((*last).At) {
		*last = a
	}
}

func (n *Counts) add(k ActKind) {
	switch k {
	case ActAcquired:
		n.Acquisitions++
	case ActTakeover:
		n.Acquisitions++
		n.Takeovers++
	case ActDoubleGrant:
		n.Acquisitions++
		n.DoubleGrants++
	case ActLost:
		n.Failed++
	case ActClobber:
		n.Failed++
		n.Clobbers++
	case ActGhost:
		n.Failed++
		n.Ghosts++
	case ActGetsetFirst:
		n.GetsetFirst++
	case ActReleased:
		n.Releases++
	case ActOverrun:
		n.Overruns++
	case ActForeignExpire:
		n.ForeignExpires++
	case ActGuard:
		n.Guards++
	case ActTombstone:
		n.Tombstones++
	}
}

// held records that a hold ended.
func (c *Census) held(k *keyState, w *writer, h Hold) {
	// A job is measured where its own release was seen. Polls see when a value
	// is gone, which may be long after its holder was killed.
	longest := &c.jobs.longest
	if h.Source == SourcePoll {
		longest = &c.jobs.polled
	}
	if *longest == nil || h.For > (*longest).For {
		*longest = &h
	}
	if w != nil {
		w.holds.add(h.For)
	}
	c.jobs.holds = append(reading.Bounded(c.jobs.holds, mostHolds), h)
	c.ended = append(c.ended, h)
}
