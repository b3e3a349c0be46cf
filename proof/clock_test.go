// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// told is an old client's clock. Each reading shows what the schedule says, as
// a distance from the server's clock in ticks. The last of them stays.
type told struct {
	w    *redistest.World
	tick time.Duration
	more time.Duration // added to what the schedule says

	mu    sync.Mutex
	shows []int
}

func (c *told) show(ticks ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shows = ticks
}

func (c *told) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	off := 0
	if len(c.shows) > 0 {
		off = c.shows[0]
	}
	if len(c.shows) > 1 {
		c.shows = c.shows[1:]
	}
	return c.w.ServerNow().Add(time.Duration(off)*c.tick + c.more)
}

func (c *told) Elapsed() time.Duration { return c.w.Now().Sub(redistest.Start) }

// After never fires: the schedule is an old client's pace.
func (c *told) After(time.Duration) <-chan time.Time { return make(chan time.Time) }

// napper is the clock of a getsetlock client. The schedule ends its pauses.
type napper struct {
	*redistest.Clock
	stage *stage
	boot  string // boot id of the machine; empty if it has none
}

// Boot returns the machine's boot id and uptime.
func (c *napper) Boot() (id string, up time.Duration) {
	if c.boot == "" {
		return "", 0
	}
	return c.boot, c.stage.w.Now().Sub(redistest.Start)
}

// nap is a pause that the client asked for.
type nap struct {
	d    time.Duration
	wake chan time.Time
}

func (c *napper) After(d time.Duration) <-chan time.Time {
	n := &nap{d, make(chan time.Time, 1)}
	select {
	case c.stage.rest <- n:
	case <-c.stage.over:
	}
	return n.wake
}
