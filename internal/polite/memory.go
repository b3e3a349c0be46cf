// SPDX-License-Identifier: Apache-2.0

package polite

import (
	"container/list"
	"math/rand/v2"
	"sync"
	"time"
)

// Memory is what one process knows of the keys on which it works: for how long
// it held each, and when it saw an old client there. All instants are readings
// of one clock of elapsed time. Its methods are safe for concurrent use.
//
// A gap is the time for which a release leaves a key to old clients. A span is
// the time of work on a key between two gaps, if no old client was seen. Each
// process counts only its own time of work, and begins to count at a random
// point of the first span. So any number of processes together leave one gap in
// each span of work on the key. That holds even if each process lives for one
// lease only and knows of no other.
type Memory struct {
	gap  time.Duration // how long a key is left to old clients
	span time.Duration // how much work there is between two gaps if no old client was seen
	last time.Duration // how long after it was seen an old client still counts

	begin func(span time.Duration) time.Duration // draws where in a span the work on a key begins

	mu     sync.Mutex
	byKey  map[string]*list.Element
	recent *list.List // *entry values, the one used last first
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
	held    bool          // this process has the key, and since is set
	since   time.Duration // when this process took the key
	worked  time.Duration // work since the last gap, without the present hold; begins at a random value
	touched time.Duration // when this process last took or released the key, or when its own gap ends
	seen    time.Duration // when an old client was seen, or never
}

// never is earlier than any instant.
const never = -time.Duration(1 << 62)

// NewMemory returns the Memory of a process that shares keys with old clients
// of this poll and this greatest lease. After an old client was seen, it counts
// for the greatest lease. In a simulation nothing is random, so that the
// simulation can be repeated.
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

// Took notes that this process took key by an attempt sent at that instant. If
// this process had not touched the key for as long as a gap, it begins to count
// anew. Meanwhile old clients had their turn, or other processes worked, which
// count for themselves.
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

// Left notes that this process left the key to old clients at that instant. It
// begins to count anew from zero. The gap itself is not a pause after which
// Took would begin anew.
func (t *Turn) Left(at time.Duration) {
	if t == nil {
		return
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	e := t.e
	e.held, e.worked, e.touched = false, 0, max(e.touched, at+t.m.gap)
}

// Owes returns for how long a release now should leave the key to old clients:
// for a gap, or zero for not at all. While an old client that was seen counts,
// each release owes a gap. Otherwise the first release after each span of work
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
// after that would be of no use, so this process begins to count anew, unless
// it holds the key.
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

// holding returns how long this process has held the key since it last took it;
// zero if it does not hold it.
func (e *entry) holding(now time.Duration) time.Duration {
	if !e.held {
		return 0
	}
	return max(now-e.since, 0)
}
