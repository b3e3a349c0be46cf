// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/legacy"
)

// probe runs the scripts of every phase on a key that nobody else uses, and
// leaves nothing there. The operator of the fleet reads its error.
func (b *bridgeEngine) probe(ctx context.Context, key string) error {
	if b.member != nil {
		if err := b.member.foundBy(ctx, b.Mux); err != nil {
			return err
		}
	}
	ttl := min(b.Settings.Terms.DefaultTTL(), 5*time.Second)
	// Sealed runs twice: first with a guard, whose release leaves the
	// tombstone, then on that tombstone. Modern sends the same commands.
	for _, p := range []Phase{Observe, Dual, Sealed, Sealed, Clean} {
		err := b.Probe(ctx, key,
			twokey.Attempt{Strategy: p.strategy(), TTL: ttl, Account: &account{b: b, phase: p}})
		if err != nil {
			return fmt.Errorf("phase %v: %w", p, err)
		}
		// A release of these dialects leaves the lock taken for the tick.
		if b.Settings.Dialect.NeverReleases() {
			if _, err := b.Mux.Do(ctx, "DEL", key, legacy.MarkKey(key)); err != nil {
				return fmt.Errorf("phase %v: migrate: delete what is left on key %q: %w", p, key, err)
			}
		}
	}
	if _, err := b.Mux.Eval(ctx, record.Sweep, key, legacy.MarkKey(key), b.Tombstone(), "1"); err != nil {
		return fmt.Errorf("phase clean: migrate: delete the tombstone on key %q: %w", key, err)
	}
	return nil
}
