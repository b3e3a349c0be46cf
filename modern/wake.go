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
	cancel, left, err := b.watch(ctx, b.user, key, wake, wire.Cmd("EXISTS", key))
	if err != nil {
		return nil, false, err
	}
	n, _ := left.(int64)
	return cancel, n == 0, nil
}

// Guard makes touched be called when somebody else changes the key of a grant. The watch stays armed
// through the grant's own renewals, which are sent on the same connection and end with a read.
func (b *Backend) Guard(ctx context.Context, granted lock.Grant, touched func()) (cancel func(), err error) {
	g, ok := granted.(*grant)
	if !ok {
		return nil, errForeignGrant
	}
	cancel, value, err := b.watch(ctx, b.own, g.key, touched, wire.Cmd("GET", g.key))
	switch {
	case wire.IsWrongType(err):
		return nil, g.gone(ctx)
	case err != nil:
		return nil, err
	}
	if now, _ := value.([]byte); string(now) != g.token {
		cancel()
		return nil, g.gone(ctx)
	}
	return cancel, nil
}

// watch arms fn and then looks, so that a change between the two is seen by one of them.
func (b *Backend) watch(ctx context.Context, m *wire.Mux, key string, fn func(), look wire.Command) (cancel func(), seen any, err error) {
	if b.cfg.Wake == WakeOff {
		return nil, nil, errWakeOff
	}
	cancel, err = m.Tracker().Arm(ctx, key, fn)
	if err != nil {
		if errors.Is(err, wire.ErrNoWake) {
			return nil, nil, fmt.Errorf("modern: %w: %w", lock.ErrNoWake, err)
		}
		return nil, nil, trouble("watch", key, err)
	}
	seen, err = m.Tracker().Do(ctx, look)
	if err != nil {
		cancel()
		return nil, nil, trouble("watch", key, err)
	}
	return cancel, seen, nil
}
