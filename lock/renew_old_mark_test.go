package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// lagging is a backend whose trust counts from 15 s before the present, as that
// of a store where only an earlier write proves something.
type lagging struct {
	lock.Backend
	extends atomic.Int32
}

type laggingGrant struct {
	lock.Grant
	b *lagging
}

func (b *lagging) Try(ctx context.Context, key string, ttl time.Duration) (lock.Grant, error) {
	g, err := b.Backend.Try(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	return &laggingGrant{g, b}, nil
}

func (g *laggingGrant) Extend(ctx context.Context, ttl time.Duration) (lock.Term, error) {
	g.b.extends.Add(1)
	term, err := g.Grant.Extend(ctx, ttl)
	term.Sent.Elapsed -= 15 * time.Second
	term.Sent.Wall = term.Sent.Wall.Add(-15 * time.Second)
	return term, err
}

// The renewal that such a term asks for is due before the reply came. Without a
// pause the scheduler would ask again at once, for ever.
func TestRenewalPausesWhereTrustLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &lagging{Backend: locktest.NewStore(lock.Machine).Backend()}
		client, err := lock.New(b, lock.Config{TTL: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := client.Acquire(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if n := b.extends.Load(); n < 10 || n > 150 || lease.Err() != nil {
			t.Errorf("%d renewals in ten TTLs, lease: %v", n, lease.Err())
		}
		_ = lease.Release()
		if err := client.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
