// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// The holder's own Renew fails every 2.5 s, by its context. The store is
// healthy, so the lease must live.
func TestFailingRenewsPostponeNoRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{TTL: 30 * time.Second})
		l := acquire(t, c, "k")
		for range 60 {
			// Plus 0.1 s: a failed planned renewal would be tried again after
			// 2.5 s.
			time.Sleep(2400 * time.Millisecond)
			s.Order(locktest.Fault{Op: "extend", Times: 1, Hold: make(chan struct{}), Err: errServer})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			notErr(t, l.Renew(ctx), lock.ErrLost)
			cancel()
			if left := time.Until(l.Until()); left < 14*time.Second {
				t.Fatalf("trusted for another %v: the renewal after 10 s was postponed", left)
			}
		}
		release(t, l)
	})
}

// While the holder's own Renew waits for an answer, no other renewal is made.
func TestHangingRenewLeavesTimeForTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{TTL: 4 * time.Second})
		l := acquire(t, c, "k")
		s.Order(locktest.Fault{Op: "extend", Times: 1, Hold: make(chan struct{}), Err: errServer})
		notErr(t, l.Renew(t.Context()), lock.ErrLost)
		time.Sleep(time.Minute)
		release(t, l)
	})
}

// A firewall forgot the connection; the next attempt uses a working one.
func TestRenewalWithoutAnswerLeavesTimeForAnother(t *testing.T) {
	for name, backend := range map[string]func(*locktest.Store) backend.Store{
		"alone": (*locktest.Store).Backend, "in batches": (*locktest.Store).Full,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				c := client(t, backend(s), lock.Config{TTL: 4 * time.Second})
				first, second := acquire(t, c, "first"), acquire(t, c, "second")
				s.Order(locktest.Fault{Op: "extend", Times: 2, Hold: make(chan struct{}), Err: errServer})
				time.Sleep(time.Minute)
				synctest.Wait() // no renewal is under way
				release(t, first)
				release(t, second)
			})
		})
	}
}

// spendthrift is a store that grants each key to every caller and remembers
// nothing.
type spendthrift struct{}

func (spendthrift) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	return bare{backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl}}, nil
}

// The holders never release these leases.
func TestClientForgetsLeasesThatEndByThemselves(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, backend.Of(spendthrift{}), lock.Config{TTL: time.Second, RenewEvery: -1})
		const leases = 20_000
		round := func(n int) {
			for i := range n {
				acquire(t, c, fmt.Sprint("key-", n, "-", i))
			}
			time.Sleep(time.Minute)
		}
		round(2000)
		before := memory()
		round(leases)
		if each := (memory() - before) / leases; each > 200 {
			t.Errorf("%d bytes are kept for each lease that ended by itself", each)
		}
	})
}
