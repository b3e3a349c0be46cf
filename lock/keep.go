// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Floor returns a [Config.KeepFor] for a job that several machines start every
// period and that one of them is to run. spread is the longest time between the
// first and the last start for the same tick: how far apart the machines'
// clocks are, plus how much longer one takes to start than another. The floor
// is twice the spread, but at most half the period. So the last machine finds
// the key taken, and the next tick finds it free.
//
// If spread is more than two fifths of period, Floor returns an error: a late
// start for one tick could not be told from an early start for the next.
func Floor(period, spread time.Duration) (time.Duration, error) {
	switch {
	case period <= 0:
		return 0, fmt.Errorf("lock: Floor: the period is %v; it must be positive", period)
	case spread <= 0:
		return 0, fmt.Errorf("lock: Floor: the spread is %v; it must be positive: no two clocks agree", spread)
	case spread > period/5*2:
		return 0, fmt.Errorf("lock: Floor: the spread (%v) exceeds two fifths of the period (%v): synchronize the clocks, or start the job less often",
			spread, period)
	}
	return min(2*spread, period/2), nil
}

// validKeep refuses a Config.KeepFor that the store or the TTL cannot carry.
func (cfg *Config) validKeep(b backend.Backend) error {
	switch _, ok := b.(backend.Keeper); {
	case cfg.KeepFor == 0:
		return nil
	case cfg.KeepFor < 0:
		return fmt.Errorf("lock: Config.KeepFor is %v; it must be positive", cfg.KeepFor)
	case !ok:
		return fmt.Errorf("lock: Config.KeepFor: %w", errNoKeeper(b))
	case cfg.KeepFor > cfg.TTL:
		return fmt.Errorf("lock: Config.KeepFor (%v) must not exceed Config.TTL (%v): the key of a holder that is killed stays taken for one TTL",
			cfg.KeepFor, cfg.TTL)
	}
	return nil
}

func errNoKeeper(b backend.Backend) error {
	return fmt.Errorf("the backend, a %T, cannot keep a key taken after its release: %w", b,
		errors.ErrUnsupported)
}

// ReleaseAfter is [Lease.Release], but the key stays taken until keep has
// passed since its acquisition. It replaces [Config.KeepFor] for this lease; a
// keep of zero gives the key back at once.
//
// If keep is negative, or the backend cannot keep a key, ReleaseAfter returns
// an error and the lease lives on.
func (l *Lease) ReleaseAfter(keep time.Duration) error {
	b := l.client.core.backend
	switch _, ok := b.(backend.Keeper); {
	case keep < 0 || keep > greatestTTL:
		return fmt.Errorf("lock: key %q: ReleaseAfter: %v is not between 0 and %v", l.Key(), keep, greatestTTL)
	case keep > 0 && !ok:
		return fmt.Errorf("lock: key %q: ReleaseAfter: %w", l.Key(), errNoKeeper(b))
	}
	return l.release(keep)
}

// floored is a grant whose release leaves its key taken until keep has passed
// since the acquisition. It may be released again: what is left is computed
// anew.
type floored struct {
	backend.Grant
	lease *Lease
	keep  time.Duration
}

// ending returns what is to be released: the grant, or, if a part of keep is
// left, the grant with its floor.
func (l *Lease) ending(keep time.Duration, now reading) (g backend.Grant, keeps bool) {
	if l.rest(keep, now.elapsed) <= 0 {
		return l.grant, false
	}
	return &floored{l.grant, l, keep}, true
}

// Release gives the key back, or leaves it taken for the rest of the floor.
func (f *floored) Release(ctx context.Context) error {
	core := f.lease.client.core
	rest := f.lease.rest(f.keep, core.keeper.now().Elapsed)
	if rest <= 0 {
		return f.Grant.Release(ctx)
	}
	return core.backend.(backend.Keeper).ReleaseIn(ctx, f.Grant, rest)
}

// rest returns how much of keep is left. The store counts the rest; the hold
// before it is measured here, by elapsed time, since the store may step its
// clock. It begins when the store's answer was read, which is after the store's
// acquisition. The client's clock may run ahead of the store's by Margin in
// each TTL, and that part of the hold is not counted: so the floor is never too
// short.
func (l *Lease) rest(keep, now time.Duration) time.Duration {
	held := now - l.granted
	if held >= 2*keep {
		return 0
	}
	cfg := &l.client.cfg
	ahead := float64(held) * float64(max(cfg.Margin, 0)) / float64(cfg.TTL)
	return keep - held + time.Duration(ahead)
}
