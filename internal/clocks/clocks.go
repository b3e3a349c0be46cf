// Package clocks reads everything that a [lock.Clock] can say.
package clocks

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/lock"
)

// Clock is a lock.Clock with the readings that it may have besides.
type Clock struct {
	lock.Clock
	Elapsed func() time.Duration // since some fixed moment; no step of the wall clock changes it
	Boot    look.Machine         // an empty id where the clock knows none
}

// New returns the readings of c. A nil c is [lock.Machine]. Where c has no
// elapsed time of its own, Elapsed is by its wall clock.
func New(c lock.Clock) Clock {
	if c == nil {
		c = lock.Machine
	}
	start := c.Now()
	full := Clock{
		Clock:   c,
		Elapsed: func() time.Duration { return c.Now().Sub(start) },
		Boot:    func() (string, time.Duration) { return "", 0 },
	}
	if e, ok := c.(interface{ Elapsed() time.Duration }); ok {
		full.Elapsed = e.Elapsed
	}
	if b, ok := c.(interface {
		Boot() (string, time.Duration)
	}); ok {
		full.Boot = b.Boot
	}
	return full
}

// Moment is one reading of both times.
type Moment struct {
	Wall    time.Time
	Elapsed time.Duration
}

// Moment reads both times now.
func (c Clock) Moment() Moment { return Moment{c.Now(), c.Elapsed()} }

// Since is the greater of what the two times say went by. A machine that was
// suspended knows only by its wall clock; one whose wall clock was set back
// knows only by its elapsed time.
func (c Clock) Since(m Moment) time.Duration {
	now := c.Moment()
	return max(now.Wall.Sub(m.Wall), now.Elapsed-m.Elapsed)
}
