// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// ErrOutside says that a key is not in the member's namespace, so that no phase
// holds for it.
var ErrOutside = errors.New("migrate: the namespace does not own the key")

// strategy is what L carries in a phase.
func (p Phase) strategy() twokey.Strategy {
	switch p {
	case Observe:
		return twokey.Stamp
	case Dual:
		return twokey.Guard
	case Clean:
		return twokey.Nothing
	default:
		return twokey.Tombstone
	}
}

// Try makes one attempt by the present phase. It takes one round trip where the
// key is free or held, and two and the settle for a takeover.
func (b *bridgeEngine) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	if err := b.alone(); err != nil {
		return nil, err
	}
	a, err := b.begin(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	return b.try(ctx, key, ttl, a)
}

// try makes the attempt of an account.
func (b *bridgeEngine) try(ctx context.Context, key string, ttl time.Duration, a *account,
) (backend.Grant, error) {
	asked, err := b.lease(a.phase, ttl, 0)
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("migrate: key %q: %w", key, err)
	}
	g, err := b.Take(ctx, key, twokey.Attempt{Strategy: a.phase.strategy(), TTL: asked, Account: a})
	if err == nil {
		if err = a.counts(ctx, asked); err == nil {
			return g, nil
		}
		err = undone(ctx, g, err)
	}
	if unsure := (*backend.UnsureError)(nil); errors.As(err, &unsure) {
		a.Orphan()
	} else {
		a.Close()
	}
	return nil, err
}

// undone gives back what an attempt has taken that ends with err.
func undone(ctx context.Context, g backend.Grant, err error) error {
	if back := g.Release(ctx); back != nil && !errors.Is(back, backend.ErrLost) {
		return &backend.UnsureError{Grant: g, Err: err}
	}
	return err
}

// ExtendAll renews grants in messages that are sent together, each for as long
// as its phase allows.
func (b *bridgeEngine) ExtendAll(ctx context.Context, grants []backend.Grant, ttl time.Duration,
) ([]backend.Term, []error) {
	own, errs := make([]*twokey.Grant, len(grants)), make([]error, len(grants))
	ttls := make([]time.Duration, len(grants))
	var members keeping
	for i := range grants {
		if errs[i] = members.keeps(ctx, grants[i], ttl); errs[i] != nil {
			continue
		}
		if own[i], errs[i] = b.Own(grants[i]); errs[i] != nil {
			continue
		}
		if errs[i] = own[i].Gone(); errs[i] != nil {
			continue
		}
		g := own[i]
		if ttls[i], errs[i] = b.lease(g.Account().(*account).phase, ttl, g.Held()); errs[i] != nil {
			errs[i] = fmt.Errorf("migrate: key %q: %w", g.Key(), errs[i])
		}
	}
	return b.Renew(ctx, own, ttls, errs), errs
}

// Await arms wake for the keys that the present phase watches.
func (b *bridgeEngine) Await(ctx context.Context, key string, wake func()) (func(), bool, error) {
	p, err := b.cfg.Phases.Phase(ctx)
	if err != nil {
		return nil, false, err
	}
	return b.AwaitBy(ctx, key, p.strategy(), wake)
}
