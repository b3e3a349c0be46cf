// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/internal/call"
)

// Clock is where a Client reads time. Every clock of
// github.com/benbjohnson/clock is a Clock.
//
// A Clock may also have a method Elapsed() time.Duration: the time since some
// fixed moment, never set back and not moved when the wall clock is stepped. If
// it has none, elapsed time is taken from Now, and a step of that clock looks
// like time that passed.
//
// A Clock may have a method Boot() (id string, up time.Duration) too: an
// identifier of this boot of the machine and the time since then, suspension
// included. With it, two processes of one machine agree on how much time passed
// between them.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Machine is the machine's own clock: the system's wall clock, and Go's
// monotonic clock for elapsed time. On Linux the monotonic clock stands still
// while the machine is suspended, and NTP slews it together with the wall
// clock.
var Machine Clock = machine{}

type machine struct{}

func (machine) Now() time.Time                         { return time.Now() }
func (machine) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (machine) Elapsed() time.Duration {
	_, elapsed := call.Machine()
	return elapsed
}

// reading is an Instant in two fifths of its memory, for the Instants that are
// kept with every lease. It holds the wall clock as the difference to a
// keeper's first reading, which is enough for 292 years each way.
type reading struct {
	wall    time.Duration
	elapsed time.Duration
}

// age is how long before now s was, by the clock that ran further.
func (s reading) age(now reading) time.Duration {
	return max(now.wall-s.wall, now.elapsed-s.elapsed)
}

// keeper reads Instants from a Clock.
type keeper struct {
	clock   Clock
	elapsed func() time.Duration // nil: taken from the wall clock
	machine bool
	first   time.Time // first reading of the wall clock
}

func newKeeper(c Clock) keeper {
	k := keeper{clock: c}
	if _, ok := c.(machine); ok {
		k.machine = true
	} else if e, ok := c.(interface{ Elapsed() time.Duration }); ok {
		k.elapsed = e.Elapsed
	}
	k.first = k.now().Wall
	return k
}

func (k *keeper) reading(i backend.Instant) reading { return reading{i.Wall.Sub(k.first), i.Elapsed} }

// nowReading reads the clock.
func (k *keeper) nowReading() reading { return k.reading(k.now()) }

// wall returns the wall clock's reading of s.
func (k *keeper) wall(s reading) time.Time { return k.first.Add(s.wall) }

func (k *keeper) now() (now backend.Instant) {
	now.Wall, now.Elapsed = k.Read()
	return now
}

// Read makes a keeper the clock of a call's context.
func (k *keeper) Read() (wall time.Time, elapsed time.Duration) {
	if k.machine {
		return call.Machine()
	}
	wall = k.clock.Now().Round(0)
	if k.elapsed == nil {
		return wall, wall.Sub(time.Unix(0, 0))
	}
	return wall, k.elapsed()
}

// steps reports whether the clock can show a step, that is, whether its two
// readings can disagree.
func (k *keeper) steps() bool { return k.machine || k.elapsed != nil }

// call returns the context for one call of the backend.
func (k *core) call(ctx context.Context) context.Context {
	if k.keeper.machine {
		return ctx // backend.ReadClock reads the machine's clock by itself
	}
	return call.WithClock(ctx, &k.keeper)
}

// releaseContext bounds the wait for a reply of the store, if the backend does
// not do so itself. Network deadlines run in real time whatever the Client's
// clock is: a mocked clock does not make a silent server answer. cancel is nil
// if there is nothing to cancel.
func (k *core) releaseContext(d time.Duration) (ctx context.Context, cancel context.CancelFunc) {
	if k.prompt > 0 && k.prompt <= d {
		return k.call(context.Background()), nil
	}
	ctx, cancel = context.WithTimeout(context.Background(), d)
	return k.call(ctx), cancel
}

// closeGrace is how long Close waits after the end of its context for the work
// that it has cancelled. So in a healthy process nothing runs when Close
// returns.
const closeGrace = 100 * time.Millisecond

// within waits until done is closed. It reports whether that was before ctx
// ended, or within closeGrace after.
func within(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	grace := time.NewTimer(closeGrace) // real time, like ctx
	defer grace.Stop()
	select {
	case <-done:
		return true
	case <-grace.C:
		return false
	}
}
