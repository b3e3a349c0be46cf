// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// deaf is a backend whose attempt wins at the moment its context ends.
type deaf struct {
	backend.Backend
	cancel context.CancelFunc
}

func (d *deaf) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := d.Backend.Try(context.WithoutCancel(ctx), key, ttl)
	d.cancel()
	return g, err
}

func TestAcquireGivesBackAGrantAfterItsContextEnded(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		c := client(t, backend.Of(&deaf{s.Backend().Contract(), cancel}), lock.Config{})
		l, err := c.Acquire(ctx, "k")
		wantErr(t, err, context.Canceled)
		synctest.Wait()
		if h := s.Holder("k"); l != nil || h != "" {
			t.Errorf("lease %v, key left to %q", l, h)
		}
	})
}

// Trust ends a margin before the key does.
func TestReleaseOfALostLeaseGoesOnInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		const ttl = 30 * time.Second
		c := client(t, s.Backend(), lock.Config{TTL: ttl})
		began := time.Now()
		l := acquire(t, c, "k")
		s.Order(locktest.Fault{Op: "extend", Err: errServer})
		<-l.Done()
		s.Order(locktest.Fault{Op: "release", Times: 1, Err: errServer})
		wantErr(t, l.Release(), lock.ErrLost)
		synctest.Wait()
		if time.Since(began) >= ttl {
			t.Fatal("the key ended by itself: the test is wrong")
		}
		if h := s.Holder("k"); h != "" {
			t.Errorf("key left to %q", h)
		}
	})
}
