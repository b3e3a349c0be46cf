// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

var errWakeOff = fmt.Errorf("modern: %w: Config.Wake is off", backend.ErrNoWake)

// Await arms a call of wake for the next change of the key by any client.
func (b *engine) Await(ctx context.Context, key string, wake func()) (cancel func(), free bool, err error) {
	if b.cfg.Wake == lock.WakeOff {
		return nil, false, errWakeOff
	}
	// The watch is armed first, so that either it or the look finds a change.
	cancel, err = b.own.Tracker().Arm(ctx, key, wake)
	if err := b.unwatchable(key, err); err != nil {
		return nil, false, err
	}
	seen, err := b.own.Tracker().Do(ctx, wire.Cmd("EXISTS", key))
	if err != nil {
		cancel()
		return nil, false, trouble("watch", key, err)
	}
	n, _ := seen.(int64)
	return cancel, n == 0, nil
}

func (b *engine) watchOne(ctx context.Context, g *grant, holder interface{ Touched() }) error {
	if err := g.watchBy(ctx, holder); err != nil {
		return err
	}
	look := ours(g)
	look.Track = true
	rs := b.own.Batch(ctx, []wire.Command{look, wire.Cmd("PTTL", g.key)})
	switch err := rs[0].Err; {
	case wire.IsWrongType(err):
		g.unwatch()
		return g.gone(ctx)
	case err != nil:
		g.unwatch()
		return trouble("watch", g.key, err)
	}
	left := rs[1].Value
	if value, _ := rs[0].Value.([]byte); string(value) != g.token {
		left = int64(notOurs)
	}
	return g.looked(ctx, left)
}

// looked applies what the look after arming a watch found: a PTTL, or notOurs.
func (g *grant) looked(ctx context.Context, found any) error {
	now := backend.ReadClock(ctx)
	left, known := found.(int64)
	if left == notOurs {
		g.unwatch()
		return g.gone(ctx)
	}
	if !known || !g.shortened(left, now) {
		return nil
	}
	g.touched(left, now)
	should, _ := g.left(now)
	if err := g.restore(ctx, should); errors.Is(err, backend.ErrLost) {
		g.unwatch()
		return err
	}
	return nil
}

// restore lengthens a TTL that another client has shortened, and keeps the key
// watched. It is no renewal: a renewal may overtake it, and the holder then
// trusts the key for longer. So it lengthens the TTL or does nothing, and the
// grant's record of the TTL stays as it was.
func (g *grant) restore(ctx context.Context, should time.Duration) error {
	reply, err := g.b.own.Eval(ctx, restoreScript, g.key, g.token, millis(should))
	if err != nil {
		return trouble("set right the TTL of", g.key, err)
	}
	if n, _ := reply.(int64); n == notOurs {
		return g.gone(ctx)
	}
	return g.b.look(ctx, []*grant{g})[0] // the write has made the server forget the watch
}

// Watch calls Touched of a holder when another client changes its grant's key.
// It needs two commands for many keys. A watch stays armed through the grant's
// own renewals, which travel on the same connection and end with a read. If
// another client shortened a TTL, Watch restores it, so that the key does not
// end before trust in it.
func (b *engine) Watch(ctx context.Context, granted []backend.Grant,
	holders []interface{ Touched() }) []error {
	errs := make([]error, len(granted))
	var armed []int // indexes of granted
	for i := range granted {
		g, ok := granted[i].(*grant)
		switch {
		case !ok:
			errs[i] = errForeignGrant
		case len(granted) == 1 || b.cfg.Wake == lock.WakeOff:
			errs[i] = b.watchOne(ctx, g, holders[i])
		default:
			if errs[i] = g.watchBy(ctx, holders[i]); errs[i] == nil {
				armed = append(armed, i)
			}
		}
	}
	for part := range slices.Chunk(armed, renewTogether) {
		grants := make([]*grant, len(part))
		for j, i := range part {
			grants[j] = granted[i].(*grant)
		}
		looked := b.look(ctx, grants)
		left, err := b.lefts(ctx, grants)
		for j, i := range part {
			switch {
			case looked[j] != nil:
				grants[j].unwatch()
				errs[i] = looked[j]
			case err == nil: // the watch works without the remaining times
				errs[i] = grants[j].looked(ctx, left[j])
			}
		}
	}
	return errs
}

// lefts returns the PTTL of each grant's key, or notOurs.
func (b *engine) lefts(ctx context.Context, grants []*grant) (left []any, err error) {
	var cmds []wire.Command
	most := b.together()
	for part := range slices.Chunk(grants, most) {
		args := make([]any, 2*len(part))
		for i, g := range part {
			args[i], args[len(part)+i] = g.key, g.token
		}
		cmds = append(cmds, watchScripts.of(len(part)).Cmd(args...))
	}
	for i, r := range b.own.Batch(ctx, cmds) {
		some, err := replies(r, min(most, len(grants)-i*most))
		if err != nil {
			return nil, err
		}
		left = append(left, some...)
	}
	return left, nil
}

// Unwatch ends the watch that Watch armed.
func (b *engine) Unwatch(granted backend.Grant) {
	if g, ok := granted.(*grant); ok {
		g.unwatch()
	}
}

// watchBy arms a call of holder.Touched for when the key is changed, after it
// made the server report changes. From then on renewals keep the watch.
func (g *grant) watchBy(ctx context.Context, holder interface{ Touched() }) error {
	if g.b.cfg.Wake == lock.WakeOff {
		return errWakeOff
	}
	g.setWatched(true) // set before it is armed, or a renewal in between would end it
	err := g.b.own.Tracker().Set(ctx, g.key, &g.watch, holder)
	if err != nil {
		g.setWatched(false)
	}
	return g.b.unwatchable(g.key, err)
}

func (g *grant) unwatch() {
	g.setWatched(false)
	g.b.own.Tracker().Unset(g.key, &g.watch)
}

func (g *grant) setWatched(watched bool) {
	g.mu.Lock()
	g.watched = watched
	g.mu.Unlock()
}

func (g *grant) isWatched() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.watched
}

// unwatchable wraps the error of arming a watch and records whether the server
// reports changes.
func (b *engine) unwatchable(key string, err error) error {
	switch {
	case err == nil:
		b.native.wakeless.Store(false)
		return nil
	case errors.Is(err, wire.ErrNoWake):
		b.native.wakeless.Store(true)
		return fmt.Errorf("modern: %w: %w", backend.ErrNoWake, err)
	}
	return trouble("watch", key, err)
}
