package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
)

// probe runs the scripts of every phase on a key that nobody else uses, and
// leaves nothing there. The operator of the fleet reads its error.
func (b *bridgeEngine) probe(ctx context.Context, key string) error {
	if b.member != nil {
		if err := b.member.foundBy(ctx, b.mux); err != nil {
			return err
		}
	}
	ttl := min(b.terms.DefaultTTL(), 5*time.Second)
	k := rawKeys(key, key)
	g, err := b.inner.Try(ctx, key, ttl)
	if err == nil {
		_, err = g.Extend(ctx, ttl)
	}
	if err == nil {
		err = g.Release(ctx)
	}
	if err != nil {
		return fmt.Errorf("phase observe: %w", err)
	}
	// Sealed runs twice: first with a guard, whose release leaves the
	// tombstone, then on that tombstone. Modern sends the same commands.
	for _, p := range []Phase{Dual, Sealed, Sealed, Clean} {
		if err := b.probePhase(ctx, k, p, ttl); err != nil {
			return fmt.Errorf("phase %v: %w", p, err)
		}
	}
	if _, err := b.mux.Eval(ctx, record.Sweep, k.argL, k.argM, b.tomb, "1"); err != nil {
		return fmt.Errorf("phase clean: %w", bridgeTrouble(k, "delete the tombstone on", err))
	}
	return nil
}

func (b *bridgeEngine) probePhase(ctx context.Context, k bridgeKeys, p Phase, ttl time.Duration) error {
	g, err := b.newGrant(k, p, nil)
	if err != nil {
		return err
	}
	took, seen, err := b.acquire(ctx, g, ttl, "")
	switch {
	case err != nil:
		return err
	case took == 0:
		return b.held(k, seen)
	}
	g.settled = true
	if err := g.check(ctx); err != nil {
		return err
	}
	if _, err := g.Extend(ctx, ttl); err != nil {
		return err
	}
	return g.Release(ctx)
}
