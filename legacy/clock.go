package legacy

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/clocks"
)

// clock is Config.Clock with all its readings.
type clock struct{ clocks.Clock }

// roundTrip says when a look was under way: the wall clock when it was sent,
// and elapsed time at both ends.
type roundTrip struct {
	wall           time.Time
	sent, received time.Duration
}

func (c clock) begin() roundTrip { return roundTrip{wall: c.Now(), sent: c.Elapsed()} }

func (c clock) end(r roundTrip) roundTrip {
	r.received = c.Elapsed()
	return r
}
