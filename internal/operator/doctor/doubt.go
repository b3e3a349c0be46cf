// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
)

// doubt returns what contradicts a claimed Behind; empty: nothing does, or
// nothing is claimed. What a watch saw voids the claim and never replaces it.
func (c *Config) doubt() string {
	claim, claimed := dialect.Claimed(c.Behind)
	if !claimed {
		return ""
	}
	if len(c.Dialects) == 0 {
		return "no dialect is named (--dialect), so the time in a value may be the start of a lease as well as its end"
	}
	e := c.Evidence
	if e == nil {
		return ""
	}
	if b := e.Behind.AtLeast; b > claim {
		return fmt.Sprintf(
			"the watch saw a clock that is at least %s behind the server's, unless a lease is shorter or a gap longer than given",
			roughly(b))
	}
	for i := range e.Writers {
		if w := &e.Writers[i]; w.Starts {
			return "the watch saw " + w.StartsWhat()
		}
	}
	for _, k := range e.Keys {
		if past := c.livePast(k.FoundLive); past > claim {
			return fmt.Sprintf("old clients took a value for live %s after its time by the server's clock",
				roughly(past))
		}
	}
	return ""
}

// livePast returns how long the server's clock was past a stamp when an old
// client found the stamp live; 0 where no client did.
func (c *Config) livePast(found census.Found) time.Duration {
	if !found.Still {
		return 0
	}
	for _, d := range c.Dialects {
		if s, err := d.Decode(found.Value, found.Last); err == nil {
			return found.Last.Sub(s.Expiry)
		}
	}
	return 0
}

// behindOf returns how far the slowest client's clock is behind the server's,
// as claimed. It returns false if that is unknown or contradicted.
func (x *examiner) behindOf() (time.Duration, bool) {
	if x.doubt != "" {
		return 0, false
	}
	return dialect.Claimed(x.cfg.Behind)
}

// aheadOf returns how far the fastest client's clock is ahead, by the same
// rules.
func (x *examiner) aheadOf() (time.Duration, bool) {
	claim, claimed := dialect.Claimed(x.cfg.Ahead)
	if e := x.cfg.Evidence; e != nil && claimed && e.Ahead.AtLeast > claim {
		return 0, false
	}
	return claim, claimed
}

// longer returns how much longer than the greatest lease some client's lease
// may be: the watch saw a stamp so far ahead, less what is claimed of clocks.
func (x *examiner) longer() time.Duration {
	if e := x.cfg.Evidence; e != nil && e.Ahead.AtLeast > 0 {
		return max(0, e.Ahead.AtLeast-dialect.Bound(x.cfg.Ahead))
	}
	return 0
}

// orBehind ends an advice: a claimed Behind would free the lock too, or why the
// given one does not.
func (x *examiner) orBehind() string {
	if claim, _ := dialect.Claimed(x.cfg.Behind); x.doubt != "" {
		return fmt.Sprintf("; --behind %v does not count: %s", claim, x.doubt)
	}
	return "; or give how far the slowest clock is behind the server's (--behind, with --dialect)"
}
