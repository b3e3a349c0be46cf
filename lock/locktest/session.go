// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// session is a backend whose leases live as long as it does.
type session struct {
	full
	ttl time.Duration

	mu    sync.Mutex
	ended bool
	held  map[*grant]time.Time // until when a grant is kept without an Extend of its own
	left  map[*grant]bool      // grants that may exist and must not; not confirmed yet

	// For tests: replies to Try are lost, and releases do not arrive.
	cut       bool
	forgetful bool // nothing is put on the list left
}

// errCut is the error of calls whose reply was lost.
var errCut = errors.New("the reply was lost")

// Session returns a backend whose leases live as long as a session with the
// store, whatever TTL is asked for. The session lives for ttl after the last
// sign of life, which an Extend of any of its grants is. So a key whose release
// was not confirmed does not free itself: the session gives it back at a later
// sign of life. etcd and ZooKeeper have such leases. end makes the store end
// the session: all its keys are free at once. The contract of b has a method
// Cut() (heal func()), which is that of [World].
func (s *Store) Session(ttl time.Duration) (b backend.Store, end func()) {
	open := &session{full: full{plain{s}}, ttl: ttl,
		held: map[*grant]time.Time{}, left: map[*grant]bool{}}
	return backend.Of(open), open.end
}

// Cut loses the replies to Try, and all releases, until heal.
func (s *session) Cut() (heal func()) {
	set := func(cut bool) {
		s.mu.Lock()
		s.cut = cut
		s.mu.Unlock()
	}
	set(true)
	return func() { set(false) }
}

func (s *session) end() {
	s.mu.Lock()
	s.ended = true
	grants := slices.Concat(slices.Collect(maps.Keys(s.held)), slices.Collect(maps.Keys(s.left)))
	s.mu.Unlock()
	for _, g := range grants {
		_ = g.Release(context.Background())
	}
}

// Try takes a key for as long as the session lives.
func (s *session) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	s.mu.Lock()
	ended, cut := s.ended, s.cut
	s.mu.Unlock()
	if ended {
		return nil, errNotOurs
	}
	g, err := s.take(ctx, "try", key, ttl, "")
	if err == nil && cut {
		err = &backend.UnsureError{Grant: g, Err: errCut}
	}
	var unsure *backend.UnsureError
	if errors.As(err, &unsure) {
		held := bare(unsure.Grant)
		s.leave(held)
		return nil, &backend.UnsureError{Grant: &sessionGrant{held, s}, Err: unsure.Err}
	}
	if err != nil {
		return nil, err
	}
	held := bare(g)
	held.term.TTL = s.ttl
	if err := s.extend(held, s.ttl); err != nil {
		return nil, err
	}
	s.keep(held)
	return &sessionGrant{held, s}, nil
}

func (s *session) keep(g *grant) {
	s.mu.Lock()
	s.held[g] = s.clock.Now().Add(s.ttl)
	s.mu.Unlock()
}

// leave puts a grant on the list of those that must not exist.
func (s *session) leave(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, g)
	if !s.forgetful {
		s.left[g] = true
	} else {
		s.held[g] = s.clock.Now().Add(1000 * time.Hour)
	}
}

// alive is a sign of life. It keeps the keys of all grants, gives back what is
// on the list, and those that were not extended for a TTL.
func (s *session) alive(extended ...*grant) {
	for _, g := range extended {
		s.keep(g)
	}
	s.mu.Lock()
	var give []*grant
	for g, until := range s.held {
		if !s.clock.Now().Before(until) {
			delete(s.held, g)
			s.left[g] = true
			continue
		}
		_ = s.extend(g, s.ttl) // an error: its next Extend says so too
	}
	for g := range s.left {
		_ = s.extend(g, s.ttl)
		if !s.cut {
			give = append(give, g)
		}
	}
	s.mu.Unlock()
	for _, g := range give {
		if g.Release(context.Background()) == nil {
			s.mu.Lock()
			delete(s.left, g)
			s.mu.Unlock()
		}
	}
}

// ExtendAll is a sign of life.
func (s *session) ExtendAll(ctx context.Context, gs []backend.Grant, _ time.Duration) ([]backend.Term,
	[]error) {
	terms, errs := s.full.ExtendAll(ctx, gs, s.ttl)
	var extended []*grant
	for i, err := range errs {
		if err == nil {
			extended = append(extended, bare(gs[i]))
		}
	}
	if len(extended) > 0 {
		s.alive(extended...)
	}
	return terms, errs
}

// First is Try.
func (s *session) First(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	return s.Try(ctx, key, ttl)
}

// ReleaseIn takes the key out of the session, so that it ends by itself.
func (s *session) ReleaseIn(ctx context.Context, g backend.Grant, rest time.Duration) error {
	mine := bare(g)
	s.mu.Lock()
	cut := s.cut
	delete(s.held, mine)
	s.mu.Unlock()
	if cut {
		return errCut
	}
	return s.full.ReleaseIn(ctx, mine, rest)
}

type sessionGrant struct {
	*grant
	session *session
}

func (g *sessionGrant) Extend(ctx context.Context, _ time.Duration) (backend.Term, error) {
	term, err := g.grant.Extend(ctx, g.session.ttl)
	if err == nil {
		g.session.alive(g.grant)
	}
	return term, err
}

func (g *sessionGrant) Release(ctx context.Context) error {
	g.session.mu.Lock()
	cut := g.session.cut
	g.session.mu.Unlock()
	err := errCut
	if !cut {
		err = g.grant.Release(ctx)
	}
	if err != nil && !errors.Is(err, backend.ErrLost) {
		g.session.leave(g.grant)
		return err
	}
	g.session.mu.Lock()
	delete(g.session.held, g.grant)
	g.session.mu.Unlock()
	return err
}
