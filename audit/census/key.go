package census

import (
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// keyState is one key as the events left it.
type keyState struct {
	id keyID
	// known says that exists and value are what stands on the server.
	known, exists bool
	value         string
	// learnt is the look that known rests on, commanded the last command: sources are late now and then,
	// and what is older than the other kind of news is not to be set beside it.
	learnt, commanded time.Time
	// ends is when the server's own TTL may have ended it; zero without one.
	ends time.Time

	holder   *holding
	replaced []*holding // whose lock went to another, and who has not released since; bounded
	pending  *pending
	// getsets counts, by address, GETSETs in a row without a SETNX of that host between.
	getsets map[string]int
	tried   map[string]bool // addresses that tried for the lock themselves

	polled polled

	live    Found     // what old clients read and let stand
	asked   time.Time // a client read the key while its value was unknown here
	askedBy string
	attempt time.Time // the last by an old client
	perhaps string    // a value that may be a getsetlock client's without its PX

	last       time.Time
	dialects   []string
	counts     Counts
	lastWrite  *Act
	lastFailed *Act
	longest    *Hold
	noTTL      bool
	timeline   []Act
	earlier    int64
}

// holding is a client that believes that it holds.
type holding struct {
	addr   string // empty where polls saw it
	value  string
	expiry time.Time // by the client's clock; zero without a stamp
	since  time.Time
	script bool
	lease  time.Duration
	ahead  time.Duration // the clock was ahead by so much at least when the lock was won; 0 if unknown
	// taken: another won the lock while this one was believed.
	taken bool
}

// pending is an attempt of which nobody knows yet whether it won.
type pending struct {
	addr  string
	value string
	read  reading.Reading
	at    time.Time
}

// polled is the last look at a key.
type polled struct {
	at, first time.Time // of the last look, and of the first that showed this value
	before    time.Time // of the last look that did not
	exists    bool
	value     string
	counted   bool          // the value was counted as an old client's
	moved     time.Duration // how far the server's clock stepped since the last look, either way
}

const mostReplaced = 8

// key finds or makes a key's state.
func (c *Census) key(id keyID, at time.Time) *keyState {
	k := c.keys[id]
	if k == nil {
		if len(c.keys) >= c.cfg.MaxKeys {
			c.forgetKey()
		}
		k = &keyState{id: id, getsets: map[string]int{}, tried: map[string]bool{}}
		c.keys[id] = k
		c.sorted = c.sorted[:0]
	}
	k.last = latest(k.last, at)
	return k
}

// forgetKey drops the key on which nothing happened for longest, of two the first by name.
func (c *Census) forgetKey() {
	var oldest *keyState
	for _, k := range c.keys {
		if oldest == nil || k.last.Before(oldest.last) || k.last.Equal(oldest.last) && before(k.id, oldest.id) {
			oldest = k
		}
	}
	if oldest == nil {
		return
	}
	delete(c.keys, oldest.id)
	c.sorted = c.sorted[:0]
	for _, w := range c.writers {
		delete(w.waiting, oldest.id)
		delete(w.seen, oldest.id)
	}
	c.goneKeys++
}

func before(a, b keyID) bool { return a.db < b.db || a.db == b.db && a.name < b.name }

// unknown forgets what stands on the key and who holds: nobody looked for a while. Who waits still does.
func (k *keyState) unknown() {
	k.known, k.holder, k.replaced, k.pending = false, nil, nil, nil
	clear(k.getsets)
}

// at lets the server's TTL end the key. It ended between two events, so who holds goes with it.
func (k *keyState) at(now time.Time) {
	if now.Before(k.learnt) {
		// The look behind known is younger than this: what stood there before it is not known.
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

// stands notes the value that a command left.
func (k *keyState) stands(value string) {
	k.asked = time.Time{}
	k.known, k.exists, k.value, k.ends = true, true, value, time.Time{}
	k.noTTL = true
}

func (k *keyState) free() {
	k.asked = time.Time{}
	k.known, k.exists, k.value, k.ends, k.noTTL = true, false, "", time.Time{}, false
}

// reply is what a GET returns, if that is known.
func (k *keyState) reply() (dialect.Reply, bool) {
	if !k.exists {
		return dialect.Nil(), k.known
	}
	return dialect.Text(k.value), k.known
}

// lose moves the holder to those whose lock went to another.
func (k *keyState) lose() {
	k.replaced = append(reading.Bounded(k.replaced, mostReplaced), k.holder)
	k.holder = nil
}

// take makes somebody the holder. One who still believes to hold is replaced, another belief of the
// same client is given up.
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

// belief finds who releases: that address, or another connection of the host of one who holds, if this one
// never tried for the lock itself (clients that take a connection from a pool for each command).
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
	// A value that a dialect on the list reads too is no mixture: which of several it is may be open.
	for _, d := range ds {
		if slices.Contains(k.dialects, d.Name) {
			return
		}
	}
	if len(ds) > 0 && len(k.dialects) < mostWriterKeys {
		k.dialects = append(k.dialects, ds[0].Name)
	}
}

// try remembers who tries, within bounds.
func (k *keyState) try(addr string) {
	if len(k.tried) >= mostActs {
		clear(k.tried)
	}
	k.tried[addr] = true
}

// act notes what happened, on the key, with its client, in the sums.
func (c *Census) act(k *keyState, w *writer, a Act) {
	a.DB, a.Key = k.id.db, k.id.name
	a.Value = a.Value[:min(len(a.Value), 256)]
	if who, ok := c.clients[a.Addr]; ok {
		a.Name, a.Library = who.Name, who.Library
	}
	if w != nil && a.Dialect == "" {
		a.Dialect = w.dialect().Name
	}
	all := []*Counts{&c.counts, &k.counts}
	if w != nil {
		all = append(all, &w.counts)
	}
	for _, n := range all {
		n.add(a.What)
	}
	if a.What == ActDoubleGrant {
		c.doubles = append(reading.Bounded(c.doubles, mostActs), a)
	}
	if a.What.attempt() {
		c.attempted(k, w, a)
	}
	if a.What == ActLost {
		return
	}
	if len(k.timeline) >= mostActs {
		k.earlier++
	}
	k.timeline = append(reading.Bounded(k.timeline, mostActs), a)
}

// attempted keeps the last write, or the last attempt that wrote nothing.
func (c *Census) attempted(k *keyState, w *writer, a Act) {
	keep := func(p **Act) {
		if *p == nil || !a.At.Before((*p).At) {
			*p = &a
		}
	}
	if a.What == ActLost {
		keep(&c.lastFailed)
		keep(&k.lastFailed)
		if w != nil {
			keep(&w.lastFailed)
		}
		return
	}
	keep(&c.lastWrite)
	keep(&k.lastWrite)
	if w != nil {
		keep(&w.lastWrite)
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

// held notes that a hold ended.
func (c *Census) held(k *keyState, w *writer, h Hold) {
	if c.longest == nil || h.For > c.longest.For {
		c.longest = &h
	}
	if k.longest == nil || h.For > k.longest.For {
		k.longest = &h
	}
	if w != nil {
		w.holds.add(h.For)
	}
	c.holds = append(reading.Bounded(c.holds, mostHolds), h)
	c.ended = append(c.ended, h)
}
