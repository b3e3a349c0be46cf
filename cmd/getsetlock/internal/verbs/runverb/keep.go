package runverb

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// keepable is what a backend has in both protocols.
type keepable interface {
	lock.Backend
	lock.Tuned
	lock.Waker
	io.Closer
}

// keeping is a backend whose locks are not given back before keep has passed since they were taken:
// a release leaves the rest to the key, as its TTL and, beside old clients, its stamp.
type keeping struct {
	keepable
	keep  time.Duration
	clock lock.Clock
	off   atomic.Bool // give back at once all the same
}

// backend is what the Client is given, which looks for more by type assertion: only the old client's
// is a Pacer, and only the token's a Queuer. That batches and hand-overs are hidden costs nothing
// where one lock is held.
func (k *keeping) backend() lock.Backend {
	switch b := k.keepable.(type) {
	case lock.Pacer:
		return struct {
			*keeping
			lock.Pacer
		}{k, b}
	case lock.Queuer:
		return &keepingQueue{k, b}
	}
	return k
}

func (k *keeping) Try(ctx context.Context, key string, ttl time.Duration) (lock.Grant, error) {
	return k.kept(k.keepable.Try(ctx, key, ttl))
}

// kept is a grant that is kept. An attempt of unknown outcome is undone wholly, whatever is to be kept.
func (k *keeping) kept(g lock.Grant, err error) (lock.Grant, error) {
	if err != nil {
		return nil, err
	}
	return &keptGrant{g, k, k.clock.Now().Add(k.keep)}, nil
}

func (k *keeping) Watch(ctx context.Context, gs []lock.Grant, holders []interface{ Touched() }) []error {
	inner := make([]lock.Grant, len(gs))
	for i, g := range gs {
		inner[i] = inside(g)
	}
	return k.keepable.Watch(ctx, inner, holders)
}

func (k *keeping) Unwatch(g lock.Grant) { k.keepable.Unwatch(inside(g)) }

// Timeout is not known of a release that extends.
func (k *keeping) Timeout() time.Duration { return 0 }

func inside(g lock.Grant) lock.Grant {
	if kept, ok := g.(*keptGrant); ok {
		return kept.Grant
	}
	return g
}

// keepingQueue is keeping where waiters stand in a line on the server.
type keepingQueue struct {
	*keeping
	queuer lock.Queuer
}

func (k *keepingQueue) Enter(ctx context.Context, key string) (lock.Place, error) {
	p, err := k.queuer.Enter(ctx, key)
	if err != nil {
		return nil, err
	}
	return &keptPlace{p, k.keeping}, nil
}

type keptPlace struct {
	lock.Place
	keeping *keeping
}

func (p *keptPlace) Try(ctx context.Context, ttl time.Duration) (lock.Grant, error) {
	return p.keeping.kept(p.Place.Try(ctx, ttl))
}

type keptGrant struct {
	lock.Grant
	keeping *keeping
	end     time.Time
}

// Fence is the grant's, where it has one.
func (g *keptGrant) Fence() int64 {
	if f, ok := g.Grant.(lock.Fenced); ok {
		return f.Fence()
	}
	return 0
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
