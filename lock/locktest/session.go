package locktest

import (
	"context"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// session is a backend whose leases live as long as it does.
type session struct {
	full
	ttl time.Duration

	mu     sync.Mutex
	ended  bool
	grants []*grant
}

// Session returns a backend whose leases live as long as a session with the
// store, whatever TTL is asked for. The session lives for ttl after the last
// sign of life, which an Extend is. etcd and ZooKeeper have such leases. end
// makes the store end the session: all its keys are free at once.
func (s *Store) Session(ttl time.Duration) (b lock.Backend, end func()) {
	open := &session{full: full{plain{s}}, ttl: ttl}
	return open, open.end
}

func (s *session) end() {
	s.mu.Lock()
	s.ended = true
	grants := s.grants
	s.mu.Unlock()
	for _, g := range grants {
		_ = g.Release(context.Background())
	}
}

// Try takes a key for as long as the session lives.
func (s *session) Try(ctx context.Context, key string, ttl time.Duration) (lock.Grant, error) {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if ended {
		return nil, errNotOurs
	}
	g, err := s.take(ctx, "try", key, min(ttl, s.ttl), "")
	if err != nil {
		return nil, err
	}
	held := g.(*grant)
	held.term.TTL = s.ttl
	if err := s.extend(held, s.ttl); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.grants = append(s.grants, held)
	s.mu.Unlock()
	return &sessionGrant{held, s}, nil
}

// ExtendAll is a sign of life.
func (s *session) ExtendAll(ctx context.Context, gs []lock.Grant, _ time.Duration) ([]lock.Term, []error) {
	inner := make([]lock.Grant, len(gs))
	for i, g := range gs {
		inner[i] = g.(*sessionGrant).grant
	}
	return s.full.ExtendAll(ctx, inner, s.ttl)
}

// Watch also reports the end of the session.
func (s *session) Watch(ctx context.Context, gs []lock.Grant, holders []interface{ Touched() }) []error {
	inner := make([]lock.Grant, len(gs))
	for i, g := range gs {
		inner[i] = g.(*sessionGrant).grant
	}
	return s.full.Watch(ctx, inner, holders)
}

// Unwatch ends a watch.
func (s *session) Unwatch(g lock.Grant) { s.full.Unwatch(g.(*sessionGrant).grant) }

// Pass returns ErrNotPassed: a session cannot pass a grant on.
func (s *session) Pass(context.Context, lock.Grant, time.Duration) (lock.Grant, error) {
	return nil, lock.ErrNotPassed
}

type sessionGrant struct {
	*grant
	session *session
}

func (g *sessionGrant) Extend(ctx context.Context, _ time.Duration) (lock.Term, error) {
	return g.grant.Extend(ctx, g.session.ttl)
}
