// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Engine takes locks on a Server, each by a Strategy. All of them judge old
// clients by one memory of the keys and of the server's clock.
type Engine struct {
	*Server
	watch  *watcher               // what looks at the keys have shown
	timing atomic.Pointer[timing] // what the TTL that a stamp was asked for last means
	millis atomic.Pointer[boxed]  // the TTL that another mark was asked for last
	period atomic.Int64           // the Clients' longest RetryEvery, in nanoseconds
	margin atomic.Int64           // the Clients' greatest trust margin, in nanoseconds
	read   atomic.Int64           // elapsed time at which a guard's attempt last read the server's clock
}

// New returns an Engine on the server that pool dials. It sends nothing.
func New(pool *redis.Pool, settings Settings) (*Engine, error) {
	s, err := NewServer(pool, settings)
	if err != nil {
		return nil, err
	}
	return newEngine(s), nil
}

func newEngine(s *Server) *Engine {
	e := &Engine{Server: s}
	if s.Settings.Extender == nil {
		s.Settings.Extender = e
	}
	terms := s.Settings.Terms
	e.watch = newWatcher(e.poll(), max(terms.Greatest, terms.Lease), s.Settings.Clock != lock.Machine)
	e.period.Store(int64(e.poll()))
	return e
}

// poll returns the dialect's own pause between attempts, or the default.
func (e *Engine) poll() time.Duration {
	if poll := e.Settings.Dialect.Poll; poll > 0 {
		return poll
	}
	return DefaultPoll
}

// DefaultPoll is for dialects whose clients do not sleep between attempts.
const DefaultPoll = 100 * time.Millisecond

// Advise fills in times that suit the old clients' fleet. It also notes how
// often the Client will look at a held key. A value between whose looks more
// than three such periods pass does not count as unchanged.
func (e *Engine) Advise(cfg backend.Settings) backend.Settings {
	terms := e.Settings.Terms
	if cfg.TTL == 0 {
		cfg.TTL = terms.DefaultTTL()
	}
	if cfg.Margin == 0 {
		cfg.Margin = terms.DefaultMargin(cfg.TTL)
	}
	if cfg.RetryEvery == 0 {
		cfg.RetryEvery = e.poll()
	}
	raise(&e.period, cfg.RetryEvery)
	return cfg
}

// raise stores d at at, unless that has at least d.
func raise(at *atomic.Int64, d time.Duration) {
	for {
		have := at.Load()
		if int64(d) <= have || at.CompareAndSwap(have, int64(d)) {
			return
		}
	}
}

// Fits refuses times under which exclusion would not hold. It checks the lease
// rule (rule 4), what a settle must leave of a lease (rule 5), and how often L
// is looked at (rule 7).
func (e *Engine) Fits(ttl, renewEvery, margin time.Duration) error {
	terms, pkg := e.Settings.Terms, e.Settings.Package
	if err := e.Settings.Dialect.Fits(ttl, renewEvery, margin, terms); err != nil {
		return fmt.Errorf("%s: %w", pkg, err)
	}
	raise(&e.margin, margin)
	// A silent connection is left while there is time for a renewal on another.
	if e.Settings.Timeout == 0 {
		e.Mux.Shorten(ttl / 4)
	}
	if _, bound := e.Settings.Dialect.LongestLease(terms); !bound {
		return nil
	}
	unseen, field := renewEvery, "RenewEvery"
	if unseen <= 0 {
		unseen, field = ttl, "TTL without renewal"
	}
	if most := terms.Lease / 3; unseen > most {
		return fmt.Errorf("%s: %s %v exceeds %v, a third of Lease %v: a holder must look at the key that often",
			pkg, field, unseen, most, terms.Lease)
	}
	return nil
}

// Observe is that of the Server, with what this process saw on all keys.
func (e *Engine) Observe(ctx context.Context, key string) (Observation, error) {
	o, err := e.Server.Observe(ctx, key)
	o.Seen = e.watch.contradictions()
	return o, err
}

// Describe is that of the Server, with what this process knows of a holder.
func (e *Engine) Describe(ctx context.Context, key string) (backend.Info, error) {
	return e.describe(ctx, key, e.Held)
}

// Bounds returns the Behind and Ahead that the Engine uses, as in
// [dialect.Terms]. Each is what the settings claim plus what the server's clock
// has gained or lost on this process since its first look. The sum is rounded
// up to tenths of a second, so that a drift does not change it at every look.
// An unknown bound is zero, and so is one that was refuted.
func (e *Engine) Bounds() (behind, ahead time.Duration) {
	terms := e.Settings.Terms.Against(e.watch.contradictions())
	add := func(claim time.Duration, drift int64) time.Duration {
		d, known := dialect.Claimed(claim)
		if !known {
			return 0
		}
		return dialect.Claim(d + roundUp(time.Duration(drift), 100*time.Millisecond))
	}
	pace := &e.watch.pace
	return add(terms.Behind, pace.fast.Load()), add(terms.Ahead, pace.slow.Load())
}

// Told notes the lower bounds that other observers saw, Seen.Behind and
// Seen.Ahead, in place of those of an earlier call. A smaller claim is void.
func (e *Engine) Told(seen dialect.Seen) {
	e.watch.mu.Lock()
	defer e.watch.mu.Unlock()
	e.watch.told = seen
}

func (e *Engine) polite() *polite.Memory { return e.watch.polite }
