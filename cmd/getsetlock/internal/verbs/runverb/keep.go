// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// keepable is what the backends of all protocols have in common.
type keepable interface {
	backend.Backend
	backend.Advisor
	backend.Waker
	io.Closer
}

// keeping is a backend that leaves each key taken until keep has passed since
// the acquisition. An earlier release stores the remaining time on the key: as
// its TTL and, where old clients share the key, as its stamp.
type keeping struct {
	keepable
	keep  time.Duration
	clock lock.Clock
	off   atomic.Bool // release at once nevertheless
}

// backend returns k as the Client needs it. The Client looks for optional
// interfaces by type assertion: only the legacy backend is a Pacer, and only
// the token backend a Queuer. The wrapper hides batches and hand-overs, which
// do not matter where one lock is held.
func (k *keeping) backend() backend.Backend {
	switch b := k.keepable.(type) {
	case backend.Pacer:
		return struct {
			*keeping
			backend.Pacer
		}{k, b}
	case backend.Queuer:
		return &keepingQueue{k, b}
	}
	return k
}

func (k *keeping) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	return k.kept(k.keepable.Try(ctx, key, ttl))
}

// kept wraps a grant so that its release keeps the key taken. An attempt whose
// outcome is unknown is undone completely.
func (k *keeping) kept(g backend.Grant, err error) (backend.Grant, error) {
	if err != nil {
		return nil, err
	}
	return &keptGrant{g, k, k.clock.Now().Add(k.keep)}, nil
}

func (k *keeping) Watch(ctx context.Context, gs []backend.Grant, holders []interface{ Touched() }) []error {
	inner := make([]backend.Grant, len(gs))
	for i, g := range gs {
		inner[i] = inside(g)
	}
	return k.keepable.Watch(ctx, inner, holders)
}

func (k *keeping) Unwatch(g backend.Grant) { k.keepable.Unwatch(inside(g)) }

// Timeout returns 0, unknown: the backend's own bound does not hold for a
// release that extends the lock.
func (k *keeping) Timeout() time.Duration { return 0 }

func inside(g backend.Grant) backend.Grant {
	if kept, ok := g.(*keptGrant); ok {
		return kept.Grant
	}
	return g
}

// keepingQueue is keeping for a backend that queues waiters on the server.
type keepingQueue struct {
	*keeping
	queuer backend.Queuer
}

func (k *keepingQueue) First(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	return k.kept(k.queuer.First(ctx, key, ttl))
}

func (k *keepingQueue) Enter(ctx context.Context, key string) (backend.Place, error) {
	p, err := k.queuer.Enter(ctx, key)
	if err != nil {
		return nil, err
	}
	return &keptPlace{p, k.keeping}, nil
}

type keptPlace struct {
	backend.Place
	keeping *keeping
}

func (p *keptPlace) Try(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	return p.keeping.kept(p.Place.Try(ctx, ttl))
}

type keptGrant struct {
	backend.Grant
	keeping *keeping
	end     time.Time
}

// Fence returns the fencing number of the grant, and 0 where it has none.
func (g *keptGrant) Fence() int64 {
	if f, ok := g.Grant.(backend.Fenced); ok {
		return f.Fence()
	}
	return 0
}

// Release leaves the key taken for the rest of the keep time. The server counts
// the TTL from when it executes the command, so a slow network does not shorten
// it.
func (g *keptGrant) Release(ctx context.Context) error {
	rest := g.end.Sub(g.keeping.clock.Now())
	if rest < time.Millisecond || g.keeping.off.Load() {
		return g.Grant.Release(ctx)
	}
	_, err := g.Extend(ctx, rest)
	if errors.Is(err, backend.ErrNotRenewable) {
		return nil // verbatim: the stamp on the key already says a later end
	}
	return err
}
