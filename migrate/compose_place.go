// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// First is Try.
func (c *composedEngine) First(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	return c.Try(ctx, key, ttl)
}

// Enter takes a place in the target's queue, in phase clean alone. Before that
// the old clients' key has no queue, and a waiter that held the target's first
// place while an old client holds would keep all others from looking. The error
// then wraps errors.ErrUnsupported, and waiting goes on without a place.
func (c *composedEngine) Enter(ctx context.Context, key string) (backend.Place, error) {
	q, ok := c.target.(backend.Queuer)
	if !ok {
		return nil, fmt.Errorf("migrate: the target, a %T, has no queue: %w", c.target, errors.ErrUnsupported)
	}
	p, err := c.bridge.cfg.Phases.Phase(ctx)
	switch {
	case err != nil:
		return nil, err
	case p != Clean:
		return nil, fmt.Errorf("migrate: in phase %v waiters have no queue: %w", p, errors.ErrUnsupported)
	}
	place, err := q.Enter(ctx, key)
	if err != nil {
		return nil, err
	}
	return &composedPlace{c: c, key: key, there: place}, nil
}

// composedPlace is a place in the target's queue. If the fleet begins anew
// after clean, the place is left. If the grant of the place is undone because
// the member was silent, the place is used up. Then the waiter tries without
// one.
type composedPlace struct {
	c     *composedEngine
	key   string
	there backend.Place // nil: left or used up
}

// Try makes an attempt from the place.
func (p *composedPlace) Try(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	a, err := p.c.bridge.begin(ctx, p.key, ttl)
	if err != nil {
		return nil, err
	}
	if a.phase != Clean {
		if err := p.Leave(ctx); err != nil {
			a.Close()
			return nil, err
		}
	}
	return p.c.try(ctx, p.key, ttl, a, func(asked time.Duration) (backend.Grant, error) {
		if p.there == nil {
			return p.c.target.Try(ctx, p.key, asked)
		}
		grant, err := p.there.Try(ctx, asked)
		var unsure *backend.UnsureError
		if err == nil || errors.As(err, &unsure) {
			p.there = nil
		}
		return grant, err
	})
}

// Await is the target's, or that of both without a place.
func (p *composedPlace) Await(ctx context.Context, wake func()) (func(), bool, error) {
	if p.there == nil {
		return p.c.Await(ctx, p.key, wake)
	}
	return p.there.Await(ctx, wake)
}

// Leave gives up the place.
func (p *composedPlace) Leave(ctx context.Context) error {
	if p.there == nil {
		return nil
	}
	if err := p.there.Leave(ctx); err != nil {
		return err
	}
	p.there = nil
	return nil
}
