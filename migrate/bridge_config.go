// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Config says by which phase a [Bridge] acts, and what the old clients are
// like. Phases must be set. Zero is right for every other field, except in a
// dialect without a lease of its own, which needs Terms.Lease.
type Config struct {
	// Phases says the phase, once for each attempt: [Fixed], or a [Member].
	Phases PhaseSource

	// Dialect is what the old clients write. Defaults to the dialect Jedis.
	Dialect dialect.Dialect

	// Terms are what is known of the old clients. Defaults are those of
	// [dialect.Terms].
	Terms dialect.Terms

	// Takeover decides when a lock that an old client left behind may be taken
	// over. Defaults to [legacy.ServerClock] with the spread as margin.
	Takeover legacy.Takeover

	// SettleAlways looks again after every acquisition; see [legacy.Config].
	SettleAlways bool

	// LongLeases allows a lock.Config.TTL beyond the lease rule. In phase clean
	// leases get it at once. In phase modern they get it from the first renewal
	// that is more than Terms.Gap later, and are cut to the rule before that.
	// It has no effect in a dialect whose waiting clients shorten the TTLs that
	// they find.
	LongLeases bool

	// Fence gives every lease a fencing number, greater than that of every
	// earlier lease in any phase, if all getsetlock clients set Fence. The
	// command that takes the key draws the number; in phase observe a separate
	// command does, afterwards.
	Fence bool

	// Namespace names the counters of the fencing numbers, one for each slot of
	// a cluster: gsl:fence:NAMESPACE:{TAG}.
	Namespace string

	// Wake notifies waiters and holders of changes, by CLIENT TRACKING where
	// the server has it. Defaults to [lock.WakeOn].
	Wake backend.Wake

	// Timeout is the longest wait for each reply of the server, in real time.
	// Defaults to 2 s.
	Timeout time.Duration

	// Clock measures how long a value has been unchanged, and how long to
	// settle. Defaults to [lock.Machine].
	Clock lock.Clock
}

var errNoPhases = errors.New("migrate: Config.Phases is missing: Fixed(migrate.Dual) for programs that follow no record, else a Member")

func (cfg Config) check() error {
	if cfg.Phases == nil {
		return errNoPhases
	}
	if f, ok := cfg.Phases.(fixed); ok && (Phase(f) < Observe || Phase(f) > Clean) {
		return fmt.Errorf(
			"migrate: Config.Phases is Fixed(%v), which is none of observe, dual, sealed, modern, clean",
			Phase(f))
	}
	return record.CheckNamespace(cfg.Namespace)
}

// Advise fills in the times that suit the old clients' terms.
func (b *bridgeEngine) Advise(cfg backend.Settings) backend.Settings {
	long := b.longLeases() && cfg.TTL > b.longest
	if long {
		// A renewal must come in time for the first lease, which is short.
		if cfg.RenewEvery == 0 {
			cfg.RenewEvery = min(b.longest, b.Settings.Terms.Lease) / 3
		}
		if cfg.Margin == 0 {
			cfg.Margin = b.Settings.Terms.DefaultMargin(b.longest)
		}
	}
	return b.Engine.Advise(cfg)
}

// Fits refuses times under which exclusion would not hold in some phase; see
// [legacy.Backend].
func (b *bridgeEngine) Fits(ttl, renewEvery, margin time.Duration) error {
	first := ttl
	if b.longLeases() {
		first = min(ttl, b.longest)
	}
	if err := b.Engine.Fits(first, renewEvery, margin); err != nil {
		return err
	}
	if b.member != nil {
		b.member.asks(ttl) // the next heartbeat says so, which saves the first attempt a round
	}
	return nil
}

// longLeases reports that a lease may ever be longer than the rule. Where
// waiting old clients cut every TTL that they find to their own lease, it may
// not: they would cut the tombstone's.
func (b *bridgeEngine) longLeases() bool {
	return b.cfg.LongLeases && b.bound && b.Settings.Dialect.KeyTTL != dialect.TTLEverybody
}

// lease is the TTL that a write may ask for. Held is how long the grant has had
// its mark, zero for an attempt. A stalled old client may overwrite the mark
// with a stamp that ends no later than the rule says. So a lease may be longer
// only after that, and only where old clients are shut out (rule 4).
func (b *bridgeEngine) lease(p Phase, ttl, held time.Duration) (time.Duration, error) {
	switch {
	case ttl < time.Millisecond:
		return 0, fmt.Errorf("TTL %v is less than a millisecond, the shortest that the server keeps", ttl)
	case ttl > record.LongestTime:
		return 0, fmt.Errorf("TTL %v exceeds %v", ttl, record.LongestTime)
	case p == Clean && b.Settings.Dialect.KeyTTL != dialect.TTLEverybody:
		return ttl, nil
	}
	err := b.Settings.Dialect.CheckLease(ttl, b.Settings.Terms)
	switch {
	case err == nil, p == Modern && held > dialect.Bound(b.Settings.Terms.Gap) && b.longLeases():
		return ttl, nil
	case b.longLeases():
		return b.longest, nil
	}
	return 0, err
}
