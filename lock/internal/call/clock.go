// SPDX-License-Identifier: Apache-2.0

package call

import "time"

// start is read once; elapsed time is the difference of two monotonic readings.
var start = time.Now()

// Machine reads both clocks of the machine by one look. Round strips the
// monotonic part, so that a difference of two walls is a difference of wall
// clocks.
func Machine() (wall time.Time, elapsed time.Duration) {
	t := time.Now()
	return t.Round(0), t.Sub(start)
}
