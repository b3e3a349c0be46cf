package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// errUncertain: the attempt's command may still reach the server.
var errUncertain = errors.New("the connection ended before the server said whether it took the key; it may still do so")

// Release gives both keys back, each only if it is still ours (rule 10). After an attempt whose outcome
// is not known it first waits for that.
func (g *bridgeGrant) Release(ctx context.Context) error {
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
		case known && !isTaken(reply, err):
			return g.end(nil)
		case known:
			g.mu.Lock()
			if g.pending != nil {
				g.pending = nil
				g.late(reply.([]any))
			}
			g.mu.Unlock()
		case ctx.Err() != nil:
			return bridgeTrouble(g.k, "give back", err)
		default:
			uncertain = true
		}
	}
	left, px := g.leaves()
	g.mu.Lock()
	value, on := g.value, g.on
	g.mu.Unlock()
	reply, err := g.b.mux.Eval(ctx, releaseScript, g.k.argL, g.k.argM, g.tokenArg, g.b.tomb, left, px, value, on)
	if err != nil {
		if _, may := mayBeSent(err); may {
			g.ask()
		}
		g.b.orphan(g.account)
		return bridgeTrouble(g.k, "give back", err)
	}
	return g.givenBack(reply, uncertain)
}

// isTaken reads the late reply to an attempt, or to a hand-over.
func isTaken(reply any, err error) bool {
	f, _ := reply.([]any)
	return err == nil && (len(f) == tookReply || len(f) == 2 && integer(f[0]) == 1)
}

// late notes that an attempt of unknown outcome had taken the key.
func (g *bridgeGrant) late(f []any) {
	if len(f) == tookReply {
		g.taken(f)
	}
}

// ask notes that the server may have executed what ends the grant.
func (g *bridgeGrant) ask() {
	g.mu.Lock()
	g.asked = true
	g.mu.Unlock()
}

// leaves is what takes the guard's place on L. From sealed on it is the tombstone, but where an old client
// takes its own bytes for its lock, and may still write them: it would find the tombstone gone with
// nobody told. Where the key means "done", it is what the old client itself would have left there.
func (g *bridgeGrant) leaves() (bytes, px any) {
	d := g.b.dialect
	g.mu.Lock()
	took, since := g.server, g.since
	g.mu.Unlock()
	switch {
	case g.phase >= Sealed && (g.settled || !d.OrMine):
		return g.b.tomb, argTombPX
	case g.phase != Dual || !d.NeverReleases() || took.IsZero():
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
	left := lease + d.Slack - (g.b.clock.elapsed() - since)
	if err != nil || left < time.Millisecond {
		return "", 0
	}
	return stamp, left.Milliseconds()
}

// givenBack reads a release's reply.
func (g *bridgeGrant) givenBack(reply any, uncertain bool) error {
	f, _ := reply.([]any)
	g.mu.Lock()
	asked := g.asked
	g.mu.Unlock()
	switch {
	case len(f) == 1:
		return g.end(nil)
	case len(f) != 2:
		return bridgeTrouble(g.k, "give back", errOddReply)
	case integer(f[0]) == 0 && asked:
		return g.end(nil) // an earlier release had arrived, or the grant had ended: nothing is held
	case integer(f[0]) == 0 && uncertain:
		// Nothing of ours is there, yet: the attempt may be on its way.
		return bridgeTrouble(g.k, "give back", errUncertain)
	}
	err := g.lose(f)
	if lossOf(err) == nil {
		return err
	}
	return g.end(err)
}

// end notes that for certain nothing is held any more.
func (g *bridgeGrant) end(err error) error {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	g.account.close()
	return err
}

// Pass gives the lock to the next holder of this process in one command, under a token and fencing number
// of its own. What stands on L stays, and so does the phase. A stamp cannot stay: it says when its holder's
// lease ends.
func (b *Bridge) Pass(ctx context.Context, granted lock.Grant, ttl time.Duration) (lock.Grant, error) {
	switch g := granted.(type) {
	case *observeGrant:
		return nil, lock.ErrNotPassed
	case *bridgeGrant:
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
	asked, err := b.lease(old.phase, ttl, b.clock.elapsed()-old.since)
	if err != nil {
		return nil, fmt.Errorf("migrate: key %q: %w", old.k.name, err)
	}
	old.mu.Lock()
	next := old.heir()
	old.mu.Unlock()
	next.token = newBridgeToken()
	next.tokenArg = next.token
	script, args, numbers := passScript, make([]any, 0, 11), argZero
	args = append(args, old.k.argL, old.k.argM)
	if b.cfg.Fence {
		script, args, numbers = passNumberScript, append(args, b.counter), argBlock
	}
	old.account.sending(b, asked)
	next.term = lock.Term{Sent: lock.Mark(ctx), TTL: asked}
	reply, err := b.numbered(ctx, script, append(args,
		old.tokenArg, next.tokenArg, b.px(asked), b.tomb, argTombPX, numbers, argNone, argNone)...)
	if err != nil {
		unknown, may := mayBeSent(err)
		err = bridgeTrouble(old.k, "pass on", err)
		if !may {
			return nil, err
		}
		// Either may hold. Whoever undoes the new one finds the old one's token if it was not passed
		// on; that ends with its TTL, unrenewed.
		b.count.unsure.Add(1)
		old.ask()
		next.pending = unknown.Pending
		b.orphan(old.account)
		return nil, &lock.UnsureError{Grant: next, Err: err}
	}
	f, _ := reply.([]any)
	switch {
	case len(f) != 2:
		return nil, bridgeTrouble(old.k, "pass on", errOddReply)
	case integer(f[0]) != 1:
		lost := old.lose(f)
		if integer(f[0]) == 2 && lossOf(lost) != nil {
			// M is still the old one's, whose job is over.
			if err := old.Release(ctx); err != nil {
				return nil, err
			}
			return nil, lost
		}
		return nil, old.end(lost)
	}
	next.numbered(integer(f[1]))
	next.known()
	old.mu.Lock()
	old.over = true
	old.mu.Unlock()
	return next, nil
}
