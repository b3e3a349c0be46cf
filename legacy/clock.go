package legacy

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/lock"
)

// clock is Config.Clock with all its readings.
type clock struct {
	lock.Clock
	since func() time.Duration
	boot  look.Machine
}

func newClock(c lock.Clock) clock {
	start := c.Now()
	full := clock{
		Clock: c,
		since: func() time.Duration { return c.Now().Sub(start) },
		boot:  func() (string, time.Duration) { return "", 0 },
	}
	if e, ok := c.(interface{ Elapsed() time.Duration }); ok {
		full.since = e.Elapsed
	}
	if b, ok := c.(interface {
		Boot() (string, time.Duration)
	}); ok {
		full.boot = b.Boot
	}
	return full
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
