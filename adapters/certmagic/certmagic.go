// SPDX-License-Identifier: Apache-2.0

// Package certmagic lets certmagic (and Caddy) lock by getsetlock, whatever
// keeps the certificates.
//
//	certmagic.Default.Storage = locks.Wrap(certmagic.Default.Storage, client, "certmagic:")
//
// Certificates stay where they are. Only the locks of the storage are replaced,
// such as the lock files of FileStorage: whether those are stale is judged by
// comparing the clocks of two machines, and two processes may take a stale one
// at the same time.
//
// certmagic hears of a lost lock only when it renews the lock, before each
// attempt to get a certificate. The renewal then fails with [lock.ErrLost].
package certmagic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/getsetlock/getsetlock/lock"
)

// Storage is a certmagic.Storage with other locks.
type Storage struct {
	certmagic.Storage
	client *lock.Client
	prefix string

	mu   sync.Mutex
	held map[string]*lock.Lease // by their keys
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// Wrap returns s with locks of client. Their keys begin with prefix.
func Wrap(s certmagic.Storage, client *lock.Client, prefix string) *Storage {
	return &Storage{Storage: s, client: client, prefix: prefix, held: map[string]*lock.Lease{}}
}

// Lock takes the lock name. It waits until ctx ends, and at most for the Wait
// of the Client. As in certmagic's own storage, a free lock is taken even if
// ctx has ended.
func (s *Storage) Lock(ctx context.Context, name string) error {
	if took, err := s.TryLock(context.WithoutCancel(ctx), name); took || err != nil {
		return err
	}
	lease, err := s.client.Acquire(ctx, s.prefix+name)
	if err != nil {
		return err
	}
	s.keep(lease)
	return nil
}

// TryLock takes the lock name if it is free.
func (s *Storage) TryLock(ctx context.Context, name string) (took bool, err error) {
	lease, err := s.client.TryAcquire(ctx, s.prefix+name)
	switch {
	case errors.Is(err, lock.ErrHeld):
		return false, nil
	case err != nil:
		return false, err
	}
	s.keep(lease)
	return true, nil
}

func (s *Storage) keep(l *lock.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[l.Key()] = l
}

// Unlock gives the lock name back. That it was lost before is no error, since
// nothing is left to give back; [lock.Hooks].Lost tells it.
func (s *Storage) Unlock(_ context.Context, name string) error {
	s.mu.Lock()
	lease := s.held[s.prefix+name]
	delete(s.held, s.prefix+name)
	s.mu.Unlock()
	if lease == nil {
		return fmt.Errorf("certmagic: the lock %q is not held", name)
	}
	if err := lease.Release(); err != nil && !errors.Is(err, lock.ErrLost) {
		return err
	}
	return nil
}

// RenewLockLease asks the store whether the lock name is still held, and renews
// it for the TTL of the Client, which renews it from then on by itself.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	lease := s.held[s.prefix+name]
	s.mu.Unlock()
	if lease == nil {
		return fmt.Errorf("certmagic: the lock %q is not held", name)
	}
	return lease.Renew(ctx)
}

// String names the storage, as certmagic's log does.
func (s *Storage) String() string { return fmt.Sprintf("%v, locked by getsetlock", s.Storage) }
