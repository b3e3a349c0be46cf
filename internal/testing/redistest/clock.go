package redistest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/drift"
)

// Skew is how one client's clock differs from the true time.
type Skew struct {
	Offset time.Duration // how far ahead of true time it starts; negative is behind
	PPM    float64       // how much it gains, in parts of a million; negative loses
}

// Clock is one client's view of the time of its world. Now is its wall clock, which Step can move;
// After and Elapsed follow its monotonic clock, which runs at the same rate, never steps, and stands
// still while the client's machine is suspended. All methods may be called from any goroutine.
type Clock struct {
	t     testing.TB
	world timeline
	bell  *bell

	mu      sync.Mutex
	anchor  time.Time // true time at which the four fields below were last settled
	wall    time.Time
	elapsed time.Duration
	ppm     float64
	asleep  bool
	machine string // its boot id; empty names none
	timers  map[*timer]struct{}
	asked   int
	awaited map[int]chan struct{} // by the count of asked at which each is closed
}

type timer struct {
	due  time.Duration // by Elapsed
	c    chan time.Time
	stop func() // nil while suspended
}

func newClock(t testing.TB, world timeline, b *bell, s Skew) *Clock {
	now := world.now()
	return &Clock{t: t, world: world, bell: b, anchor: now, wall: now.Round(0).Add(s.Offset), ppm: s.PPM, timers: map[*timer]struct{}{}, awaited: map[int]chan struct{}{}}
}

// Now is what the client's wall clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall.Add(c.ran())
}

// Elapsed is what the client's monotonic clock shows: time since the view was made, by its own rate,
// without its steps and without the spans it was suspended.
func (c *Clock) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsedNow()
}

// After sends what Now shows once d has gone by on the monotonic clock. The channel has room for the
// one value, so a receiver that went away holds up nobody.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	t := &timer{due: c.elapsedNow() + d, c: make(chan time.Time, 1)}
	if d <= 0 {
		t.c <- c.wall.Add(c.ran())
	} else {
		c.timers[t] = struct{}{}
		c.arm(t)
	}
	if told, ok := c.awaited[c.asked]; ok {
		close(told) // last: whoever is told may pass time at once
		delete(c.awaited, c.asked)
	}
	c.bell.ring()
	return t.c
}

// Step moves the wall clock at once, as an administrator or a time daemon would.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// On puts the client on a machine: its processes share a boot id and an uptime,
// which runs at the true rate, whatever the wall clock does.
func (c *Clock) On(machine string) *Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machine = machine
	return c
}

// Boot returns the machine's boot id and uptime, as lock.Machine does.
func (c *Clock) Boot() (id string, up time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.machine == "" {
		return "", 0
	}
	return c.machine, c.world.now().Sub(booted)
}

// booted is when every machine of every world was started.
var booted = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// SetRate makes the clock gain ppm parts of a million from now on.
func (c *Clock) SetRate(ppm float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	c.ppm = ppm
	c.rearm()
}

// Suspend puts the client's machine to sleep: its wall clock runs on, its monotonic clock and
// its timers stand still until Resume. Its goroutines are not stopped.
func (c *Clock) Suspend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	c.asleep = true
	c.rearm()
}

// Resume wakes the machine: timers have as long to go as they had at Suspend.
func (c *Clock) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	c.asleep = false
	c.rearm()
}

// Timers counts the timers asked for and not yet fired. One abandoned by its receiver counts until
// it fires.
func (c *Clock) Timers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// Asked counts all calls of After since the view was made.
func (c *Clock) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// AwaitTimers waits until at least n timers are armed: the handshake before time is moved. It fails
// the test if that takes half a minute of real time.
func (c *Clock) AwaitTimers(n int) {
	c.t.Helper()
	c.bell.await(c.t, func() bool { return c.Timers() >= n }, func() string {
		return fmt.Sprintf("%d timers armed, waited for %d", c.Timers(), n)
	})
}

// AwaitAsked waits until After has been called n times in all. It is the handshake where receivers
// abandon timers, so that Timers counts too many:
//
//	n := c.Asked()
//	w.Pass(poll)
//	c.AwaitAsked(n + 1)
func (c *Clock) AwaitAsked(n int) {
	c.t.Helper()
	c.bell.await(c.t, func() bool { return c.Asked() >= n }, func() string {
		return fmt.Sprintf("After called %d times, waited for %d", c.Asked(), n)
	})
}

// AskedTimes is closed as soon as After has been called n times in all: AwaitAsked for a select, where
// the code under test may also end without asking. Read Asked before that code starts:
//
//	asked := c.AskedTimes(c.Asked() + 1)
//	go func() { defer close(done); try() }()
//	select {
//	case <-asked:
//		w.Tick()
//	case <-done:
//	}
func (c *Clock) AskedTimes(n int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	told, ok := c.awaited[n]
	if !ok {
		told = make(chan struct{})
		if c.asked >= n {
			close(told)
			return told
		}
		c.awaited[n] = told
	}
	return told
}

// WallOnly is the clock without its monotonic side, for code that asks for Elapsed by type
// assertion and must also work where there is none.
func (c *Clock) WallOnly() WallOnly { return WallOnly{c} }

// WallOnly has Now and After of a Clock and hides Elapsed.
type WallOnly struct{ c *Clock }

// Now is Clock.Now.
func (w WallOnly) Now() time.Time { return w.c.Now() }

// After is Clock.After.
func (w WallOnly) After(d time.Duration) <-chan time.Time { return w.c.After(d) }

// ran is how much the clock has counted since the anchor. Counting from an anchor and not from the
// last read keeps a clock that is read often as exact as one that is read once.
func (c *Clock) ran() time.Duration {
	d := c.world.now().Sub(c.anchor)
	return d + drift.GainedPPM(d, c.ppm)
}

func (c *Clock) elapsedNow() time.Duration {
	if c.asleep {
		return c.elapsed
	}
	return c.elapsed + c.ran()
}

func (c *Clock) settle() {
	ran := c.ran()
	c.elapsed = c.elapsedNow()
	c.wall = c.wall.Add(ran)
	c.anchor = c.world.now()
}

func (c *Clock) rearm() {
	for t := range c.timers {
		if t.stop != nil {
			t.stop()
			t.stop = nil
		}
		c.arm(t)
	}
}

func (c *Clock) arm(t *timer) {
	if c.asleep {
		return
	}
	left := t.due - c.elapsedNow()
	wait := drift.Lasts(left, c.ppm/1e6)
	t.stop = c.world.afterFunc(max(wait, 0), func() { c.fire(t) })
}

func (c *Clock) fire(t *timer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, pending := c.timers[t]; !pending || c.asleep {
		return // a call that was under way when Suspend or SetRate stopped its timer
	}
	if left := t.due - c.elapsedNow(); left > 0 {
		// What was gained is cut to whole nanoseconds, and a rate may have changed since.
		t.stop = c.world.afterFunc(max(left/2, 1), func() { c.fire(t) })
		return
	}
	delete(c.timers, t)
	t.c <- c.wall.Add(c.ran())
	c.bell.ring()
}
