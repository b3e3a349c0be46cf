package polite

import (
	"container/list"
	"math/rand/v2"
	"sync"
	"time"
)

// Memory is what one process knows of the keys it works on. All instants are
// readings of one clock of elapsed time. Its methods are safe for concurrent
// use.
//
// Each process counts the time for which it held a key itself, and begins at a
// random point of the first span. So any number of processes together leave one
// gap in each span of work on the key. That holds even if each process lives
// for one lease only and knows of no other.
type Memory struct {
	gap  time.Duration // how long a key is left to old clients
	span time.Duration // how much work there is between two gaps if no old client was seen
	last time.Duration // how long an old client that was seen counts

	begin func(span time.Duration) time.Duration // draws where in a span the work on a key begins

	mu     sync.Mutex
	byKey  map[string]*list.Element
	recent *list.List // *entry values, the latest first
}

// Begin draws where in a span a process begins. Tests set it before they make a
// Memory, to be repeatable.
var Begin = func(span time.Duration) time.Duration { return rand.N(span) }

// remembered is for how many keys something is kept. The key not worked on for
// the longest time is dropped first.
const remembered = 4096

// entry is what is known of one key.
type entry struct {
	key     string
	turn    Turn
	held    bool          // since is set
	since   time.Duration // when this process took the key
	worked  time.Duration // for how long it held the key before, since the key was last left
	touched time.Duration // when this process last took or released the key, or the end of its own gap
	seen    time.Duration // when an old client was seen, or never
}

const never = -time.Duration(1 << 62)

// NewMemory returns the Memory of a process that shares keys with old clients
// of this poll and this greatest lease. An old client that was seen counts for
// that lease. In a simulation nothing is random, so that it can be repeated.
func NewMemory(poll, greatest time.Duration, simulated bool) *Memory {
	gap := Gap(poll)
	m := &Memory{gap: gap, span: Span(gap), last: greatest, byKey: map[string]*list.Element{},
		recent: list.New(), begin: Begin}
	if simulated {
		m.begin = func(time.Duration) time.Duration { return 0 }
	}
	return m
}

// entry returns the entry of key, and makes it if needed. m.mu is held.
func (m *Memory) entry(key string) *entry {
	if el := m.byKey[key]; el != nil {
		m.recent.MoveToFront(el)
		return el.Value.(*entry)
	}
	e := &entry{key: key, worked: m.begin(m.span), seen: never, touched: never}
	e.turn = Turn{m, e}
	m.byKey[key] = m.recent.PushFront(e)
	if m.recent.Len() > remembered {
		last := m.recent.Back()
		m.recent.Remove(last)
		delete(m.byKey, last.Value.(*entry).key)
	}
	return e
}

// Turn is one time for which this process has a key. A nil Turn belongs to an
// attempt which may not have taken the key: its methods do nothing, and it owes
// nothing.
type Turn struct {
	m *Memory
	e *entry
}

// Took notes that this process took key by an attempt sent at that instant.
// After a pause as long as a gap, counting begins anew: old clients had their
// turn, or other processes worked, which count for themselves.
func (m *Memory) Took(key string, at time.Duration) *Turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(key)
	if e.touched != never && at-e.touched >= m.gap {
		e.worked = m.begin(m.span)
	}
	e.held, e.since, e.touched = true, at, max(e.touched, at)
	return &e.turn
}

// Ended notes that this process released the key at that instant without
// leaving it to old clients.
func (t *Turn) Ended(at time.Duration) {
	if t == nil {
		return
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	e := t.e
	e.worked += e.holding(at)
	e.held, e.touched = false, max(e.touched, at)
}

// Left notes that this process left the key to old clients. The gap itself is
// not a pause after which counting begins anew.
func (t *Turn) Left(at time.Duration) {
	if t == nil {
		return
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	e := t.e
	e.held, e.worked, e.touched = false, 0, max(e.touched, at+t.m.gap)
}

// Owes returns for how long a release now should leave the key to old clients;
// zero means not at all. If an old client was seen within the greatest lease,
// each release owes that time. Otherwise one release after each span of work
// does.
func (t *Turn) Owes(now time.Duration) time.Duration {
	if t == nil {
		return 0
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	e := t.e
	if e.seen != never && now-e.seen <= t.m.last || e.worked+e.holding(now) >= t.m.span {
		return t.m.gap
	}
	return 0
}

// Met notes that another process left key to old clients. A second gap right
// after that would be of no use.
func (m *Memory) Met(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entry(key); !e.held {
		e.worked = m.begin(m.span)
	}
}

// Saw notes that an old client was seen at key.
func (m *Memory) Saw(key string, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(key)
	e.seen = max(e.seen, at)
}

// holding returns how long the key has been held.
func (e *entry) holding(now time.Duration) time.Duration {
	if !e.held {
		return 0
	}
	return max(now-e.since, 0)
}
