package polite

import (
	"container/list"
	"math/rand/v2"
	"sync"
	"time"
)

// Memory is what one process knows of the keys it works on. All instants are
// readings of one clock of elapsed time. Its methods are safe for concurrent use.
//
// Each process counts the time for which it held a key itself, and begins
// somewhere within the first span. So the gaps of any number of processes add up
// to one in each span of work on the key, also where a process lives for one
// lease only and none knows of the others.
type Memory struct {
	gap  time.Duration // for which a key is left
	span time.Duration // of work after which it is left, although nobody was seen
	last time.Duration // how long an old client that was seen counts

	begin func(span time.Duration) time.Duration // where in a span the work on a key begins

	mu     sync.Mutex
	byKey  map[string]*list.Element
	recent *list.List // of *entry, the latest first
}

// Begin draws where in a span a process begins. Tests set it before they make a
// Memory, to be repeatable.
var Begin = func(span time.Duration) time.Duration { return rand.N(span) }

// remembered is for how many keys something is kept; the one that was not worked
// on for longest goes.
const remembered = 4096

// entry is what is known of one key.
type entry struct {
	key     string
	turn    Turn
	held    bool          // since is set
	since   time.Duration // when this process took the key
	worked  time.Duration // for how long it held the key before, since it was last left
	touched time.Duration // when this process last took or released the key, or the end of a gap of its own
	seen    time.Duration // when an old client was seen, or never
}

const never = -time.Duration(1 << 62)

// NewMemory returns the Memory of a process beside old clients with this poll and
// this greatest lease. An old client that was seen counts for that lease. In a
// simulation nothing is drawn, so that it can be repeated.
func NewMemory(poll, greatest time.Duration, simulated bool) *Memory {
	gap := Gap(poll)
	m := &Memory{gap: gap, span: Span(gap), last: greatest, byKey: map[string]*list.Element{}, recent: list.New(), begin: Begin}
	if simulated {
		m.begin = func(time.Duration) time.Duration { return 0 }
	}
	return m
}

// entry returns that of key, made if need be. Called with m.mu held.
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

// Turn is one time for which this process has a key. A nil Turn is that of an
// attempt which may not have taken it: its methods do nothing, and it owes nothing.
type Turn struct {
	m *Memory
	e *entry
}

// Took notes that this process took key by an attempt that was sent at an
// instant. After a pause as long as a gap it begins anew: old clients had their
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

// Ended notes that this process released the key at an instant and left it to
// nobody.
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

// Left notes that this process left the key to old clients. The gap itself is no
// pause after which the work begins anew.
func (t *Turn) Left(at time.Duration) {
	if t == nil {
		return
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	e := t.e
	e.held, e.worked, e.touched = false, 0, max(e.touched, at+t.m.gap)
}

// Owes returns for how long the key is to be left to old clients if it is released
// now; zero: not at all. Beside an old client that was seen within the greatest
// lease, each release owes it. Beside none that was seen, one after each span of
// work does.
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

// Met notes that another process left key to old clients. Two gaps behind each
// other are of no use.
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

// holding is how long the key has been held.
func (e *entry) holding(now time.Duration) time.Duration {
	if !e.held {
		return 0
	}
	return max(now-e.since, 0)
}
