// SPDX-License-Identifier: Apache-2.0

// Package clocks reads everything that a [lock.Clock] can tell.
package clocks

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/lock"
)

// Clock is a lock.Clock with the readings that it may have in addition.
type Clock struct {
	lock.Clock
	// elapsed time since some fixed moment; steps of the wall clock do not
	// change it
	Elapsed func() time.Duration
	Boot    look.Machine // the machine's boot id and uptime; an empty id where the clock has none
}

// New returns the readings of c. A nil c is [lock.Machine]. If c has no elapsed
// time of its own, Elapsed uses its wall clock.
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

// Since returns the greater of the two times that have passed since m. Only the
// wall clock counts while a machine is suspended. Only elapsed time is right
// after the wall clock was set back.
func (c Clock) Since(m Moment) time.Duration {
	now := c.Moment()
	return max(now.Wall.Sub(m.Wall), now.Elapsed-m.Elapsed)
}
