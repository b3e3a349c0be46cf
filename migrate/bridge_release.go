package migrate

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
)

// errUncertain says that the attempt's command may still reach the server.
var errUncertain = errors.New(
	"the connection ended before the server said whether it took the key; it may still do so")

// Release deletes both keys, each only if it is still the grant's (rule 10).
// After an attempt whose outcome is unknown it first waits for the reply.
func (g *bridgeGrant) Release(ctx context.Context) error { return g.release(ctx, 0) }

// release is Release, and leaves the key to old clients for gap.
func (g *bridgeGrant) release(ctx context.Context, gap time.Duration) error {
	g.mu.Lock()
	over, pending := g.over, g.pending
	g.mu.Unlock()
	if over {
		return givenBefore(g.k.name)
	}
	uncertain := false
	if pending != nil {
		reply, err, known := pending.Wait(ctx)
		switch {
		case known && (err != nil || !g.late(reply)):
			return g.end(nil)
		case known:
		case ctx.Err() != nil:
			return bridgeTrouble(g.k, "give back", err)
		default:
			uncertain = true
		}
	}
	var room [8]any
	script, args := g.ending(room[:0], gap)
	reply, err := g.b.mux.Eval(ctx, script, args...)
	if err != nil {
		if _, may := wire.MayBeSent(err); may {
			g.ask()
		}
		g.b.orphan(g.account)
		return bridgeTrouble(g.k, "give back", err)
	}
	return g.givenBack(reply, uncertain)
}

// late reads the late reply to an attempt or a hand-over. It returns true where
// the lock was taken.
func (g *bridgeGrant) late(reply any) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending == nil {
		return true // an earlier Release has read the reply
	}
	g.pending = nil
	if g.heir {
		_, passed := reply.(int64)
		return passed
	}
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

// Pass hands the lock over to the next holder in this process, in one command,
// under a new token and fencing number. The bytes on L and the phase stay. A
// stamp cannot stay, since it says when its holder's lease ends, and a tick
// that is done is not handed over: both give [lock.ErrNotPassed].
func (b *Bridge) Pass(ctx context.Context, granted lock.Grant, ttl time.Duration) (lock.Grant, error) {
	switch g := granted.(type) {
	case *observeGrant:
		return nil, lock.ErrNotPassed
	case *bridgeGrant:
		if b.dialect.NeverReleases() {
			return nil, lock.ErrNotPassed
		}
		next, err := b.pass(ctx, g, ttl)
		if err != nil {
			return nil, err
		}
		b.count.acquired.Add(1)
		return next, nil
	}
	return nil, fmt.Errorf("migrate: a grant of another backend (%T)", granted)
}

func (b *Bridge) pass(ctx context.Context, old *bridgeGrant, ttl time.Duration) (*bridgeGrant, error) {
	if err := old.gone(); err != nil {
		return nil, err
	}
	var member keeping
	if old.account.outdated() || member.keeps(ctx, old, ttl) != nil {
		return nil, lock.ErrNotPassed
	}
	asked, err := b.lease(old.phase, ttl, b.clock.Elapsed()-old.since)
	if err != nil {
		return nil, fmt.Errorf("migrate: key %q: %w", old.k.name, err)
	}
	old.mu.Lock()
	next, was := old.next(), old.value
	old.mu.Unlock()
	next.marked()
	old.account.sending(b, asked)
	next.term = lock.Term{Sent: lock.Mark(ctx), TTL: asked}
	var room [passArgs + 2]any
	script, args := passScript, append(room[:0], old.k.argL, old.k.argM)
	if b.cfg.Fence {
		script, args = passNumberScript, append(args, b.numbers())
	}
	args = append(args, was, next.value, b.px(asked), next.on, b.tomb, argTombPX)
	if b.cfg.Fence {
		args = append(args, argBlock)
	}
	reply, err := b.numbered(ctx, script, passArgs, args...)
	if err != nil {
		unknown, may := wire.MayBeSent(err)
		err = bridgeTrouble(old.k, "pass on", err)
		if !may {
			return nil, err
		}
		// Either grant may hold. A release of the new grant finds the old token
		// if the hand-over failed; that token ends with its TTL, since nobody
		// renews it.
		b.count.unsure.Add(1)
		old.ask()
		next.pending = unknown.Pending
		b.orphan(old.account)
		return nil, &lock.UnsureError{Grant: next, Err: err}
	}
	switch f := reply.(type) {
	case int64:
		next.numbered(f)
		old.mu.Lock()
		old.over = true
		old.mu.Unlock()
		return next, nil
	case []any:
		return nil, old.notPassed(ctx, f)
	}
	return nil, bridgeTrouble(old.k, "pass on", errOddReply)
}

// passArgs is the number of keys and arguments of the pass script before TIME,
// in a bridge with fencing numbers.
const passArgs = 10

// notPassed reads from a reply which key is no longer the grant's.
func (g *bridgeGrant) notPassed(ctx context.Context, f []any) error {
	if len(f) != 2 {
		return bridgeTrouble(g.k, "pass on", errOddReply)
	}
	lost := g.lose(f)
	if integer(f[0]) != 2 || lossOf(lost) == nil {
		return g.end(lost)
	}
	// M is still the grant's, and its job is over.
	if err := g.Release(ctx); err != nil {
		return err
	}
	return lost
}
