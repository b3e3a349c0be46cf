// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// spoken returns the plan's dialect, as changed by its flags.
func (p Plan) spoken() dialect.Dialect {
	d := p.Dialect
	if p.Protocol == "bare" {
		d = dialect.Bare()
	}
	if p.Poll > 0 {
		d.Poll = p.Poll
	}
	return d
}

// presetSpan is how long a preset's clocks drift and step before the new
// clients know the clock spread. The verb skew asks the law about the same
// span.
const presetSpan = 24 * time.Hour

// messages of an attempt, from the clock reading to the GETSET
const messages = 5

// terms returns what the new clients know of the old ones: the truth, if a
// client can be configured for it. Otherwise the new clients use their
// defaults, and the verdict excuses what follows.
func (p Plan) terms() (dialect.Terms, error) {
	d := p.spoken()
	assumed, err := d.Terms(dialect.Terms{Lease: p.Lease})
	switch {
	case errors.Is(err, dialect.ErrNoLease):
		return assumed, fmt.Errorf("--lease: %w", err)
	case err != nil:
		return assumed, fmt.Errorf("--lease, --spread: %w", err)
	}
	spread, gap := p.Spread, messages*p.Latency.Most()
	if p.Preset != "" {
		clocks := p.faults()
		spread = clocks.Spread(presetSpan)
		for _, stop := range clocks.Pauses {
			gap = max(gap, messages*p.Latency.Most()+stop.For)
		}
	}
	spread, gap = max(spread, assumed.Spread), max(gap, assumed.Gap)
	// The server's clock is one of the clocks in the spread. Where the spread
	// cannot be given, nothing is claimed of how far clocks are behind it. How
	// far they are ahead shortens no lease, so it is always told: otherwise a
	// fast clock looks like a long lease, and takeovers wait for that.
	type told struct{ spread, behind, gap time.Duration }
	choices := []told{{spread, spread, gap}, {spread, spread, assumed.Gap}}
	if p.Preset != "" {
		choices = append(choices, told{assumed.Spread, 0, gap}, told{assumed.Spread, 0, assumed.Gap})
	}
	for _, c := range choices {
		var t dialect.Terms
		if t, err = d.Terms(dialect.Terms{
			Lease: p.Lease, Spread: c.spread, Gap: c.gap, Behind: c.behind, Ahead: spread,
		}); err != nil {
			err = fmt.Errorf("--lease, --spread: %w", err)
			continue
		}
		if err = p.fits(t); err == nil {
			return t, nil
		}
	}
	return assumed, err
}

func legacyRules(p Plan, t dialect.Terms) rules {
	d := p.spoken()
	r := rules{sharing: !d.Excludes(), told: t.DefaultTTL(), margin: t.DefaultMargin(t.DefaultTTL())}
	if d.HasTakeover() {
		r.lease, r.spread, r.gap = t.Lease, t.Spread, t.Gap
	}
	if longest, bound := d.LongestLease(t); bound {
		r.honest = longest
	} else if d.ServerExpires() {
		r.honest = t.Lease
	}
	return r
}

// replyWithin is how long the server may take for an answer.
const replyWithin = 2 * time.Second

// replyWithin is how long a program waits for an answer. Its timer also runs
// while the machine is paused, so the longest pause is added.
func (p Plan) replyWithin() time.Duration {
	most := replyWithin + 2*p.Latency.Most()
	for _, stop := range p.faults().Pauses {
		most = max(most, replyWithin+2*p.Latency.Most()+stop.For)
	}
	return most
}

// legacy opens a store of legacy locks as any program does. It sends nothing
// yet.
func (p Plan) legacy(mode legacy.Mode, terms dialect.Terms, pool *redis.Pool,
	clock lock.Clock) (backend.Store, error) {
	return legacy.New(pool, legacy.Config{Mode: mode, Dialect: p.spoken(), Terms: terms, Clock: clock,
		Timeout: p.replyWithin()})
}

// fits reports whether clients can be made with these times, before a fleet is
// made.
func (p Plan) fits(terms dialect.Terms) error {
	nowhere := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, errDead }}
	for _, mode := range []legacy.Mode{legacy.Verbatim, legacy.Hardened} {
		if mode == legacy.Hardened && p.Protocol == "bare" {
			break
		}
		store, err := p.legacy(mode, terms, nowhere, nil)
		var c *lock.Client
		if err == nil {
			c, err = client(store, lock.Config{Wait: p.patience(terms)})
		}
		if err != nil {
			return fmt.Errorf("--lease, --spread: no %v client can be configured with these: %w", mode, err)
		}
		c.Close(context.Background())
	}
	return nil
}

// patience is long enough for a dead holder's lease to end, and for the ghosts
// after it to end. Ghosts are values that losers leave on a key that nobody
// holds, in dialects whose clients GETSET a missing key.
func (p Plan) patience(t dialect.Terms) time.Duration {
	if p.Patience > 0 {
		return p.Patience
	}
	return max(10*t.Lease, 30*time.Second)
}
