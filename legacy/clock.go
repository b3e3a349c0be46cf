package legacy

import (
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// clock is Config.Clock with both its readings.
type clock struct {
	lock.Clock
	since func() time.Duration
}

func newClock(c lock.Clock) clock {
	if e, ok := c.(interface{ Elapsed() time.Duration }); ok {
		return clock{c, e.Elapsed}
	}
	start := c.Now()
	return clock{c, func() time.Duration { return c.Now().Sub(start) }}
}

// span is when a look was under way: wall clock when it was sent, elapsed times of both its ends.
type span struct {
	wall           time.Time
	sent, received time.Duration
}

func (c clock) begin() span { return span{wall: c.Now(), sent: c.since()} }

func (c clock) end(s span) span {
	s.received = c.since()
	return s
}
