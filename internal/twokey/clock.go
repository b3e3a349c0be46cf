// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/clocks"
)

// Clock is Settings.Clock with all its readings.
type Clock struct{ clocks.Clock }

// roundTrip says when a look was under way: the wall clock when it was sent,
// and elapsed time at both ends.
type roundTrip struct {
	wall           time.Time
	sent, received time.Duration
}

func (c Clock) begin() roundTrip { return roundTrip{wall: c.Now(), sent: c.Elapsed()} }

func (c Clock) end(r roundTrip) roundTrip {
	r.received = c.Elapsed()
	return r
}
