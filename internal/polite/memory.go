package polite

import (
	"container/list"
	"sync"
	"time"
)

// Memory is what one process knows of the keys it works on. All instants are
// readings of one clock of elapsed time. Its methods are safe for concurrent use.
type Memory struct {
	gap  time.Duration // for which a key is left
	span time.Duration // of work after which it is left, although nobody was seen
	last time.Duration // how long an old client that was seen counts

	mu     sync.Mutex
	byKey  map[string]*list.Element
	recent *list.List // of *entry, the latest first
}

// remembered is for how many keys something is kept; the one that was not worked
// on for longest goes.
const remembered = 4096

// entry is what is known of one key.
type entry struct {
	key     string
	busy    bool          // since is set
	since   time.Duration // when the span of work began that has not ended
	worked  time.Duration // length of the spans before, since the key was last left
	touched time.Duration // when this process last worked on the key, or met another that did
	seen    time.Duration // when an old client was seen, or never
}

const never = -time.Duration(1 << 62)

// idle is how long nothing may be heard of a key on which another process works.
// A waiter looks again every 1.25 s at the latest.
const idle = 2 * time.Second

// NewMemory returns the Memory of a process beside old clients with this poll and
// this greatest lease. An old client that was seen counts for that lease.
func NewMemory(poll, greatest time.Duration) *Memory {
	gap := Gap(poll)
	return &Memory{gap: gap, span: Span(gap), last: greatest, byKey: map[string]*list.Element{}, recent: list.New()}
}

// Gap is for how long a key is left.
func (m *Memory) Gap() time.Duration { return m.gap }

// entry returns that of key, made if need be. Called with m.mu held.
func (m *Memory) entry(key string) *entry {
	if el := m.byKey[key]; el != nil {
		m.recent.MoveToFront(el)
		return el.Value.(*entry)
	}
	e := &entry{key: key, seen: never, touched: never}
	m.byKey[key] = m.recent.PushFront(e)
	if m.recent.Len() > remembered {
		last := m.recent.Back()
		m.recent.Remove(last)
		delete(m.byKey, last.Value.(*entry).key)
	}
	return e
}

// touch begins a span of work at an instant, unless one has begun. What was
// worked before a pause is forgotten: old clients had their turn in it.
func (e *entry) touch(at, pause time.Duration) {
	if at-e.touched >= pause {
		e.busy, e.worked = false, 0
	}
	if !e.busy {
		e.busy, e.since = true, at
	}
	e.touched = max(e.touched, at)
}

// Took notes that this process took key by an attempt that was sent at an instant.
func (m *Memory) Took(key string, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(key)
	pause := idle
	if !e.busy {
		pause = m.gap
	}
	e.touch(at, pause)
}

// Met notes that another getsetlock client held key at a look.
func (m *Memory) Met(key string, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(key).touch(at, idle)
}

// Ended notes that a getsetlock client released key at an instant and left it to
// nobody.
func (m *Memory) Ended(key string, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(key)
	if e.busy {
		e.worked += max(at-e.since, 0)
	}
	e.busy, e.touched = false, max(e.touched, at)
}

// Left notes that key is left to old clients, by whichever process: what was
// worked before counts no more.
func (m *Memory) Left(key string, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(key)
	e.busy, e.worked, e.touched = false, 0, max(e.touched, at)
}

// Saw notes that an old client was seen at key.
func (m *Memory) Saw(key string, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(key)
	e.seen = max(e.seen, at)
}

// Owes returns for how long key is to be left to old clients if it is released
// now; zero: not at all. Beside an old client that was seen within the greatest
// lease, each release owes it. Beside none that was seen, one after each span of
// work does.
func (m *Memory) Owes(key string, now time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	el := m.byKey[key]
	if el == nil {
		return 0
	}
	e := el.Value.(*entry)
	worked := e.worked
	if e.busy {
		worked += max(now-e.since, 0)
	}
	if now-e.seen <= m.last || worked >= m.span {
		return m.gap
	}
	return 0
}
