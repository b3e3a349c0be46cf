package modern

import (
	"context"
	"errors"
	"fmt"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
)

var errWakeOff = fmt.Errorf("modern: %w: Config.Wake is off", lock.ErrNoWake)

// Await makes wake be called when the key changes, whoever changes it.
func (b *Backend) Await(ctx context.Context, key string, wake func()) (cancel func(), free bool, err error) {
	cancel, seen, err := b.watch(ctx, b.user, key, wake, wire.Cmd("EXISTS", key))
	if err != nil {
		return nil, false, err
	}
	n, _ := seen[0].Value.(int64)
	return cancel, n == 0, nil
}

// Guard makes touched be called when somebody else changes the key of a grant. The watch stays armed
// through the grant's own renewals, which are sent on the same connection and end with a read. A TTL
// that somebody shortened is set right, so that the key does not end before our trust in it.
func (b *Backend) Guard(ctx context.Context, granted lock.Grant, touched func()) (cancel func(), err error) {
	g, ok := granted.(*grant)
	if !ok {
		return nil, errForeignGrant
	}
	g.watch()
	cancel, rs, err := b.watch(ctx, b.own, g.key, touched, ours(g), wire.Cmd("PTTL", g.key))
	switch {
	case wire.IsWrongType(err):
		return nil, g.gone(ctx)
	case err != nil:
		return nil, err
	}
	now := lock.Mark(ctx)
	if value, _ := rs[0].Value.([]byte); string(value) != g.token {
		cancel()
		return nil, g.gone(ctx)
	}
	left, known := rs[1].Value.(int64)
	if !known || !g.shortened(left, now) {
		return cancel, nil
	}
	should, _ := g.left(now)
	if _, err := g.Extend(ctx, should); errors.Is(err, lock.ErrLost) {
		cancel()
		return nil, err
	}
	return cancel, nil
}

func (g *grant) watch() {
	g.mu.Lock()
	g.watched = true
	g.mu.Unlock()
}

func (g *grant) isWatched() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.watched
}

// watch arms fn and then looks, so that a change between the two is seen by one of them. The first
// look registers its key.
func (b *Backend) watch(ctx context.Context, m *wire.Mux, key string, fn func(), looks ...wire.Command) (cancel func(), seen []wire.Reply, err error) {
	if b.cfg.Wake == WakeOff {
		return nil, nil, errWakeOff
	}
	cancel, err = m.Tracker().Arm(ctx, key, fn)
	if err != nil {
		if errors.Is(err, wire.ErrNoWake) {
			b.native.wakeless.Store(true)
			return nil, nil, fmt.Errorf("modern: %w: %w", lock.ErrNoWake, err)
		}
		return nil, nil, trouble("watch", key, err)
	}
	looks[0].Track = true
	seen = m.Batch(ctx, looks)
	if err := seen[0].Err; err != nil {
		cancel()
		return nil, nil, trouble("watch", key, err)
	}
	return cancel, seen, nil
}
