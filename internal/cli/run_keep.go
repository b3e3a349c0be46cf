package cli

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// keeping is a backend whose locks are not given back before keep has passed since they were taken:
// a release leaves the rest to the key, as its TTL and stamp.
type keeping struct {
	legacy.Backend
	keep  time.Duration
	clock lock.Clock
	off   atomic.Bool // give back at once all the same
}

// backend is what the Client is given: it looks for a Pacer by type assertion, and only Verbatim is
// one. That the hardened one's batches are hidden costs nothing where one lock is held.
func (k *keeping) backend() lock.Backend {
	if p, ok := k.Backend.(lock.Pacer); ok {
		return struct {
			*keeping
			lock.Pacer
		}{k, p}
	}
	return k
}

func (k *keeping) Try(ctx context.Context, key string, ttl time.Duration) (lock.Grant, error) {
	g, err := k.Backend.Try(ctx, key, ttl)
	if err != nil {
		return nil, err // an attempt of unknown outcome is undone wholly, whatever is to be kept
	}
	return &keptGrant{g, k, k.clock.Now().Add(k.keep)}, nil
}

func (k *keeping) Guard(ctx context.Context, g lock.Grant, touched func()) (func(), error) {
	if kept, ok := g.(*keptGrant); ok {
		g = kept.Grant
	}
	return k.Backend.Guard(ctx, g, touched)
}

type keptGrant struct {
	lock.Grant
	keeping *keeping
	end     time.Time
}

// Release leaves the key taken for the rest of its time. The TTL is counted from when the server
// executes the command, so nothing of it is lost on the way.
func (g *keptGrant) Release(ctx context.Context) error {
	rest := g.end.Sub(g.keeping.clock.Now())
	if rest < time.Millisecond || g.keeping.off.Load() {
		return g.Grant.Release(ctx)
	}
	_, err := g.Extend(ctx, rest)
	if errors.Is(err, lock.ErrNotRenewable) {
		return nil // verbatim: what it wrote says until when, which is later
	}
	return err
}
