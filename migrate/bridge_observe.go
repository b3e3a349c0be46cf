package migrate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// observeGrant is one acquisition in phase observe: a grant of the hardened
// backend, with an account.
type observeGrant struct {
	backend.Grant
	b       *bridgeEngine
	key     string
	account *account
	fence   int64
	counted sync.Once // counts a loss once
}

func (g *observeGrant) Fence() int64 { return g.fence }

func (b *bridgeEngine) tryObserve(ctx context.Context, key string, ttl time.Duration, a *account,
) (backend.Grant, error) {
	a.sending(b, ttl)
	inner, err := b.inner.Try(ctx, key, ttl)
	if err != nil {
		var unsure *backend.UnsureError
		if errors.As(err, &unsure) && unsure.Grant != nil {
			return nil, &backend.UnsureError{
				Grant: &observeGrant{Grant: unsure.Grant, b: b, key: key, account: a}, Err: err}
		}
		return nil, err
	}
	g := &observeGrant{Grant: inner, b: b, key: key, account: a}
	if b.cfg.Fence {
		// The number is drawn while the lock is held, so that every later
		// holder's number is greater.
		l, _ := b.dialect.EncodeKey(key) // as the attempt did
		reply, err := b.numbered(ctx, numberScript, 2, b.counter(legacy.MarkKey(l)), argBlock)
		if err != nil {
			return nil, &backend.UnsureError{
				Grant: g, Err: bridgeTrouble(rawKeys(key, key), "draw a number for", err)}
		}
		g.fence = integer(reply)
	}
	return g, nil
}

func (g *observeGrant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	terms, errs := g.b.ExtendAll(ctx, []backend.Grant{g}, ttl)
	return terms[0], errs[0]
}

// renewObserve renews the grants of phase observe with the given indices.
func (b *bridgeEngine) renewObserve(ctx context.Context, grants []backend.Grant, old []int, ttl time.Duration,
	terms []backend.Term, errs []error) {
	asked, err := b.lease(Observe, ttl, 0)
	inner := make([]backend.Grant, len(old))
	for n, i := range old {
		g := grants[i].(*observeGrant)
		g.account.sending(b, asked)
		inner[n] = g.Grant
	}
	if err != nil {
		for _, i := range old {
			errs[i] = fmt.Errorf("migrate: key %q: %w", grants[i].(*observeGrant).key, err)
		}
		return
	}
	got, said := b.inner.ExtendAll(ctx, inner, asked)
	for n, i := range old {
		terms[i], errs[i] = got[n], grants[i].(*observeGrant).told(said[n])
	}
}

// told returns err. If err is a loss, it counts it once and awaits the end of
// the account.
func (g *observeGrant) told(err error) error {
	if lost := lossOf(err); lost != nil {
		g.counted.Do(func() { g.b.count.lost(lost) })
		g.b.orphan(g.account)
	}
	return err
}

func (g *observeGrant) Release(ctx context.Context) error { return g.released(g.Grant.Release(ctx)) }

// released closes the account after a release, or awaits its end where the
// outcome is unknown.
func (g *observeGrant) released(err error) error {
	err = g.told(err)
	switch {
	case err == nil, errors.Is(err, backend.ErrLost):
		g.account.close()
	default:
		g.b.orphan(g.account)
	}
	return err
}

var (
	_ backend.Fenced  = (*observeGrant)(nil)
	_ backend.Fenced  = (*bridgeGrant)(nil)
	_ backend.Sharer  = (*bridgeGrant)(nil)
	_ backend.Yielder = (*observeGrant)(nil)
	_ backend.Yielder = (*bridgeGrant)(nil)
)
