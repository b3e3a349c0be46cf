package quorum

import (
	"cmp"
	"hash/fnv"
	"slices"
	"sync"
	"time"
)

// crowds are the keys at which this process was refused lately. An attempt at
// such a key asks one member first, the same one in every process, and the
// others only after that one voted. So clients that ask at the same time cannot
// split the votes again and again.
type crowds struct {
	mu   sync.Mutex
	keys map[string]crowd
}

// crowd is what the last refused attempts found at a key.
type crowd struct {
	at    time.Duration // elapsed time of the last refusal
	owner string        // value of the key on the member that was asked first
	since time.Duration // elapsed time when that was first seen; zero: it was not
	real  bool          // a majority had that value
}

// met adds that the member which was asked first has this owner.
func (c crowd) met(owner string, now time.Duration) crowd {
	if c.owner != owner || c.since == 0 {
		return crowd{at: now, owner: owner, since: now}
	}
	c.at = now
	return c
}

// doubtful reports whether the vote on the first member may be all that its
// owner has: a client died while it asked, or could not give that vote back.
func (c crowd) doubtful() bool { return !c.real && c.at-c.since >= ponders }

const (
	// ponders is how long an owner is seen on the first member before the
	// others are asked whether it has more. It is long compared with the time
	// that an attempt takes.
	ponders = 100 * time.Millisecond

	// crowdLasts is how long after a refusal an attempt asks one member first.
	crowdLasts = 2 * time.Second

	// mostCrowds bounds the memory. All are forgotten then, which costs a few
	// split votes.
	mostCrowds = 4096
)

// of returns what is known of key, and whether it is crowded at now.
func (c *crowds) of(key string, now time.Duration) (crowd, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, known := c.keys[key]
	if passed := now - one.at; !known || passed < 0 || passed > crowdLasts {
		delete(c.keys, key)
		return crowd{}, false
	}
	return one, true
}

func (c *crowds) set(key string, one crowd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil || len(c.keys) >= mostCrowds {
		c.keys = make(map[string]crowd)
	}
	c.keys[key] = one
}

// rank returns the members in the order in which attempts at a crowded key ask
// them: by rendezvous hash, which is the same in every process.
func (b *engine) rank(key string) []*member {
	type ranked struct {
		m    *member
		hash uint64
	}
	all := make([]ranked, len(b.members))
	for i, m := range b.members {
		h := fnv.New64a()
		h.Write([]byte(m.id()))
		h.Write([]byte{0})
		h.Write([]byte(key))
		all[i] = ranked{m, mixed(h.Sum64())}
	}
	slices.SortStableFunc(all, func(x, y ranked) int { return cmp.Compare(x.hash, y.hash) })
	members := make([]*member, len(all))
	for i, r := range all {
		members[i] = r.m
	}
	return members
}

// mixed spreads the last bytes of a hash over all its bits. FNV alone would
// rank members by their names for most keys.
func mixed(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
