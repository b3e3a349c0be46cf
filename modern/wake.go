package modern

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
)

var errWakeOff = fmt.Errorf("modern: %w: Config.Wake is off", lock.ErrNoWake)

// Await makes wake be called when the key changes, whoever changes it.
func (b *Backend) Await(ctx context.Context, key string, wake func()) (cancel func(), free bool, err error) {
	if b.cfg.Wake == lock.WakeOff {
		return nil, false, errWakeOff
	}
	// Armed first, so that a change between the two is seen by one of them.
	cancel, err = b.user.Tracker().Arm(ctx, key, wake)
	if err := b.unwatchable(key, err); err != nil {
		return nil, false, err
	}
	seen, err := b.user.Tracker().Do(ctx, wire.Cmd("EXISTS", key))
	if err != nil {
		cancel()
		return nil, false, trouble("watch", key, err)
	}
	n, _ := seen.(int64)
	return cancel, n == 0, nil
}

func (b *Backend) watchOne(ctx context.Context, g *grant, holder interface{ Touched() }) error {
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

// looked judges what the look after a watch was armed found: a PTTL, or that the key is not ours.
func (g *grant) looked(ctx context.Context, found any) error {
	now := lock.Mark(ctx)
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
	if err := g.restore(ctx, should); errors.Is(err, lock.ErrLost) {
		g.unwatch()
		return err
	}
	return nil
}

// restore lets the key live for a time that somebody has cut short, and keeps it watched. It is no renewal:
// one may overtake it, whose holder trusts the key for longer by then. So it lengthens or does nothing,
// and our account of the TTL stays as it was.
func (g *grant) restore(ctx context.Context, should time.Duration) error {
	reply, err := g.b.own.Eval(ctx, restoreScript, g.key, g.token, millis(should))
	if err != nil {
		return trouble("set right the TTL of", g.key, err)
	}
	if n, _ := reply.(int64); n == notOurs {
		return g.gone(ctx)
	}
	return g.b.look(ctx, []*grant{g})[0] // the write has ended the server's memory of who watches
}

// Watch tells holders when somebody else changes the keys of their grants, with two commands for many keys.
// A watch stays armed through the grant's own renewals, which are sent on the same connection and end with
// a read. A TTL that somebody shortened is set right, so that the key does not end before our trust in it.
func (b *Backend) Watch(ctx context.Context, granted []lock.Grant, holders []interface{ Touched() }) []error {
	errs := make([]error, len(granted))
	var armed []int // of granted
	for i := range granted {
		g, ok := granted[i].(*grant)
		switch {
		case !ok:
			errs[i] = errForeignGrant
		case len(granted) == 1 || b.cfg.Wake == lock.WakeOff || b.native.single.Load():
			errs[i] = b.watchOne(ctx, g, holders[i])
		default:
			if errs[i] = g.watchBy(ctx, holders[i]); errs[i] == nil {
				armed = append(armed, i)
			}
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
				grants[j].unwatch()
				errs[i] = looked[j]
			case err == nil: // without the times that are left the watch is good all the same
				errs[i] = grants[j].looked(ctx, left[j])
			}
		}
	}
	return errs
}

// Unwatch ends the watch that Watch armed.
func (b *Backend) Unwatch(granted lock.Grant) {
	if g, ok := granted.(*grant); ok {
		g.unwatch()
	}
}

// watchBy has its holder told when the key is changed, once the server was made to tell of it. Renewals
// keep the watch from here on.
func (g *grant) watchBy(ctx context.Context, holder interface{ Touched() }) error {
	if g.b.cfg.Wake == lock.WakeOff {
		return errWakeOff
	}
	g.setWatched(true) // before it is, or a renewal in between would end it
	// What is watched is held for long, and others may well stand in line by now. Reserved, the key is the
	// next one's; deleted, it would be taken by whoever asks first, who is mostly one of us again.
	g.line()
	err := g.b.own.Tracker().Set(ctx, g.key, &g.watch, holder)
	if err != nil {
		g.setWatched(false)
	}
	return g.b.unwatchable(g.key, err)
}

func (g *grant) line() {
	g.mu.Lock()
	g.lined = true
	g.mu.Unlock()
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

// unwatchable sorts the trouble of arming a watch.
func (b *Backend) unwatchable(key string, err error) error {
	switch {
	case err == nil:
		b.native.wakeless.Store(false)
		return nil
	case errors.Is(err, wire.ErrNoWake):
		b.native.wakeless.Store(true)
		return fmt.Errorf("modern: %w: %w", lock.ErrNoWake, err)
	}
	return trouble("watch", key, err)
}
