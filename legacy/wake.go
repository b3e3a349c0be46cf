package legacy

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// arm calls fn at the next change of L, or if both is set of L or M. The watch
// is armed before the look that registers the keys, so one of the two sees
// every change. The error wraps backend.ErrNoWake where the server or the
// Config allows no watch.
func (s *server) arm(ctx context.Context, k keys, both bool, fn func()) (cancel func(), err error) {
	if s.cfg.Wake != lock.WakeOn {
		return nil, fmt.Errorf("legacy: %w: Config.Wake is off", backend.ErrNoWake)
	}
	var once sync.Once
	first, err := s.mux.Tracker().Arm(ctx, k.l, func() { once.Do(fn) })
	if err != nil || !both {
		return first, wakeless(k, err)
	}
	second, err := s.mux.Tracker().Arm(ctx, k.m(), func() { once.Do(fn) })
	if err != nil {
		first()
		return nil, wakeless(k, err)
	}
	return func() { first(); second() }, nil
}

func wakeless(k keys, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, wire.ErrNoWake):
		return fmt.Errorf("legacy: %w: %w", backend.ErrNoWake, err)
	}
	return trouble(k, "watch", err)
}

// tracked runs a command after which the server reports changes of its keys. If
// that fails, it cancels the watch.
func (s *server) tracked(ctx context.Context, k keys, cancel func(), cmd wire.Command) (any, error) {
	reply, err := s.mux.Tracker().Do(ctx, cmd)
	if err != nil {
		cancel()
		return nil, trouble(k, "watch", err)
	}
	return reply, nil
}

// Await arms wake for both keys: an old client's release changes L, a
// getsetlock client's changes M.
func (h *hardened) Await(ctx context.Context, key string, wake func()) (func(), bool, error) {
	k, err := h.keys(key)
	if err != nil {
		return nil, false, err
	}
	cancel, err := h.arm(ctx, k, true, wake)
	if err != nil {
		return nil, false, err
	}
	at := h.clock.begin()
	reply, err := h.tracked(ctx, k, cancel, observeScript.Cmd(k.l, k.m()))
	if err != nil {
		return nil, false, err
	}
	o, err := h.look(k, reply, h.clock.end(at))
	if err != nil {
		cancel()
		return nil, false, err
	}
	h.note(&o)
	return cancel, !o.Exists && !o.MarkExists || h.mayTakeOver(o), nil
}

// Watch arms touched for both keys of each grant and checks that they are still
// the grant's (rule 7). Renewals of a watched grant register its keys again.
func (h *hardened) Watch(ctx context.Context, granted []backend.Grant,
	holders []interface{ Touched() }) []error {
	return h.armed.Watch(granted, holders, func(g backend.Grant, touched func()) (func(), error) {
		return h.watchOne(ctx, g, touched)
	})
}

func (h *hardened) watchOne(ctx context.Context, granted backend.Grant, touched func()) (func(), error) {
	g, ok := granted.(*grant)
	if !ok {
		return nil, fmt.Errorf("legacy: the grant belongs to another backend (%T)", granted)
	}
	if err := g.gone(); err != nil {
		return nil, err
	}
	disarm, err := h.arm(ctx, g.k, true, touched)
	if err != nil {
		return nil, err
	}
	g.watched.Add(1)
	cancel := sync.OnceFunc(func() { g.watched.Add(-1); disarm() })
	reply, err := h.tracked(ctx, g.k, cancel, checkScript.Cmd(g.k.argL, g.k.argM, g.tokenArg, g.t.gap))
	if err != nil {
		return nil, err
	}
	if f, _ := reply.([]any); len(f) == 2 {
		cancel()
		return nil, g.lose(f)
	}
	return cancel, nil
}
