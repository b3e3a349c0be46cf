package lock

import (
	"context"
	"time"
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

// start is read once; elapsed time is the difference of two monotonic readings.
var start = time.Now()

func (machine) Now() time.Time                         { return time.Now() }
func (machine) After(d time.Duration) <-chan time.Time { return time.After(d) }
func (machine) Elapsed() time.Duration                 { return time.Since(start) }

// Instant is one moment as a Clock saw it in both its ways. To keep a lease the
// Client must be pessimistic: the age of an Instant is what the clock that ran
// further says.
type Instant struct {
	Wall    time.Time
	Elapsed time.Duration
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

func (k *keeper) reading(i Instant) reading { return reading{i.Wall.Sub(k.first), i.Elapsed} }

// nowReading reads the clock.
func (k *keeper) nowReading() reading { return k.reading(k.now()) }

// wall returns the wall clock's reading of s.
func (k *keeper) wall(s reading) time.Time { return k.first.Add(s.wall) }

func (k *keeper) now() Instant {
	if k.machine {
		// One reading holds both clocks. Round strips the monotonic part, so
		// that a difference of two walls is a difference of wall clocks.
		t := time.Now()
		return Instant{Wall: t.Round(0), Elapsed: t.Sub(start)}
	}
	wall := k.clock.Now().Round(0)
	if k.elapsed == nil {
		return Instant{Wall: wall, Elapsed: wall.Sub(time.Unix(0, 0))}
	}
	return Instant{Wall: wall, Elapsed: k.elapsed()}
}

// steps reports whether the clock can show a step, that is, whether its two
// readings can disagree.
func (k *keeper) steps() bool { return k.machine || k.elapsed != nil }

type keeperKey struct{}

// Mark reads the clock by which the caller of a Backend keeps trust: that of
// the Client that made ctx, else the machine's. A Backend calls it right before
// it sends the write that counts.
func Mark(ctx context.Context) Instant {
	if k, ok := ctx.Value(keeperKey{}).(*keeper); ok {
		return k.now()
	}
	return machineKeeper.now()
}

var machineKeeper = newKeeper(Machine)

// call is the context of one call of a Backend. It wraps the caller's context
// and holds the Client's clock. It is a type of its own to cost at most one
// allocation.
type call struct {
	context.Context
	keeper *keeper
}

func (c *call) Value(key any) any {
	if _, ok := key.(keeperKey); ok {
		return c.keeper
	}
	return c.Context.Value(key)
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
