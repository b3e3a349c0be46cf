package modern

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	left := rs[1].Value
	if value, _ := rs[0].Value.([]byte); string(value) != g.token {
		left = int64(notOurs)
	}
	return g.guarded(ctx, cancel, left)
}

// guarded judges what the look behind a watch found: a PTTL, or that the key is not ours.
func (g *grant) guarded(ctx context.Context, cancel func(), found any) (func(), error) {
	now := lock.Mark(ctx)
	left, known := found.(int64)
	if left == notOurs {
		cancel()
		return nil, g.gone(ctx)
	}
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

// GuardAll is Guard for many grants, with two commands for many keys.
func (b *Backend) GuardAll(ctx context.Context, granted []lock.Grant, touched []func()) ([]func(), []error) {
	cancels, errs := make([]func(), len(granted)), make([]error, len(granted))
	var armed []int // of granted
	for i := range granted {
		g, ok := granted[i].(*grant)
		if !ok || len(granted) == 1 || b.cfg.Wake == WakeOff || b.native.single.Load() {
			cancels[i], errs[i] = b.Guard(ctx, granted[i], touched[i])
			continue
		}
		g.watch()
		if cancels[i], errs[i] = b.arm(ctx, b.own, g.key, touched[i]); errs[i] == nil {
			armed = append(armed, i)
		}
	}
	for part := range slices.Chunk(armed, renewTogether) {
		grants := make([]*grant, len(part))
		args := make([]any, 2*len(part))
		for j, i := range part {
			g := granted[i].(*grant)
			grants[j], args[j], args[len(part)+j] = g, g.key, g.token
		}
		looked := b.look(ctx, grants)
		reply, err := b.own.Eval(ctx, watchScripts.of(len(part)), args...)
		left, err := replies(wire.Reply{Value: reply, Err: err}, len(part))
		for j, i := range part {
			switch {
			case looked[j] != nil:
				cancels[i]()
				cancels[i], errs[i] = nil, looked[j]
			case err == nil: // without the times that are left the watch is good all the same
				cancels[i], errs[i] = grants[j].guarded(ctx, cancels[i], left[j])
			}
		}
	}
	return cancels, errs
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
	if cancel, err = b.arm(ctx, m, key, fn); err != nil {
		return nil, nil, err
	}
	looks[0].Track = true
	seen = m.Batch(ctx, looks)
	if err := seen[0].Err; err != nil {
		cancel()
		return nil, nil, trouble("watch", key, err)
	}
	return cancel, seen, nil
}

func (b *Backend) arm(ctx context.Context, m *wire.Mux, key string, fn func()) (cancel func(), err error) {
	if b.cfg.Wake == WakeOff {
		return nil, errWakeOff
	}
	cancel, err = m.Tracker().Arm(ctx, key, fn)
	switch {
	case err == nil:
		return cancel, nil
	case errors.Is(err, wire.ErrNoWake):
		b.native.wakeless.Store(true)
		return nil, fmt.Errorf("modern: %w: %w", lock.ErrNoWake, err)
	}
	return nil, trouble("watch", key, err)
}
