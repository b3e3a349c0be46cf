// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Store is a store of keys in memory that can be made to fail. Its backends
// implement the interfaces of package lock correctly. So a Client can be tested
// without a server, and the kit against backends known to be right or wrong.
type Store struct {
	clock lock.Clock

	mu      sync.Mutex
	keys    map[string]*entry
	queues  map[string][]string
	watches map[string][]*watch
	serial  int64
	armed   map[*grant]func() // func that ends the watch of a grant
	faults  []*Fault
	calls   map[string]int
}

type entry struct {
	token string
	ends  time.Time
}

type watch struct{ fn func() }

// NewStore returns an empty Store. Its keys end by clock.
func NewStore(clock lock.Clock) *Store {
	return &Store{
		clock: clock, keys: map[string]*entry{}, queues: map[string][]string{},
		watches: map[string][]*watch{}, armed: map[*grant]func(){}, calls: map[string]int{},
	}
}

// Fault makes calls of Op fail or wait. An empty Op means every call: with Err
// and Passes set that is a server that is away. An Err that wraps
// [backend.ErrLost] is the store's answer that the grant does not hold the key.
type Fault struct {
	Op    string          // one of "try", "extend", "release", "enter", "leave", "await", "watch"
	Times int             // number of calls; 0 means every call until Mend
	Err   error           // error of the call; nil with Hold set: the call only takes longer
	After bool            // the store did it, but the reply is lost; else the command never arrived
	Hold  <-chan struct{} // the call waits until this is closed, or its context ends
	Late  <-chan struct{} // with After unset: the command reaches the store when this is closed

	// Passes says that Err is trouble that may pass, as a refused connection
	// is: an Acquire then waits. Other trouble ends an Acquire at once, unless
	// the store has said before that the key is held.
	Passes bool
}

// away is an error that says that the trouble may pass.
type away struct{ error }

func (away) Passing() bool   { return true }
func (e away) Unwrap() error { return e.error }

// ops are the calls that can be ordered to fail.
var ops = []string{"try", "extend", "release", "enter", "leave", "await", "watch"}

// Order adds a fault. It applies to the next calls of its Op. If no call has
// such a name, Order panics: a fault that never applies makes a test pass that
// tests nothing.
func (s *Store) Order(f Fault) {
	switch {
	case f.Op != "" && !slices.Contains(ops, f.Op):
		panic(fmt.Sprintf("locktest: Fault.Op is %q; it must be empty, for every call, or one of %q", f.Op,
			ops))
	case f.Passes && f.Err == nil:
		panic("locktest: Fault.Passes is set and Fault.Err is not")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = -1
	}
	if f.Passes {
		f.Err = away{f.Err}
	}
	s.faults = append(s.faults, &f)
}

// Mend removes all faults.
func (s *Store) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Calls returns how often op was called, whether or not it reached the store.
func (s *Store) Calls(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[op]
}

// Holder returns the token that holds key, "" if the key is free.
func (s *Store) Holder(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.live(key); e != nil {
		return e.token
	}
	return ""
}

// Queue returns how many places the store's own queue of key has.
func (s *Store) Queue(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queues[key])
}

// Seize writes token to key for ttl, also if the key is held. An empty token
// frees the key.
func (s *Store) Seize(key, token string, ttl time.Duration) {
	s.mu.Lock()
	if token == "" {
		delete(s.keys, key)
	} else {
		s.keys[key] = &entry{token: token, ends: s.clock.Now().Add(ttl)}
	}
	wake := s.changed(key)
	s.mu.Unlock()
	wake()
}

// Break ends every watch, as a lost connection does.
func (s *Store) Break() {
	s.mu.Lock()
	var fns []func()
	for _, ws := range s.watches {
		for _, w := range ws {
			fns = append(fns, w.fn)
		}
	}
	s.watches = map[string][]*watch{}
	s.mu.Unlock()
	for _, f := range fns {
		f()
	}
}

// live returns the entry of key that has not expired. Called with s.mu held.
func (s *Store) live(key string) *entry {
	e := s.keys[key]
	if e != nil && !s.clock.Now().Before(e.ends) {
		delete(s.keys, key)
		return nil
	}
	return e
}

// changed removes the watches of key. Called with s.mu held. The caller calls
// the result after it has unlocked s.mu.
func (s *Store) changed(key string) func() {
	ws := s.watches[key]
	delete(s.watches, key)
	return func() {
		for _, w := range ws {
			w.fn()
		}
	}
}

// do runs op under the ordered faults. unsure reports that the caller cannot
// know whether op ran.
func (s *Store) do(ctx context.Context, op string, run func()) (err error, unsure bool) {
	s.mu.Lock()
	s.calls[op]++
	var f *Fault
	for i, g := range s.faults {
		if g.Op == op || g.Op == "" {
			f = g
			if g.Times--; g.Times == 0 {
				s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
			}
			break
		}
	}
	s.mu.Unlock()
	if f == nil {
		run()
		return nil, false
	}
	if f.Err == nil || f.After {
		run()
	} else if f.Late != nil {
		go func() { <-f.Late; run() }()
	}
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-ctx.Done():
			return context.Cause(ctx), true
		}
	}
	return f.Err, f.Err != nil && (f.After || f.Late != nil)
}

// Backend returns a backend with none of the optional interfaces.
func (s *Store) Backend() backend.Store { return backend.Of(&plain{s}) }

// Full returns a backend with batches, queue, wake-ups and fencing numbers.
func (s *Store) Full() backend.Store { return backend.Of(&full{plain{s}}) }

// Paced returns a backend that polls at a pace of its own.
func (s *Store) Paced(poll time.Duration) backend.Store { return backend.Of(&paced{plain{s}, poll}) }

type plain struct{ *Store }

func (b *plain) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	return b.take(ctx, "try", key, ttl, "")
}

// take is one attempt. place is the id of a place in the queue, "" without one.
func (s *Store) take(ctx context.Context, op, key string, ttl time.Duration, place string) (backend.Grant,
	error) {
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case key == "":
		return nil, errors.New("key is empty")
	case ttl < time.Millisecond || ttl > 1000*time.Hour:
		return nil, fmt.Errorf("ttl is %v; it must lie between 1ms and 1000h", ttl)
	}
	s.mu.Lock()
	s.serial++
	g := &grant{store: s, key: key, place: place, fence: s.serial, token: fmt.Sprintf("token-%d", s.serial)}
	s.mu.Unlock()
	g.term = backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl}
	var held *backend.HeldError
	err, unsure := s.do(ctx, op, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e := s.live(key); e != nil {
			held = &backend.HeldError{Key: key, Owner: e.token, Left: e.ends.Sub(s.clock.Now())}
			return
		}
		if q := s.queues[key]; len(q) > 0 {
			if q[0] != place {
				held = &backend.HeldError{Key: key, Protocol: "other waiters come first"}
				return
			}
			s.queues[key] = q[1:]
		}
		s.keys[key] = &entry{token: g.token, ends: s.clock.Now().Add(ttl)}
	})
	switch {
	case unsure:
		return nil, &backend.UnsureError{Grant: g, Err: err}
	case err != nil:
		return nil, err
	case held != nil:
		return nil, held
	}
	return g, nil
}

type grant struct {
	store *Store
	key   string
	place string // id of the place that asked for it, "" without one
	token string
	fence int64
	term  backend.Term
}

// bare returns the Store's own grant in one that a backend may have wrapped.
func bare(g backend.Grant) *grant { return g.(interface{ bare() *grant }).bare() }

func (g *grant) bare() *grant       { return g }
func (g *grant) Token() string      { return g.token }
func (g *grant) Term() backend.Term { return g.term }
func (g *grant) Fence() int64       { return g.fence }

var errNotOurs = fmt.Errorf("%w: the store does not hold the key for this grant", backend.ErrLost)

func (g *grant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	term := backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl}
	var lost error
	err, _ := g.store.do(ctx, "extend", func() { lost = g.store.extend(g, ttl) })
	if err = errors.Join(err, lost); err != nil {
		return backend.Term{}, err
	}
	return term, nil
}

func (s *Store) extend(g *grant, ttl time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.live(g.key)
	if e == nil || e.token != g.token {
		return errNotOurs
	}
	e.ends = s.clock.Now().Add(ttl)
	return nil
}

func (g *grant) Release(ctx context.Context) error {
	var lost error
	err, _ := g.store.do(ctx, "release", func() {
		s := g.store
		s.mu.Lock()
		s.unqueue(g.key, g.place) // the place of an attempt with an unknown outcome
		e := s.live(g.key)
		if e == nil || e.token != g.token {
			s.mu.Unlock()
			lost = errNotOurs
			return
		}
		delete(s.keys, g.key)
		wake := s.changed(g.key)
		s.mu.Unlock()
		wake()
	})
	if err != nil {
		return err
	}
	return lost
}

// unqueue takes a place out of its queue. Called with s.mu held.
func (s *Store) unqueue(key, place string) {
	if i := slices.Index(s.queues[key], place); i >= 0 {
		s.queues[key] = slices.Delete(s.queues[key], i, i+1)
	}
}

type paced struct {
	plain
	poll time.Duration
}

func (b *paced) Pace(wait time.Duration) (time.Duration, int) {
	if wait == 0 {
		return b.poll, 0
	}
	return b.poll, int(wait/b.poll) + 1
}
