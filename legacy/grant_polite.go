package legacy

import (
	"context"
	"time"

	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// Old clients poll, so a polite release leaves the key to them for a while (see
// package polite). The release script writes to M that no client holds the key,
// and until that ends no getsetlock client takes it.

// YieldFor returns for how long a release leaves the key to old clients. Where
// the key means "done" it is 0, since old clients have nothing to wait for.
func (g *grant) YieldFor(wish time.Duration) time.Duration {
	switch {
	case g.h.dialect.NeverReleases():
		return 0
	case wish > 0:
		return wish
	}
	return g.turn.Owes(g.h.clock.Elapsed())
}

// ReleaseTo is Release, and leaves the key to old clients for gap.
func (g *grant) ReleaseTo(ctx context.Context, gap time.Duration) error {
	g.gap = polite.NewWatch(g.h.clock.Elapsed(), gap)
	err := g.release(ctx, gap)
	if err == nil {
		g.turn.Left(g.h.clock.Elapsed())
	}
	return err
}

// Recheck looks whether an old client took the key that was left to it. It
// returns how long to wait before the next look.
func (g *grant) Recheck(ctx context.Context) time.Duration {
	h, k := g.h, g.k
	old, next := g.gap.Look(polite.Eyes{
		Now: h.clock.Elapsed,
		Arm: func(fn func()) (func(), error) { return h.arm(ctx, k, false, fn) },
		See: func(tracked bool) (polite.Sight, error) {
			cmd := observeScript.Cmd(k.argL, k.argM)
			cmd.Track = tracked
			at := h.clock.begin()
			r := h.mux.Batch(ctx, []wire.Command{cmd})[0]
			if r.Err != nil {
				return polite.Sight{}, r.Err
			}
			o, err := h.look(k, r.Value, h.clock.end(at))
			return o.leftBy(g.token), err
		},
	})
	if old {
		h.watch.polite.Saw(k.l, h.clock.Elapsed())
	}
	return next
}

// leftBy says whether an old client has the key, and whether it is still left
// by the holder with this token.
func (o Observation) leftBy(token string) polite.Sight {
	by, ok := polite.Token(o.MarkValue)
	return polite.Sight{Old: o.OfOldClient(), Left: ok && by == token}
}
