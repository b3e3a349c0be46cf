package modern

import (
	"context"
	"time"

	"github.com/getsetlock/getsetlock/internal/fencing"
	"github.com/getsetlock/getsetlock/internal/tally"
	"github.com/getsetlock/getsetlock/lock"
)

// fenceBlock is how many fencing numbers one script draws.
const fenceBlock = fencing.Block

// acquire takes the key of g together with one fencing number or a block of
// them. It returns false if another client holds the key.
func (b *Backend) acquire(ctx context.Context, g *grant, ttl time.Duration) (bool, error) {
	d, err := b.numbered.Take(ctx, tally.Attempt{
		Key: g.key, Token: g.token, Millis: millis(ttl), Sent: g.Term().Sent})
	if err == nil && d.Redraw {
		return b.redraw(ctx, g, ttl)
	}
	g.fence, g.spare = d.First, d.Spare
	return d.First > 0, err
}

// acquireByScript takes the key and draws a block of numbers by the script.
func (b *Backend) acquireByScript(ctx context.Context, a tally.Attempt) (int64, error) {
	v, err := b.drawn(ctx, acquireScript, a.Key, b.fence, a.Token, a.Millis, fenceBlock)
	first, _ := v.(int64)
	return first, err
}

// redraw draws numbers for a key that was taken without a number, or with one
// that may be too small. The script reads the clock and passes the key on to
// the token that it already carries. So whenever the script is executed, only
// that token may have to be undone. The script also sets the TTL anew. Trust
// still counts from before the first command, which errs to the safe side.
// redraw returns false if the key was lost meanwhile.
func (b *Backend) redraw(ctx context.Context, g *grant, ttl time.Duration) (bool, error) {
	passed, err := b.pass(ctx, g, g, ttl)
	if err != nil {
		b.stats.unsure.Add(1)
		return false, &lock.UnsureError{Grant: g, Err: trouble("draw numbers for", g.key, err)}
	}
	return passed, nil
}

// numbered gives the grant the first of a whole block of fencing numbers. The
// rest is for the holders that the grant is shared with.
func (g *grant) numbered(first int64) { g.fence, g.spare = first, fenceBlock-1 }
