// SPDX-License-Identifier: Apache-2.0

package offset

import (
	"fmt"
	"time"
)

// roundLeases are the leases that people usually configure.
var roundLeases = []time.Duration{
	time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
	20 * time.Second, 30 * time.Second, 45 * time.Second, time.Minute, 90 * time.Second, 2 * time.Minute,
	3 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// SnapLease guesses a lease that is not known. assumed is the lease that the
// writes were added with, and offset the result. A lease that is wrong by x
// moves the offset by x, so the sum is known and its parts are not. SnapLease
// returns the round number nearest to the sum, with a warning that must be
// shown. ok is false where no round number is clearly nearest.
//
// Relative offsets within a fleet that shares one lease need no guess. They are
// exact, and only they matter for safety.
func SnapLease(assumed time.Duration, offset Interval) (lease time.Duration, warning string, ok bool) {
	if !offset.Bounded() || offset.Low > offset.High {
		return 0, "", false
	}
	sum := offset.Shift(assumed)
	middle := sum.Low + (sum.High-sum.Low)/2
	best, second := NoHigh, NoHigh
	for _, l := range roundLeases {
		switch away := (middle - l).Abs(); {
		case away < best:
			best, second, lease = away, best, l
		case away < second:
			second = away
		}
	}
	// The number must be four times nearer than any other, and no further away
	// than a tenth of itself.
	if reach := best + sum.Width()/2; 4*reach > second || reach > lease/10 {
		return 0, "", false
	}
	warning = fmt.Sprintf("lease %v is a guess, the round number nearest to what was written; "+
		"offsets are right only if it is, relative ones if all clients share it", lease)
	return lease, warning, true
}
