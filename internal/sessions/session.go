// SPDX-License-Identifier: Apache-2.0

// Package sessions is what the backends on stores with sessions share: etcd,
// whose session is a lease, and ZooKeeper. All keys of one process and one TTL
// live with one session, and one sign of life keeps it for all of them.
//
// A key does not free itself while its session lives. So a [Session] remembers
// each of them until it is certainly gone:
//
//	 Add           Hold                 Free: it is certainly gone
//	────▶ tried ──────────▶ held ─────────────────────────────────────▶ gone
//	        │ Wait            │ its release got no reply, or it was       ▲
//	        ├──▶ waiting      │ not extended for its TTL (Sweep)          │ Free, or End: the
//	        │ no reply        ▼                                           │ session is over
//	        └─────────────▶ stray ────────────────────────────────────────┘
//
// A session is over when its store says so. It is also ended after it was
// retired and no key needs it.
//
// The package is internal, since it serves the modules etcd and zookeeper
// alone. A program may link a newer version of it than these modules were
// released with. So its exported names change as a public package's would:
// compatibly.
package sessions

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

const (
	idleTTLs     = 10              // for which a session without keys is kept
	longestRound = 5 * time.Second // of a keeper
)

// Round is the longest time between two rounds of a keeper. A stray may keep a
// lock from others until the next one, however long the TTL.
func Round(ttl time.Duration) time.Duration { return min(ttl/12, longestRound) }

// ErrOver: the session is over; nothing was done, and nothing of it is left.
var ErrOver = errors.New("the session is over")

// Grant is a backend's grant, or a waiter's place: a type that embeds [Key].
type Grant interface {
	comparable
	base() *Key
}

// Key is what a Session remembers of a grant. It is guarded by the Session's
// mutex.
type Key struct {
	state state
	keep  time.Duration // elapsed time until which it is kept without an Extend
	since time.Duration // elapsed time at which it became a stray
	asked bool          // it became one, for whatever reason
	late  bool          // it became one by Sweep
}

type state int

const (
	tried state = iota
	waiting
	held
	stray // it must not exist, and may
	gone
)

func (k *Key) base() *Key { return k }

func (k *Key) giveUp(now time.Duration) { k.state, k.since, k.asked = stray, now, true }

// Gone reports whether the key certainly does not exist. Called with the
// Session locked, as are the other methods.
func (k *Key) Gone() bool { return k.state == gone }

// Asked reports whether the key was given up: by a release or an attempt of
// unknown outcome, or by Sweep.
func (k *Key) Asked() bool { return k.asked }

// Late reports whether Sweep gave the key up.
func (k *Key) Late() bool { return k.late }

// Since is the elapsed time at which the key was given up.
func (k *Key) Since() time.Duration { return k.since }

// Session is what a session has with any store. A backend's own session embeds
// it. The mutex also guards the fields of that session and of its grants.
type Session[G Grant] struct {
	sync.Mutex
	clock context.Context
	turn  chan struct{} // capacity 1: filled while a sign of life is under way
	done  chan struct{}

	over, retired bool
	used          time.Duration // elapsed time of the last use
	keys          map[G]bool
}

// New returns a session that counts time by the clock of ctx.
func New[G Grant](ctx context.Context) *Session[G] {
	s := &Session[G]{clock: context.WithoutCancel(ctx), turn: make(chan struct{}, 1),
		done: make(chan struct{}), keys: map[G]bool{}}
	s.used = s.Now()
	return s
}

// Read reads the Client's clock.
func (s *Session[G]) Read() backend.Instant { return backend.ReadClock(s.clock) }

// Now reads that clock's elapsed time.
func (s *Session[G]) Now() time.Duration { return s.Read().Elapsed }

// Begin reserves the right to send a sign of life, until Yield.
func (s *Session[G]) Begin(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Yield ends what Begin began.
func (s *Session[G]) Yield() { <-s.turn }

// Done is closed when the session is over.
func (s *Session[G]) Done() <-chan struct{} { return s.done }

// Over reports whether End was called. Called with the Session locked.
func (s *Session[G]) Over() bool { return s.over }

// Use notes that the session is used.
func (s *Session[G]) Use() {
	s.Lock()
	s.used = s.Now()
	s.Unlock()
}

// Add remembers a grant whose attempt begins.
func (s *Session[G]) Add(g G) { s.become(g, tried) }

// Wait notes that g waits in the store's queue. It reports false if g was given
// up, or the session is over.
func (s *Session[G]) Wait(g G) bool { return s.become(g, waiting) }

// Hold notes that g has its lock, and keeps it for ttl. It reports false as
// Wait does.
func (s *Session[G]) Hold(g G, ttl time.Duration) bool {
	s.Lock()
	s.Keep(g, ttl)
	s.Unlock()
	return s.become(g, held)
}

// Keep keeps g for another ttl. Called with the Session locked.
func (s *Session[G]) Keep(g G, ttl time.Duration) { g.base().keep = s.Now() + ttl }

// Stray gives g up: it must not exist, and may.
func (s *Session[G]) Stray(g G) { s.become(g, stray) }

// Free notes that g's key certainly does not exist.
func (s *Session[G]) Free(g G) { s.become(g, gone) }

func (s *Session[G]) become(g G, next state) bool {
	s.Lock()
	defer s.Unlock()
	k, now := g.base(), s.Now()
	s.used = now
	k.asked = k.asked || next == stray
	switch {
	case s.over || next == gone:
		k.state = gone
		delete(s.keys, g)
		return false
	case k.state == gone, k.state == stray && next != stray:
		return false // what was given up is held no more
	case next != stray:
		k.state = next
	case k.state != stray: // else it keeps the time at which it was given up
		k.giveUp(now)
	}
	s.keys[g] = true
	return true
}

// Sweep gives up the grants that were not extended for their TTL.
func (s *Session[G]) Sweep() {
	s.Lock()
	defer s.Unlock()
	now := s.Now()
	for _, g := range s.all(held) {
		if k := g.base(); now >= k.keep {
			k.giveUp(now)
			k.late = true
		}
	}
}

// Leave is for Close: it gives the waiting grants up, and reports whether
// others hold a lock.
func (s *Session[G]) Leave() (holds bool) {
	s.Lock()
	defer s.Unlock()
	for _, g := range s.all(waiting) {
		g.base().giveUp(s.Now())
	}
	return len(s.all(held)) > 0
}

// Held returns the grants that hold a lock. Called with the Session locked.
func (s *Session[G]) Held() []G { return s.all(held) }

// Strays returns the grants that must not exist, and may. Called with the
// Session locked.
func (s *Session[G]) Strays() []G { return s.all(stray) }

func (s *Session[G]) all(in state) (some []G) {
	for g := range s.keys {
		if g.base().state == in {
			some = append(some, g)
		}
	}
	return some
}

// End notes that the session is over, and with it all its keys, which it
// returns. It does not block.
func (s *Session[G]) End() (keys []G) {
	s.Lock()
	defer s.Unlock()
	if s.over {
		return nil
	}
	s.over = true
	for g := range s.keys {
		g.base().state = gone
		keys = append(keys, g)
	}
	clear(s.keys)
	close(s.done)
	return keys
}

// Rest is for the keeper, after each round. idle: the session has had no key
// for long, and is to be retired. done: it was retired and is to be ended.
// needs reports whether a stray needs the session; it is called with the
// Session locked.
func (s *Session[G]) Rest(ttl time.Duration, needs func(G) bool) (idle, done bool) {
	s.Lock()
	defer s.Unlock()
	quiet, needed := s.Now()-s.used, false
	for g := range s.keys {
		needed = needed || g.base().state != stray || needs(g)
	}
	// An attempt may just have got the session, and not added its key yet.
	return !s.retired && len(s.keys) == 0 && quiet > idleTTLs*ttl, s.retired && !needed && quiet > ttl/6
}

func (s *Session[G]) retire() {
	s.Lock()
	s.retired = true
	s.Unlock()
}
