package locktest

import (
	"context"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// Session is a backend whose leases live as long as a session with the store does, whatever TTL is asked
// for: an Extend is a sign of life, and all of them end together. Stores with such leases are etcd and
// ZooKeeper.
type Session struct {
	full
	ttl time.Duration

	mu     sync.Mutex
	ended  bool
	grants []*grant
}

// Session opens one that lives for ttl after its last sign of life.
func (s *Store) Session(ttl time.Duration) *Session {
	return &Session{full: full{plain{s}}, ttl: ttl}
}

// End is the store's word that the session is over: every key of it is free at once.
func (s *Session) End() {
	s.mu.Lock()
	s.ended = true
	grants := s.grants
	s.mu.Unlock()
	for _, g := range grants {
		_ = g.Release(context.Background())
	}
}

// Try takes a key for as long as the session lives.
func (s *Session) Try(ctx context.Context, key string, ttl time.Duration) (lock.Grant, error) {
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
func (s *Session) ExtendAll(ctx context.Context, gs []lock.Grant, _ time.Duration) ([]lock.Term, []error) {
	inner := make([]lock.Grant, len(gs))
	for i, g := range gs {
		inner[i] = g.(*sessionGrant).grant
	}
	return s.full.ExtendAll(ctx, inner, s.ttl)
}

// Guard tells of the session's end too.
func (s *Session) Guard(ctx context.Context, g lock.Grant, touched func()) (func(), error) {
	return s.full.Guard(ctx, g.(*sessionGrant).grant, touched)
}

// Pass is nothing that a session can do.
func (s *Session) Pass(context.Context, lock.Grant, time.Duration) (lock.Grant, error) {
	return nil, lock.ErrNotPassed
}

type sessionGrant struct {
	*grant
	session *Session
}

func (g *sessionGrant) Extend(ctx context.Context, _ time.Duration) (lock.Term, error) {
	return g.grant.Extend(ctx, g.session.ttl)
}
