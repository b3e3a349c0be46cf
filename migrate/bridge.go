// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Bridge takes locks by two keys on one server. M holds the token of the
// getsetlock client that has the lock. L is the old clients' key and holds what
// the phase asks for. Each attempt, renewal and release is one script that
// looks at both keys.
//
//   - In observe it does what a hardened backend of package legacy does: M, and
//     a stamp on L.
//   - In dual it writes a guard on L, a random number that every old client
//     takes for a time far ahead.
//   - In sealed and modern the lease depends on the tombstone on L. Where L is
//     empty or holds an old client's value, the bridge does what dual does, and
//     its release leaves the tombstone.
//   - In clean it takes M alone.
//
// Two getsetlock clients never hold together, as long as their phases are at
// most one step apart, the server loses no write, and its clock steps by no
// more than the trust margin. No old client holds alongside, as long as old
// clients keep to their terms. When one does not, the getsetlock client's lease
// is lost.
//
// HAZARD: the bridge believes what Terms say of the old clients. An old client
// with a smaller lease, or whose attempt takes longer than the gap, can hold
// alongside a getsetlock client. The getsetlock client's lease is then reported
// lost, but only afterwards.
type Bridge struct{ engine *bridgeEngine }

// Contract returns what [lock.New] calls.
func (b *Bridge) Contract() backend.Backend { return b.engine }

// Dialect returns what the old clients write.
func (b *Bridge) Dialect() dialect.Dialect { return b.engine.Settings.Dialect }

// Terms returns the terms of the old clients, with defaults filled in.
func (b *Bridge) Terms() dialect.Terms { return b.engine.Settings.Terms }

// Inspect looks at both keys of a lock and takes nothing.
func (b *Bridge) Inspect(ctx context.Context, key string) (legacy.Observation, error) {
	return b.engine.Observe(ctx, key)
}

// Stats returns the counts since New.
func (b *Bridge) Stats() BridgeStats { return b.engine.stats() }

// Close ends the connections and waits for every goroutine. Locks that are
// still held end by their TTL. A [lock.Client] closes its backend.
func (b *Bridge) Close() error { return b.engine.Close() }

// bridgeEngine is the contract of a Bridge: the engine of two keys, with the
// strategy of the phase.
type bridgeEngine struct {
	*twokey.Engine
	cfg     Config
	longest time.Duration // longest lease by the lease rule, if bound is set
	bound   bool          // the lease rule bounds leases in this dialect
	member  *Member       // nil where the phases come from another source

	isPlaced atomic.Bool    // the member's field was found on the bridge's server
	orphans  sync.WaitGroup // goroutines that await the end of locks that could not be released
	closed   chan struct{}  // closed by Close
	closing  sync.Mutex     // held while an orphan begins, and by Close
	isClosed bool
}

// bounded is how a bridge judges old clients' clocks, which a [twokey.Engine]
// says: by which bounds, and after what was seen elsewhere.
type bounded interface {
	Bounds() (behind, ahead time.Duration)
	Told(seen dialect.Seen)
}

// New returns a Bridge on the server that pool dials. Only the pool's Dial or
// DialContext is used. New sends nothing; the first attempt finds out whether
// the server is up.
func New(pool *redis.Pool, cfg Config) (*Bridge, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	b := &bridgeEngine{cfg: cfg, closed: make(chan struct{})}
	settings := twokey.Settings{
		Package: "migrate", Dialect: cfg.Dialect, Terms: cfg.Terms, Takeover: cfg.Takeover,
		SettleAlways: cfg.SettleAlways, Wake: cfg.Wake, Timeout: cfg.Timeout, Clock: cfg.Clock, Extender: b,
	}
	if cfg.Fence {
		settings.Counters = "gsl:fence:" + scope.InName(cfg.Namespace) + ":"
	}
	m, listed := cfg.Phases.(*Member)
	if listed {
		settings.Tag = " " + m.ID()
	}
	var err error
	if b.Engine, err = twokey.New(pool, settings); err != nil {
		return nil, err
	}
	b.longest, b.bound = b.Settings.Dialect.LongestLease(b.Settings.Terms)
	if listed {
		b.member = m
		m.Attach(b.probe)
		first := record.LongestTime
		if b.longLeases() {
			first = b.longest
		}
		m.actsBy(b, first)
	}
	return &Bridge{b}, nil
}

// Close is that of the Bridge.
func (b *bridgeEngine) Close() error {
	b.closing.Lock()
	if !b.isClosed {
		b.isClosed = true
		close(b.closed)
	}
	b.closing.Unlock()
	err := b.Engine.Close()
	b.orphans.Wait()
	return err
}

var (
	_ backend.Store         = (*Bridge)(nil)
	_ backend.Backend       = (*bridgeEngine)(nil)
	_ backend.Advisor       = (*bridgeEngine)(nil)
	_ backend.Inspector     = (*bridgeEngine)(nil)
	_ io.Closer             = (*bridgeEngine)(nil)
	_ backend.BatchExtender = (*bridgeEngine)(nil)
	_ backend.Waker         = (*bridgeEngine)(nil)
)
