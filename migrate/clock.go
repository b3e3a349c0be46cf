package migrate

import (
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// clock is a Config's Clock with both its readings.
type clock struct {
	lock.Clock
	elapsed func() time.Duration
}

func newClock(c lock.Clock) clock {
	if c == nil {
		c = lock.Machine
	}
	if e, ok := c.(interface{ Elapsed() time.Duration }); ok {
		return clock{c, e.Elapsed}
	}
	start := c.Now()
	return clock{c, func() time.Duration { return c.Now().Sub(start) }}
}

// moment is one reading of both.
type moment struct {
	wall    time.Time
	elapsed time.Duration
}

func (c clock) moment() moment { return moment{c.Now(), c.elapsed()} }

// since is the greater of what the two say went by: a machine that was suspended knows only by its
// wall clock, one whose wall clock was set back only by the other.
func (c clock) since(m moment) time.Duration {
	now := c.moment()
	return max(now.wall.Sub(m.wall), now.elapsed-m.elapsed)
}
