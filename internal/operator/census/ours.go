// SPDX-License-Identifier: Apache-2.0

package census

import (
	"fmt"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// perhapsStampOfOurs is reading.PerhapsOurs with the leases and the claim that
// the census knows.
func (c *Census) perhapsStampOfOurs(r reading.Reading, now time.Time) bool {
	if !r.Dialects[0].HasStamp() {
		return false
	}
	return reading.PerhapsOurs(r.Stamp.Expiry.Sub(now), max(c.cfg.Lease, c.cfg.Greatest), claim(c.cfg.Ahead))
}

// perhapsOurs returns findings about keys with such a stamp.
func (c *Census) perhapsOurs() []Finding {
	var out []Finding
	for _, k := range c.inOrder() {
		if k.perhaps != "" && k.polled.exists && k.polled.value == k.perhaps {
			out = append(out, Finding{
				Severity: SeverityWarning, Kind: "perhaps_ours", DB: k.id.db, Key: k.id.name,
				What:   fmt.Sprintf("holds %s, %s", reading.ShortQuote(k.perhaps), reading.PerhapsOursIs),
				Advice: reading.PerhapsOursAdvice,
			})
		}
	}
	return out
}

// perhapsWon reports whether a GETSET that lost by its own dialect would have
// won by another dialect that writes the same form. Nothing shows which dialect
// a client runs.
func perhapsWon(q order, old, seen dialect.Reply, clock time.Time) bool {
	return slices.ContainsFunc(reading.Fitting(q.value, q.at, nil), func(d *dialect.Dialect) bool {
		return d.LegacyWins(old, seen, clock) == dialect.Won
	})
}
