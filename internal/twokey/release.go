// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"context"
	"errors"
	"time"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Release deletes both keys, each only if it is still the grant's (rule 10).
// If the reply to the grant's attempt has not come, the release follows the
// attempt on the same connection and does not wait for that reply. The server
// executes the two in their order, so its answer is certain. It returns:
//   - nil: nothing is held any more;
//   - an error that wraps backend.ErrLost: nothing is held, and the lock had
//     been lost or released before;
//   - another error: the outcome is unknown, and Release can be called again.
func (g *Grant) Release(ctx context.Context) error { return g.release(ctx, 0) }

// release is Release. If gap is not 0, it leaves the key to old clients for
// that time.
func (g *Grant) release(ctx context.Context, gap time.Duration) error {
	g.mu.Lock()
	over, pending := g.over, g.pending
	g.mu.Unlock()
	if over {
		return Released(g.k)
	}
	open := false
	if pending != nil {
		late, failed, known := pending.Reply()
		if known && (failed != nil || !g.late(late)) {
			return g.end(nil)
		}
		open = !known
	}
	var room [9]any
	script, clockAt, args, err := g.ending(room[:0], gap)
	if err != nil {
		g.account.Orphan()
		return g.e.Trouble(g.k, "make a release of", err)
	}
	var reply any
	behind := open
	if behind {
		// What is given back without knowing when it was taken needs no clock.
		reply, err = pending.Behind().Eval(ctx, script, args...)
		behind = !wire.IsNotSent(err) // else the attempt's connection has ended
	}
	if !behind {
		reply, err = g.e.timed(ctx, script, clockAt, args...)
	}
	if err != nil {
		if _, may := wire.MayBeSent(err); may {
			g.ask()
		}
		g.account.Orphan()
		return g.e.Trouble(g.k, "give back", err)
	}
	if behind {
		g.ask() // what the attempt took is given back, or it took nothing
	}
	err = g.givenBack(reply, open && !behind)
	if err != nil && lossOf(err) == nil {
		g.account.Orphan() // perhaps nobody gives it back
	}
	return err
}

// late reads the late reply to an attempt. It returns true where the lock was
// taken.
func (g *Grant) late(reply any) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending == nil {
		return true // an earlier Release has read the reply
	}
	g.pending = nil
	took, _ := g.taken(reply)
	return took > 0
}

// ask notes that the server may have executed a command that ends the grant.
func (g *Grant) ask() {
	g.mu.Lock()
	g.asked = true
	g.mu.Unlock()
}

// givenBack reads a release's reply. uncertain says that the attempt's command
// may still arrive.
func (g *Grant) givenBack(reply any, uncertain bool) error {
	if reply == any(int64(1)) {
		return g.end(nil)
	}
	f, _ := reply.([]any)
	g.mu.Lock()
	asked := g.asked
	g.mu.Unlock()
	switch {
	case len(f) != 2:
		return g.e.Trouble(g.k, "give back", errOddReply)
	case Number(f[0]) == 0 && asked:
		return g.end(nil) // an earlier release arrived, or the grant had ended: nothing is held
	case Number(f[0]) == 0 && uncertain:
		// M does not have the token, yet: the attempt's command may still
		// arrive.
		return g.e.Trouble(g.k, "give back", ErrUncertain)
	}
	err := g.lose(f)
	if lossOf(err) == nil {
		return err
	}
	return g.end(err)
}

// end notes that for certain nothing is held any more. It returns err.
func (g *Grant) end(err error) error {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	g.turn.Ended(g.e.Clock.Elapsed())
	g.account.Close()
	return err
}

// ReleaseIn ends a grant and leaves both keys taken for rest, by a renewal: old
// clients see a stamp that ends then. The account stays open until the keys
// have certainly ended. Where the key means "done", an old client's stamp may
// keep it taken for longer than that; then ReleaseIn is Release (rule 10). A
// grant that was lost is left to its TTL (rule 8).
func (e *Engine) ReleaseIn(ctx context.Context, granted backend.Grant, rest time.Duration) error {
	g, err := e.Own(granted)
	if err != nil {
		return err
	}
	g.mu.Lock()
	done := g.doneFor()
	g.mu.Unlock()
	if rest <= done {
		return g.Release(ctx)
	}
	_, err = g.Extend(ctx, rest)
	g.account.Orphan()
	if err == nil || errors.Is(err, backend.ErrLost) {
		g.mu.Lock()
		g.over = true
		g.mu.Unlock()
		g.turn.Ended(e.Clock.Elapsed())
	}
	return err
}

// doneFor is how long a release must still say that the tick is done: until the
// old client's own stamp would have ended (rule 10). It is 0 except in dialects
// whose keys mean "done" and are never released. The caller holds g.mu.
func (g *Grant) doneFor() time.Duration {
	d := &g.e.Settings.Dialect
	if !d.NeverReleases() || g.server.IsZero() {
		return 0
	}
	left := max(g.e.Settings.Terms.Lease, d.Unit.Step()) + d.Slack - g.Held()
	if left < time.Millisecond {
		return 0
	}
	return left
}
