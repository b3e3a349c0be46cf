// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/getsetlock/getsetlock/internal/sessions"
)

// keeper looks after a session until it is over: for waiters, for keys that
// must not exist, and for grants that are not extended any more. Held leases
// are extended by their Client, mostly before the keeper has to.
func (s *session) keeper() {
	for {
		select {
		case <-s.b.cfg.Clock.After(sessions.Round(s.ttl)):
		case <-s.Done():
			return
		case <-s.b.Life.Done():
			return
		}
		s.Sweep()
		if s.age() >= s.ttl*2/5 {
			s.keepFor(s.ttl / 4)
		}
		s.settle()
		s.rest()
	}
}

// keepFor renews the session, unless that was done meanwhile.
func (s *session) keepFor(wait time.Duration) {
	ctx, cancel := context.WithTimeout(s.b.Life, wait)
	defer cancel()
	if s.Begin(ctx) != nil {
		return
	}
	defer s.Yield()
	if s.age() >= s.ttl/4 {
		_, _ = s.renew(ctx) // tried again at the next round
	}
}

// mostSettled is how many keys one round of the keeper deletes.
const mostSettled = 32

// settle deletes keys that must not exist. A key that was never seen may still
// be on its way. If it has not come within three TTLs, the session is retired:
// its revocation is the only proof.
func (s *session) settle() {
	s.Lock()
	some, now := s.Strays(), s.Now()
	late := slices.ContainsFunc(some, func(g *grant) bool { return g.rev == 0 && now-g.Since() > 3*s.ttl })
	s.Unlock()
	if late {
		s.b.Retire(s)
	}
	ctx, cancel := s.b.within(s.b.Life, s.ttl/6)
	defer cancel()
	for _, g := range some[:min(len(some), mostSettled)] {
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

// rest retires a session that is not used, and revokes a retired one when
// nothing needs it. Keys that are known to exist are deleted first, by settle.
func (s *session) rest() {
	switch idle, done := s.Rest(s.ttl, func(g *grant) bool { return g.rev != 0 }); {
	case idle:
		s.b.Retire(s)
	case done:
		ctx, cancel := s.b.within(s.b.Life, s.ttl/6)
		defer cancel()
		if s.revoke(ctx) == nil {
			s.end()
		}
	}
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
	holds := s.Leave()
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
