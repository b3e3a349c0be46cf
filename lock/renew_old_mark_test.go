// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// lagging is a backend whose trust counts from 15 s before the present, as that
// of a store where only an earlier write proves something.
type lagging struct {
	backend.Backend
	extends atomic.Int32
	granted time.Duration // before the present, from when trust in a new grant counts
}

type laggingGrant struct {
	backend.Grant
	b *lagging
}

func (g *laggingGrant) Term() backend.Term { return ago(g.Grant.Term(), g.b.granted) }

// ago returns a term whose trust counts from so much earlier.
func ago(term backend.Term, earlier time.Duration) backend.Term {
	term.Sent.Elapsed -= earlier
	term.Sent.Wall = term.Sent.Wall.Add(-earlier)
	return term
}

func (b *lagging) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := b.Backend.Try(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	return &laggingGrant{g, b}, nil
}

func (g *laggingGrant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	g.b.extends.Add(1)
	term, err := g.Grant.Extend(ctx, ttl)
	return ago(term, 15*time.Second), err
}

// A lease that is 19.9 s old when it is granted, as that of a client that
// waited in a queue, is trusted for another 7.1 s. A program may end what it
// does under the lock 3 s before trust ends, so the first renewal comes well
// before that.
func TestFirstRenewalOfAnOldTermComesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &lagging{Backend: locktest.NewStore(lock.Machine).Backend().Contract(),
			granted: 19_900 * time.Millisecond}
		c := client(t, backend.Of(b),
			lock.Config{TTL: 30 * time.Second, RenewEvery: 20 * time.Second})
		lease := acquire(t, c, "k")
		time.Sleep(2 * time.Second)
		if b.extends.Load() == 0 {
			t.Error("no renewal in the first 2 s of 7.1")
		}
		_ = lease.Release()
	})
}

// The renewal that such a term asks for is due before the reply came. Without a
// pause the scheduler would ask again at once, for ever.
func TestRenewalPausesWhereTrustLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &lagging{Backend: locktest.NewStore(lock.Machine).Backend().Contract()}
		c := client(t, backend.Of(b), lock.Config{TTL: 30 * time.Second})
		lease := acquire(t, c, "k")
		time.Sleep(5 * time.Minute)
		if n := b.extends.Load(); n < 10 || n > 150 || lease.Err() != nil {
			t.Errorf("%d renewals in ten TTLs, lease: %v", n, lease.Err())
		}
		_ = lease.Release()
	})
}
