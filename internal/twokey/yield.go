// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"context"
	"time"

	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// Old clients poll, so a polite release leaves the key to them for a while (see
// package polite). The release script writes to M that no client holds the key,
// and until that ends no getsetlock client takes it. A tombstone keeps old
// clients out, so then nothing is left to them.

// YieldFor returns for how long a release leaves the key to old clients. Where
// the key means "done" it is 0, since old clients have nothing to wait for.
func (g *Grant) YieldFor(wish time.Duration) time.Duration {
	switch {
	case g.strategy >= Tombstone || g.e.Settings.Dialect.NeverReleases():
		return 0
	case wish > 0:
		return wish
	}
	return g.turn.Owes(g.e.Clock.Elapsed())
}

// ReleaseTo is Release, and leaves the key to old clients for gap.
func (g *Grant) ReleaseTo(ctx context.Context, gap time.Duration) error {
	g.gap = polite.NewWatch(g.e.Clock.Elapsed(), gap)
	err := g.release(ctx, gap)
	if err == nil {
		g.turn.Left(g.e.Clock.Elapsed())
	}
	return err
}

// Recheck looks whether an old client took the key that was left to it. It
// returns how long to wait before the next look.
func (g *Grant) Recheck(ctx context.Context) time.Duration {
	e, k := g.e, g.k
	old, next := g.gap.Look(polite.Eyes{
		Now: e.Clock.Elapsed,
		Arm: func(fn func()) (func(), error) { return e.Arm(ctx, k, fn, k.L) },
		See: func(tracked bool) (polite.Sight, error) {
			cmd := observeScript.Cmd(k.ArgL, k.ArgM)
			cmd.Track = tracked
			at := e.Clock.begin()
			r := e.Mux.Batch(ctx, []wire.Command{cmd})[0]
			if r.Err != nil {
				return polite.Sight{}, r.Err
			}
			o, err := e.look(k, r.Value, e.Clock.end(at))
			by, left := polite.Token(o.MarkValue)
			return polite.Sight{Old: o.OfOldClient(), Left: left && by == g.token}, err
		},
	})
	if old {
		e.polite().Saw(k.L, e.Clock.Elapsed())
	}
	return next
}
