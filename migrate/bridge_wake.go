package migrate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/getsetlock/getsetlock/internal/watches"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// arm calls fn at the next change of one of the keys. The watch is armed before
// the look that registers it, so one of the two sees a change in between.
func (b *bridgeEngine) arm(ctx context.Context, k bridgeKeys, onL bool, fn func(),
) (cancel func(), err error) {
	if b.cfg.Wake != lock.WakeOn {
		return nil, fmt.Errorf("migrate: %w: Config.Wake is off", backend.ErrNoWake)
	}
	var once sync.Once
	touched := func() { once.Do(fn) }
	first, err := b.mux.Tracker().Arm(ctx, k.argM.(string), touched)
	if err != nil || !onL {
		return first, wakeless(k, err)
	}
	second, err := b.mux.Tracker().Arm(ctx, k.l, touched)
	if err != nil {
		first()
		return nil, wakeless(k, err)
	}
	return func() { first(); second() }, nil
}

func wakeless(k bridgeKeys, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, wire.ErrNoWake):
		return fmt.Errorf("migrate: %w: %w", backend.ErrNoWake, err)
	}
	return bridgeTrouble(k, "watch", err)
}

// Await arms wake for both keys: an old client's release changes L, a
// getsetlock client's release M.
func (b *bridgeEngine) Await(ctx context.Context, key string, wake func()) (func(), bool, error) {
	p, err := b.cfg.Phases.Phase(ctx)
	if err != nil {
		return nil, false, err
	}
	if p == Observe {
		return b.inner.Await(ctx, key, wake)
	}
	k, err := b.keys(key)
	if err != nil {
		return nil, false, err
	}
	cancel, err := b.arm(ctx, k, p != Clean, wake)
	if err != nil {
		return nil, false, err
	}
	at := b.judge.Begin()
	reply, err := b.mux.Tracker().Do(ctx, lookScript.Cmd(k.argL, k.argM))
	if err != nil {
		cancel()
		return nil, false, bridgeTrouble(k, "watch", err)
	}
	o, err := b.judge.Read(k.name, k.l, reply, b.judge.End(at))
	if err != nil {
		cancel()
		return nil, false, err
	}
	o = b.judge.Note(o)
	free := !o.MarkExists && (p == Clean || !o.Exists || o.Value == b.tomb)
	return cancel, free || b.judge.MayTakeOver(o), nil
}

// Watch arms a watch for both keys of each grant, and looks whether they are
// still the grant's (rule 7). Renewals of a watched grant register its keys
// again.
func (b *bridgeEngine) Watch(ctx context.Context, granted []backend.Grant,
	holders []interface{ Touched() }) []error {
	return b.armed.Watch(granted, holders, func(g backend.Grant, touched func()) (func(), error) {
		return b.watchOne(ctx, g, touched)
	})
}

// Unwatch ends the watch of a grant.
func (b *bridgeEngine) Unwatch(g backend.Grant) { b.armed.Unwatch(g) }

func (b *bridgeEngine) watchOne(ctx context.Context, granted backend.Grant, touched func()) (func(), error) {
	switch g := granted.(type) {
	case *observeGrant:
		cancel, err := watches.One(ctx, b.inner, g.Grant, touched)
		return cancel, g.told(err)
	case *bridgeGrant:
		return b.watchGrant(ctx, g, touched)
	}
	return nil, fmt.Errorf("migrate: a grant of another backend (%T)", granted)
}

func (b *bridgeEngine) watchGrant(ctx context.Context, g *bridgeGrant, touched func()) (func(), error) {
	if err := g.gone(); err != nil {
		return nil, err
	}
	disarm, err := b.arm(ctx, g.k, g.phase != Clean, touched)
	if err != nil {
		return nil, err
	}
	g.watched.Add(1)
	cancel := sync.OnceFunc(func() { g.watched.Add(-1); disarm() })
	reply, err := b.mux.Tracker().Do(ctx, checkScript.Cmd(g.k.argL, g.k.argM, g.token))
	if err != nil {
		cancel()
		return nil, bridgeTrouble(g.k, "watch", err)
	}
	if f, _ := reply.([]any); len(f) == 2 {
		cancel()
		return nil, g.lose(f)
	}
	return cancel, nil
}
