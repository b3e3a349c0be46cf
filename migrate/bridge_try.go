package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/fencing"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// What the acquire script answers.
const (
	tookFree = 1
	tookOver = 2
	tookTomb = 3

	tookReply = 4 // the length of a reply that says so
)

// Try makes one attempt, by the phase that holds now: one round trip when the key is free or held, two
// and the settle when it takes over.
func (b *Bridge) Try(ctx context.Context, key string, ttl time.Duration) (lock.Grant, error) {
	p, a, err := b.begin(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	return b.try(ctx, key, ttl, p, a)
}

// try makes the attempt of an account.
func (b *Bridge) try(ctx context.Context, key string, ttl time.Duration, p Phase, a *account) (lock.Grant, error) {
	asked, err := b.lease(p, ttl, 0)
	if err != nil {
		a.close()
		return nil, fmt.Errorf("migrate: key %q: %w", key, err)
	}
	var granted lock.Grant
	if p == Observe {
		granted, err = b.tryObserve(ctx, key, asked, a)
	} else {
		granted, err = b.tryBoth(ctx, key, asked, p, a)
	}
	var unsure *lock.UnsureError
	switch {
	case err == nil:
		return granted, nil
	case errors.As(err, &unsure):
		b.orphan(a)
	default:
		a.close()
	}
	return nil, err
}

func (b *Bridge) tryBoth(ctx context.Context, key string, ttl time.Duration, p Phase, a *account) (lock.Grant, error) {
	k, err := b.keys(key)
	if err != nil {
		return nil, err
	}
	g, err := b.newGrant(k, p, a)
	if err != nil {
		return nil, err
	}
	took, seen, err := b.acquire(ctx, g, ttl, "")
	if err == nil && took == 0 && b.judge.MayTakeOver(seen) {
		took, seen, err = b.acquire(ctx, g, ttl, seen.Value)
	}
	switch {
	case err != nil:
		return nil, err
	case took == 0:
		return nil, b.held(k, seen)
	}
	b.judge.Forget(k.l)
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

// acquire runs the script once. Unless seen is empty, it replaces that very value.
func (b *Bridge) acquire(ctx context.Context, g *bridgeGrant, ttl time.Duration, seen string) (took int64, o legacy.Observation, err error) {
	script, keys := acquireScript, []any{g.k.argL, g.k.argM, nil}[:2]
	numbers := any(0)
	if b.cfg.Fence {
		script, keys, numbers = acquireNumberScript, append(keys, b.counter), fencing.Block
	}
	tombPX := any("")
	if g.phase >= Sealed {
		tombPX = tombstonePX
	}
	at := b.judge.Begin()
	g.account.sending(b, ttl)
	g.term = lock.Term{Sent: lock.Mark(ctx), TTL: ttl}
	reply, err := b.numbered(ctx, script, append(keys,
		g.tokenArg, milliseconds(ttl), g.guard, b.tomb, tombPX, b.tag(), seen, numbers, "", "")...)
	at = b.judge.End(at)
	if err != nil {
		unknown, may := mayBeSent(err)
		err = bridgeTrouble(g.k, "take", err)
		if may {
			b.count.unsure.Add(1)
			g.pending = unknown.Pending
			return 0, o, &lock.UnsureError{Grant: g, Err: err}
		}
		return 0, o, err
	}
	f, _ := reply.([]any)
	if len(f) == 2 && integer(f[0]) == 0 {
		o, err = b.judge.Read(g.k.name, g.k.l, f[1], at)
		if err == nil {
			o = b.judge.Note(o)
		}
		return 0, o, err
	}
	if len(f) != tookReply {
		return 0, o, bridgeTrouble(g.k, "take", errOddReply)
	}
	g.taken(f)
	b.judge.SawClock(at, g.server.UnixMicro())
	return integer(f[0]), o, nil
}

// milliseconds of a TTL, cut: the server keeps a key no longer than we say.
func milliseconds(d time.Duration) int64 { return d.Milliseconds() }

// settles reports whether this acquisition must be looked at again before it is a grant: after a
// takeover (rule 5), and after every one where the old clients take what is their own (rule 6). A
// tombstone needs none: only settled guards have left one.
func (b *Bridge) settles(g *bridgeGrant, took int64) bool {
	if took == tookTomb || g.phase == Clean || !b.dialect.HasTakeover() {
		return false
	}
	return took == tookOver || b.dialect.NeedsSettleEvery() || b.cfg.SettleAlways
}

// settle waits for longer than an old client can be between its clock reading and its GETSET, and looks
// again. The attempt is decided: only the end of ctx cuts it short, and then the grant is undone.
func (b *Bridge) settle(ctx context.Context, g *bridgeGrant) error {
	select {
	case <-b.clock.After(b.terms.Settle()):
	case <-ctx.Done():
		return &lock.UnsureError{Grant: g, Err: fmt.Errorf("migrate: settling key %q: %w", g.k.name, context.Cause(ctx))}
	}
	err := g.check(ctx)
	if err == nil {
		return nil
	}
	lost := lossOf(err)
	if lost == nil {
		return &lock.UnsureError{Grant: g, Err: err}
	}
	seen := lost.Seen
	if !lost.Mark {
		seen.MarkExists = false // that one is ours, and about to go
	}
	held := b.held(g.k, seen)
	if err := g.Release(ctx); err != nil && !errors.Is(err, lock.ErrLost) {
		return &lock.UnsureError{Grant: g, Err: held}
	}
	return held
}

// held says who has the key.
func (b *Bridge) held(k bridgeKeys, o legacy.Observation) error {
	err := b.judge.Held(k.name, o)
	var held *lock.HeldError
	if o.MarkExists && errors.As(err, &held) {
		if _, _, beside := o.Token(); !beside {
			held.Protocol = "a token alone, as phase clean and package modern write it"
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
