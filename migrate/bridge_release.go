package migrate

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"time"

	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// errUncertain says that the attempt's command may still reach the server.
var errUncertain = errors.New(
	"the connection ended before the server said whether it took the key; it may still do so")

// Release deletes both keys, each only if it is still the grant's (rule 10).
// If the reply to the grant's attempt has not come, the release follows the
// attempt on the same connection and does not wait for that reply. The server
// executes the two in their order, so its answer is certain.
func (g *bridgeGrant) Release(ctx context.Context) error { return g.release(ctx, 0) }

// release is Release, and leaves the key to old clients for gap.
func (g *bridgeGrant) release(ctx context.Context, gap time.Duration) error {
	g.mu.Lock()
	over, pending := g.over, g.pending
	g.mu.Unlock()
	if over {
		return givenBefore(g.k.name)
	}
	open := false
	if pending != nil {
		late, failed, known := pending.Reply()
		if known && (failed != nil || !g.late(late)) {
			return g.end(nil)
		}
		open = !known
	}
	var room [8]any
	script, args := g.ending(room[:0], gap)
	var reply any
	var err error
	behind := open
	if behind {
		reply, err = pending.Behind().Eval(ctx, script, args...)
		behind = !wire.IsNotSent(err) // else the attempt's connection has ended
	}
	if !behind {
		reply, err = g.b.mux.Eval(ctx, script, args...)
	}
	if err != nil {
		if _, may := wire.MayBeSent(err); may {
			g.ask()
		}
		g.b.orphan(g.account)
		return bridgeTrouble(g.k, "give back", err)
	}
	if behind {
		g.ask() // what the attempt took is given back, or it took nothing
	}
	return g.givenBack(reply, open && !behind)
}

// late reads the late reply to an attempt. It returns true where the lock was
// taken.
func (g *bridgeGrant) late(reply any) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending == nil {
		return true // an earlier Release has read the reply
	}
	g.pending = nil
	took, _ := g.taken(reply)
	return took > 0
}

// ending is the script that releases both keys, with its keys and arguments.
func (g *bridgeGrant) ending(args []any, gap time.Duration) (*wire.Script, []any) {
	left, px := g.leaves()
	g.mu.Lock()
	defer g.mu.Unlock()
	args = append(args, g.k.argL, g.k.argM, g.value, g.on, g.b.tomb)
	switch done := g.doneFor(); {
	case gap > 0:
		return leaveScript, append(args, polite.Millis(gap))
	case g.endsAs() >= Sealed && left != argNone && done > 0:
		return doneScript, append(args, px, nobodysToken(), done.Milliseconds())
	case left != argNone:
		args = append(args, left, px)
	}
	return releaseScript, args
}

// nobodysToken is a token that no grant has, so that no delayed command renews
// or releases it.
func nobodysToken() string {
	var raw [16]byte
	rand.Read(raw[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// doneFor is how long a release must still say that the tick is done: until the
// old client's own stamp would have ended (rule 10). It is 0 except in dialects
// whose keys mean "done" and are never released. The caller holds g.mu.
func (g *bridgeGrant) doneFor() time.Duration {
	d := g.b.dialect
	if !d.NeverReleases() || g.server.IsZero() {
		return 0
	}
	left := max(g.b.terms.Lease, d.Unit.Step()) + d.Slack - (g.b.clock.Elapsed() - g.since)
	if left < time.Millisecond {
		return 0
	}
	return left
}

// ask notes that the server may have executed a command that ends the grant.
func (g *bridgeGrant) ask() {
	g.mu.Lock()
	g.asked = true
	g.mu.Unlock()
}

// endsAs is the phase that a release goes by: the lease's phase, or dual where
// the fleet has gone back meanwhile. Then the release leaves no tombstone,
// after the way back has deleted them.
func (g *bridgeGrant) endsAs() Phase {
	if g.phase >= Sealed && g.account.backBelow(Sealed) {
		return Dual
	}
	return g.phase
}

// leaves is what replaces the guard on L. From sealed on it is the tombstone,
// with one exception: where an old client takes its own bytes for its lock and
// may still write them. It would overwrite the tombstone, and nobody would
// notice. Where the key means "done", it is the stamp that an old client would
// have left.
func (g *bridgeGrant) leaves() (bytes, px any) {
	d := g.b.dialect
	g.mu.Lock()
	took, left := g.server, g.doneFor()
	g.mu.Unlock()
	phase := g.endsAs()
	switch {
	case phase >= Sealed && (g.settled || !d.OrMine):
		return g.b.tomb, argTombPX
	case phase != Dual || left == 0:
		return argNone, argZero
	}
	lease := max(g.b.terms.Lease, d.Unit.Step())
	id := ""
	if d.OrMine {
		id = d.NewID([16]byte{})
	}
	stamp, err := d.Stamp(took, lease, id)
	if err == nil {
		stamp, err = d.EncodeValue(stamp)
	}
	if err != nil {
		return argNone, argZero
	}
	return stamp, left.Milliseconds()
}

// givenBack reads a release's reply.
func (g *bridgeGrant) givenBack(reply any, uncertain bool) error {
	if reply == any(int64(1)) {
		return g.end(nil)
	}
	f, _ := reply.([]any)
	g.mu.Lock()
	asked := g.asked
	g.mu.Unlock()
	switch {
	case len(f) != 2:
		return bridgeTrouble(g.k, "give back", errOddReply)
	case integer(f[0]) == 0 && asked:
		return g.end(nil) // an earlier release arrived, or the grant has ended: nothing is held
	case integer(f[0]) == 0 && uncertain:
		// The grant's token is not there yet: the attempt may still arrive.
		return bridgeTrouble(g.k, "give back", errUncertain)
	}
	err := g.lose(f)
	if lossOf(err) == nil {
		return err
	}
	return g.end(err)
}

// end notes that certainly nothing is held any more.
func (g *bridgeGrant) end(err error) error {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	g.turn.Ended(g.b.clock.Elapsed())
	g.account.close()
	return err
}
