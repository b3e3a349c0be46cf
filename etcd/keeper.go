package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// keeper looks after a session until it is over: for waiters, for keys that
// must not exist, and for grants that are not extended any more. Held leases
// are extended by their Client, mostly before the keeper has to.
func (s *session) keeper() {
	for {
		select {
		case <-s.b.cfg.Clock.After(s.ttl / 12):
		case <-s.done:
			return
		case <-s.b.life.Done():
			return
		}
		s.sweep()
		if s.age() >= s.ttl*2/5 {
			s.keepFor(s.ttl / 4)
		}
		s.settle()
		s.rest()
	}
}

// keepFor renews the session, unless that was done meanwhile.
func (s *session) keepFor(wait time.Duration) {
	ctx, cancel := context.WithTimeout(s.b.life, wait)
	defer cancel()
	if s.begin(ctx) != nil {
		return
	}
	defer func() { <-s.turn }()
	if s.age() >= s.ttl/4 {
		_, _ = s.renew(ctx) // tried again at the next round
	}
}

// sweep gives up the keys of grants that were not extended for their TTL.
func (s *session) sweep() {
	var gone []*grant
	now := s.now()
	s.mu.Lock()
	for g := range s.grants {
		if now >= g.keep {
			gone = append(gone, g)
		}
	}
	s.mu.Unlock()
	for _, g := range gone {
		s.mu.Lock()
		g.late = true
		s.mu.Unlock()
		s.abandon(g)
	}
}

// mostSettled is how many keys one round of the keeper deletes.
const mostSettled = 32

// settle deletes keys that must not exist. A key that was never seen may still
// be on its way. If it has not come within three TTLs, the session is retired:
// its revocation is the only proof.
func (s *session) settle() {
	var some []*grant
	late := false
	now := s.now()
	s.mu.Lock()
	for g, since := range s.strays {
		late = late || g.rev == 0 && now-since > 3*s.ttl
		if len(some) < mostSettled {
			some = append(some, g)
		}
	}
	s.mu.Unlock()
	if late {
		s.retire()
	}
	ctx, cancel := context.WithTimeout(s.b.life, s.ttl/6)
	defer cancel()
	for _, g := range some {
		if err := s.settleOne(ctx, g); err != nil {
			return
		}
	}
}

// settleOne deletes a key that must not exist. It looks first, since a read
// costs etcd no write.
func (s *session) settleOne(ctx context.Context, g *grant) error {
	got, err := s.b.client.Get(ctx, g.key)
	if err != nil {
		return err
	}
	found := false
	if len(got.Kvs) > 0 && string(got.Kvs[0].Value) == g.value {
		if found, err = s.remove(ctx, g); err != nil {
			return err
		}
	}
	if found || g.exists() {
		s.free(g)
	}
	return nil
}

// idleTTLs is how many TTLs a session without keys is kept.
const idleTTLs = 10

// rest retires a session that is not used, and revokes a retired one when
// nothing needs it.
func (s *session) rest() {
	s.mu.Lock()
	needed := len(s.grants)+len(s.places) > 0
	idle := !needed && len(s.strays) == 0 && s.now()-s.used > idleTTLs*s.ttl
	retired := s.retired
	// Keys that are known to exist are deleted first, by settle.
	for g := range s.strays {
		needed = needed || g.rev != 0
	}
	s.mu.Unlock()
	switch {
	case idle && !retired:
		s.retire() // an attempt may have the session already; it is revoked a round later
		s.mu.Lock()
		s.used = s.now() - (idleTTLs-1)*s.ttl
		s.mu.Unlock()
	case retired && !needed && s.unused():
		ctx, cancel := context.WithTimeout(s.b.life, s.ttl/6)
		defer cancel()
		if s.revoke(ctx) == nil {
			s.end()
		}
	}
}

// unused reports whether no attempt is under way with the session.
func (s *session) unused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys) == len(s.strays)
}

func (s *session) revoke(ctx context.Context) error {
	_, err := s.b.client.Revoke(ctx, s.id)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}

// close revokes a session that holds no lock.
func (s *session) close() error {
	s.mu.Lock()
	holds := len(s.grants) > 0
	s.mu.Unlock()
	ctx, cancel := s.b.call(context.Background())
	defer cancel()
	if holds {
		s.settle()
		return nil
	}
	if err := s.revoke(ctx); err != nil {
		return trouble("revoke the lease of", s.sample, err)
	}
	s.end()
	return nil
}
