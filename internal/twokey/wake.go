// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Arm calls fn once, at the next change of one of the keys. The watch is armed
// before the look that registers the keys, so one of the two sees every change.
// The error wraps backend.ErrNoWake where the server or the settings allow no
// watch.
func (s *Server) Arm(ctx context.Context, k Keys, fn func(), keys ...string) (cancel func(), err error) {
	if s.Settings.Wake != lock.WakeOn {
		return nil, fmt.Errorf("%s: %w: Config.Wake is off", s.Settings.Package, backend.ErrNoWake)
	}
	var once sync.Once
	var armed []func()
	cancel = func() {
		for _, end := range armed {
			end()
		}
	}
	for _, key := range keys {
		end, err := s.Mux.Tracker().Arm(ctx, key, func() { once.Do(fn) })
		if err != nil {
			cancel()
			if errors.Is(err, wire.ErrNoWake) {
				return nil, fmt.Errorf("%s: %w: %w", s.Settings.Package, backend.ErrNoWake, err)
			}
			return nil, s.Trouble(k, "watch", err)
		}
		armed = append(armed, end)
	}
	return cancel, nil
}

// Tracked runs a command after which the server reports changes of its keys. If
// that fails, it cancels the watch.
func (s *Server) Tracked(ctx context.Context, k Keys, cancel func(), cmd wire.Command) (any, error) {
	reply, err := s.Mux.Tracker().Do(ctx, cmd)
	if err != nil {
		cancel()
		return nil, s.Trouble(k, "watch", err)
	}
	return reply, nil
}

// WatchEach watches grants by one, a few at the same time.
func (s *Server) WatchEach(granted []backend.Grant, holders []interface{ Touched() },
	one func(g backend.Grant, touched func()) (func(), error)) []error {
	return s.armed.Watch(granted, holders, one)
}

// watched are the keys that a strategy watches: an old client's release changes
// L, a getsetlock client's changes M.
func (k Keys) watched(by Strategy) []string {
	if by == Nothing {
		return []string{k.M()}
	}
	return []string{k.L, k.M()}
}

// AwaitBy arms wake for the next change of a lock's keys. free reports that an
// attempt by the strategy may succeed at once.
func (e *Engine) AwaitBy(ctx context.Context, key string, by Strategy, wake func(),
) (cancel func(), free bool, err error) {
	k, err := e.Keys(key)
	if err != nil {
		return nil, false, err
	}
	cancel, err = e.Arm(ctx, k, wake, k.watched(by)...)
	if err != nil {
		return nil, false, err
	}
	at := e.Clock.begin()
	reply, err := e.Tracked(ctx, k, cancel, observeScript.Cmd(k.ArgL, k.ArgM))
	if err != nil {
		return nil, false, err
	}
	o, err := e.look(k, reply, e.Clock.end(at))
	if err != nil {
		cancel()
		return nil, false, err
	}
	e.note(&o)
	free = !o.MarkExists && (by == Nothing || !o.Exists || by != Stamp && any(o.Value) == e.tomb)
	return cancel, free || e.mayTakeOver(o), nil
}

// Watch arms touched for the keys of each grant and checks that they are still
// the grant's (rule 7). Renewals of a watched grant register its keys again.
func (e *Engine) Watch(ctx context.Context, granted []backend.Grant,
	holders []interface{ Touched() }) []error {
	return e.WatchEach(granted, holders, func(g backend.Grant, touched func()) (func(), error) {
		own, err := e.Own(g)
		if err != nil {
			return nil, err
		}
		return own.watch(ctx, touched)
	})
}

func (g *Grant) watch(ctx context.Context, touched func()) (func(), error) {
	if err := g.Gone(); err != nil {
		return nil, err
	}
	e := g.e
	disarm, err := e.Arm(ctx, g.k, touched, g.k.watched(g.strategy)...)
	if err != nil {
		return nil, err
	}
	g.watched.Add(1)
	cancel := sync.OnceFunc(func() { g.watched.Add(-1); disarm() })
	script, args := g.checking(nil)
	reply, err := e.Tracked(ctx, g.k, cancel, script.Cmd(args...))
	if err != nil {
		return nil, err
	}
	if f, _ := reply.([]any); len(f) == 2 {
		cancel()
		return nil, g.lose(f)
	}
	return cancel, nil
}
