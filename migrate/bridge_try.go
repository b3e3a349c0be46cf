package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/fencing"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Replies of the acquire script.
const (
	tookFree = 1
	tookOver = 2
	tookTomb = 3
)

// Try makes one attempt by the present phase. It takes one round trip where the
// key is free or held, and two and the settle for a takeover.
func (b *bridgeEngine) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	if err := b.alone(); err != nil {
		return nil, err
	}
	p, a, err := b.begin(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	return b.try(ctx, key, ttl, p, a)
}

// try makes the attempt of an account.
func (b *bridgeEngine) try(ctx context.Context, key string, ttl time.Duration, p Phase, a *account,
) (backend.Grant, error) {
	asked, err := b.lease(p, ttl, 0)
	if err != nil {
		a.close()
		return nil, fmt.Errorf("migrate: key %q: %w", key, err)
	}
	var granted backend.Grant
	if p == Observe {
		granted, err = b.tryObserve(ctx, key, asked, a)
	} else {
		granted, err = b.tryBoth(ctx, key, asked, p, a)
	}
	if err == nil {
		if err = a.counts(ctx, asked); err == nil {
			return granted, nil
		}
		err = undone(ctx, granted, err)
	}
	if unsure := (*backend.UnsureError)(nil); errors.As(err, &unsure) {
		b.orphan(a)
	} else {
		a.close()
	}
	return nil, err
}

// undone gives back what an attempt has taken that ends with err.
func undone(ctx context.Context, g backend.Grant, err error) error {
	if back := g.Release(ctx); back != nil && !errors.Is(back, backend.ErrLost) {
		return &backend.UnsureError{Grant: g, Err: err}
	}
	return err
}

func (b *bridgeEngine) tryBoth(ctx context.Context, key string, ttl time.Duration, p Phase, a *account,
) (backend.Grant, error) {
	k, err := b.keys(key)
	if err != nil {
		return nil, err
	}
	g, err := b.newGrant(k, p, a)
	if err != nil {
		return nil, err
	}
	began := b.clock.Elapsed()
	took, seen, err := b.acquire(ctx, g, ttl, "")
	// In clean only M counts.
	if err == nil && took == 0 && p != Clean {
		seen = b.judge.Look(ctx, b.mux, k.name, seen, ttl)
		if b.judge.MayTakeOver(seen) {
			took, seen, err = b.acquire(ctx, g, ttl, seen.Value)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case took == 0:
		return nil, b.held(k, seen)
	}
	b.judge.Forget(k.l)
	g.turn = b.judge.Polite().Took(k.l, began)
	if took == tookOver {
		b.count.takeovers.Add(1)
	}
	if b.settles(g, took) {
		if err := b.settle(ctx, g); err != nil {
			return nil, err
		}
	}
	g.settled = true
	b.count.acquired.Add(1)
	return g, nil
}

// acquire runs the script once. Unless seen is empty, it replaces exactly that
// value.
func (b *bridgeEngine) acquire(ctx context.Context, g *bridgeGrant, ttl time.Duration, seen string,
) (took int64, o legacy.Observation, err error) {
	at := b.judge.Begin()
	g.account.sending(b, ttl)
	g.term = backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl}
	var room [acquireArgs + 2]any
	script, args := b.acquisition(room[:0], g, ttl, seen)
	reply, err := b.numbered(ctx, script, acquireArgs, args...)
	at = b.judge.End(at)
	if err != nil {
		unknown, may := wire.MayBeSent(err)
		err = bridgeTrouble(g.k, "take", err)
		if may {
			b.count.unsure.Add(1)
			g.pending = unknown.Pending
			return 0, o, &backend.UnsureError{Grant: g, Err: err}
		}
		return 0, o, err
	}
	took, look := g.taken(reply)
	switch {
	case took == 0 && look == nil:
		return 0, o, bridgeTrouble(g.k, "take", errOddReply)
	case took == 0:
		o, err = b.judge.Read(g.k.name, g.k.l, look, at)
		if err == nil {
			o = b.judge.Note(o)
		}
	case !g.server.IsZero():
		b.judge.SawClock(at, g.server.UnixMicro())
	}
	return took, o, err
}

// acquireArgs is the number of keys and arguments of the acquire script before
// TIME, in a bridge with fencing numbers.
const acquireArgs = 12

// acquisition is the acquire script with its keys and arguments. Trailing
// arguments that are not needed are left out, since each costs the server a
// part of a microsecond.
func (b *bridgeEngine) acquisition(args []any, g *bridgeGrant, ttl time.Duration, seen string) (*wire.Script,
	[]any) {
	script, numbers, tombPX, last := acquireScript, argNone, argNone, 0
	args = append(args, g.k.argL, g.k.argM, g.k.argLook)
	if b.cfg.Fence {
		script, args = acquireNumberScript, append(args, b.counter(g.k.m))
		numbers, last = argBlock, 1
	}
	args = append(args, g.value, b.px(ttl), g.guard, b.tomb)
	if g.phase >= Sealed {
		tombPX, last = argTombPX, 2
	}
	needed := len(args)
	args = append(args, numbers, tombPX, argNone, argOne)
	if seen != "" {
		args[needed+2], last = seen, 3
	}
	if b.wantsClock() {
		last = 4
	}
	return script, args[:needed+last]
}

// Arguments boxed once.
var (
	argNone   = any("")
	argZero   = any(0)
	argOne    = any(1)
	argBlock  = any(fencing.Block)
	argTombPX = any(tombstonePX)
)

// boxed is a TTL and its argument.
type boxed struct {
	ttl time.Duration
	arg any
}

// px is a TTL in milliseconds, rounded down, so that the server keeps a key no
// longer than the lease.
func (b *bridgeEngine) px(ttl time.Duration) any {
	if last := b.lastPX.Load(); last != nil && last.ttl == ttl {
		return last.arg
	}
	next := &boxed{ttl, ttl.Milliseconds()}
	b.lastPX.Store(next)
	return next.arg
}

// clockEvery is the time between attempts on free keys that also read the
// server's clock, so that its steps are seen. Looks at held keys always read
// it.
const clockEvery = time.Second

// wantsClock reports that this attempt reads the server's clock. Where the key
// means "done" every attempt does: what it leaves there says when the lock was
// taken.
func (b *bridgeEngine) wantsClock() bool {
	if b.dialect.NeverReleases() {
		return true
	}
	now, last := int64(b.clock.Elapsed()), b.clockRead.Load()
	return (last == 0 || now-last >= int64(clockEvery)) && b.clockRead.CompareAndSwap(last, max(now, 1))
}

// settles reports that this acquisition must be looked at again before it is a
// grant. It must after a takeover (rule 5), and always where old clients take
// values that are their own (rule 6). A tombstone needs no second look: only
// settled guards have left one.
func (b *bridgeEngine) settles(g *bridgeGrant, took int64) bool {
	if took == tookTomb || g.phase == Clean || !b.dialect.HasTakeover() {
		return false
	}
	return took == tookOver || b.dialect.NeedsSettleEvery() || b.cfg.SettleAlways
}

// settle waits for longer than an old client takes from its clock reading to
// its GETSET, and looks again. The attempt is decided, so only the end of ctx
// cuts it short; then the grant is undone.
func (b *bridgeEngine) settle(ctx context.Context, g *bridgeGrant) error {
	ctx = backend.IgnoreWait(ctx)
	select {
	case <-b.clock.After(b.terms.Settle()):
	case <-ctx.Done():
		return &backend.UnsureError{Grant: g,
			Err: fmt.Errorf("migrate: settling key %q: %w", g.k.name, context.Cause(ctx))}
	}
	err := g.check(ctx)
	if err == nil {
		return nil
	}
	lost := lossOf(err)
	if lost == nil {
		return &backend.UnsureError{Grant: g, Err: err}
	}
	seen := lost.Seen
	if !lost.Mark {
		seen.MarkExists = false // M is this grant's own, and is released below
	}
	held := b.held(g.k, seen)
	if err := g.Release(ctx); err != nil && !errors.Is(err, backend.ErrLost) {
		return &backend.UnsureError{Grant: g, Err: held}
	}
	return held
}

// held is the error that says who holds the key.
func (b *bridgeEngine) held(k bridgeKeys, o legacy.Observation) error {
	err := b.judge.Held(k.name, o)
	var held *backend.HeldError
	if o.MarkExists && errors.As(err, &held) && !held.Vacant {
		if _, _, beside := o.Token(); !beside {
			held.Protocol = "a token alone, as phase clean and package modern write it"
			held.Final = false // nothing on L belongs to that token
		}
	}
	return err
}

func integer(v any) int64 {
	n, ok := v.(int64)
	if ok {
		return n
	}
	b, _ := v.([]byte)
	n = 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}
