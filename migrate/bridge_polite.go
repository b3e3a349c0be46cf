package migrate

import (
	"context"
	"time"

	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// In observe and dual a key is left free for old clients, which poll. From
// sealed on a release leaves the tombstone, so nothing is left to them.

// YieldFor returns how long a release leaves the key to old clients.
func (g *observeGrant) YieldFor(wish time.Duration) time.Duration { return g.polite().YieldFor(wish) }

// ReleaseTo is Release, and leaves the key to old clients for gap.
func (g *observeGrant) ReleaseTo(ctx context.Context, gap time.Duration) error {
	return g.released(g.polite().ReleaseTo(ctx, gap))
}

// Recheck looks whether an old client took the key that was left.
func (g *observeGrant) Recheck(ctx context.Context) time.Duration { return g.polite().Recheck(ctx) }

// polite is the hardened grant, which can leave the key.
func (g *observeGrant) polite() backend.Yielder { return g.Grant.(backend.Yielder) }

// YieldFor returns how long a release leaves the key to old clients. Where the
// key means "done" they have nothing to wait for.
func (g *bridgeGrant) YieldFor(wish time.Duration) time.Duration {
	switch {
	case g.phase != Dual || g.b.dialect.NeverReleases():
		return 0
	case wish > 0:
		return wish
	}
	return g.turn.Owes(g.b.clock.Elapsed())
}

// ReleaseTo is Release, and leaves the key to old clients for gap.
func (g *bridgeGrant) ReleaseTo(ctx context.Context, gap time.Duration) error {
	g.gap = polite.NewWatch(g.b.clock.Elapsed(), gap)
	err := g.release(ctx, gap)
	if err == nil {
		g.turn.Left(g.b.clock.Elapsed())
	}
	return err
}

// Recheck looks whether an old client took the key that was left.
func (g *bridgeGrant) Recheck(ctx context.Context) time.Duration {
	b, k := g.b, g.k
	old, next := g.gap.Look(polite.Eyes{
		Now: b.clock.Elapsed,
		Arm: func(fn func()) (func(), error) {
			if b.cfg.Wake != lock.WakeOn {
				return nil, backend.ErrNoWake
			}
			return b.mux.Tracker().Arm(ctx, k.l, fn)
		},
		See: func(tracked bool) (polite.Sight, error) {
			cmd := lookScript.Cmd(k.argL, k.argM)
			cmd.Track = tracked
			at := b.judge.Begin()
			r := b.mux.Batch(ctx, []wire.Command{cmd})[0]
			if r.Err != nil {
				return polite.Sight{}, r.Err
			}
			o, err := b.judge.Read(k.name, k.l, r.Value, b.judge.End(at))
			by, left := polite.Token(o.MarkValue)
			return polite.Sight{Old: o.OfOldClient(), Left: left && by == g.token}, err
		},
	})
	if old {
		b.judge.Polite().Saw(k.l, b.clock.Elapsed())
	}
	return next
}
