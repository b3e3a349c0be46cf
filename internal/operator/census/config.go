// SPDX-License-Identifier: Apache-2.0

package census

import (
	"cmp"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Config says what to count and what is known of the fleet. The zero value
// counts every key that carries a stamp.
type Config struct {
	// Match is a pattern as SCAN takes it; keys that do not match are left out.
	// A key that a serializer of Spring encoded is matched by the name inside.
	// Defaults to "*".
	Match string
	// DB is the number of the database that the pool's connections use. MONITOR
	// shows commands of all databases; only those of this one are counted.
	// Defaults to what the server reports about the pool's connections.
	DB int

	// Dialects are the dialects that the fleet is known to speak. Without any,
	// the presets are tried, the fitting ones are named, and offsets are as
	// wide as those presets differ.
	Dialects []dialect.Dialect
	// Lease is what all clients add to their clocks; if Greatest is more, it is
	// the smallest lease. Defaults to a guess for each writer, which is
	// reported as a guess.
	Lease time.Duration
	// Greatest is the greatest lease of any old client. Defaults to Lease.
	Greatest time.Duration
	// Job, Spread and Gap are claims: the longest job, the spread of the
	// clocks, and the longest time from a clock reading to its GETSET. A claim
	// is used if nothing is measured, and refuted if more is measured. 0 claims
	// nothing; [dialect.Zero] claims zero.
	Job, Spread, Gap time.Duration
	// Behind and Ahead claim how far the slowest old client's clock is behind
	// the server's, and the fastest one's ahead of it; 0 and [dialect.Zero]
	// mean the same as in Spread.
	Behind, Ahead time.Duration
	// LeaseChecked claims that Lease was checked once more where it is
	// configured, although what clients write looks like a smaller lease.
	LeaseChecked bool
	// PollEvery is the least time between two looks at the same key. Defaults
	// to 100 ms.
	PollEvery time.Duration
	// MaxKeys bounds how many keys are looked at, and MaxWriters how many
	// writers are remembered. Both default to 1000.
	MaxKeys, MaxWriters int
}

// Filled returns c with its defaults. It refuses impossible values with an
// error that names the field.
func (c Config) Filled() (Config, error) {
	c.Match = cmp.Or(c.Match, "*")
	c.PollEvery = cmp.Or(c.PollEvery, 100*time.Millisecond)
	c.MaxKeys = cmp.Or(c.MaxKeys, 1000)
	c.MaxWriters = cmp.Or(c.MaxWriters, 1000)
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"Lease", c.Lease}, {"Greatest", c.Greatest}, {"Job", claim(c.Job)}, {"Spread", claim(c.Spread)},
		{"Gap", claim(c.Gap)},
		{"Behind", claim(c.Behind)}, {"Ahead", claim(c.Ahead)}, {"PollEvery", c.PollEvery},
	} {
		if f.value < 0 {
			return c, fmt.Errorf("audit: %s %v: must be at least 0", f.name, f.value)
		}
	}
	if longest := max(c.Lease, c.Greatest); longest > dialect.LongestStamp {
		return c, fmt.Errorf("audit: Lease %v, Greatest %v: must be at most %v", c.Lease, c.Greatest,
			dialect.LongestStamp)
	}
	if c.Greatest > 0 && c.Greatest < c.Lease {
		return c, fmt.Errorf("audit: Greatest %v: must be at least Lease %v", c.Greatest, c.Lease)
	}
	if c.MaxKeys < 0 || c.MaxWriters < 0 || c.DB < 0 {
		return c, fmt.Errorf("audit: MaxKeys %d, MaxWriters %d, DB %d: must be at least 0", c.MaxKeys,
			c.MaxWriters, c.DB)
	}
	for _, d := range c.Dialects {
		if err := d.Validate(); err != nil {
			return c, fmt.Errorf("audit: Dialects: %w", err)
		}
	}
	return c, nil
}

// claim returns the claimed value; 0 if nothing is claimed.
func claim(field time.Duration) time.Duration {
	d, _ := dialect.Claimed(field)
	return d
}
