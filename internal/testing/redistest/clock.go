// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/drift"
)

// Skew is how a client's clock differs from true time.
type Skew struct {
	Offset time.Duration // how far ahead of true time the clock starts; negative: behind
	PPM    float64       // how fast it gains, in parts per million; negative: it loses
}

// Clock is one client's view of the time of its world. Now shows its wall
// clock, which Step can move. After and Elapsed follow its monotonic clock,
// which runs at the same rate, never steps, and stands still while the client's
// machine is suspended. All methods may be called from any goroutine.
type Clock struct {
	t     testing.TB
	world timeline
	bell  *bell

	mu      sync.Mutex
	anchor  time.Time // true time at which wall and elapsed were last brought up to date
	wall    time.Time
	elapsed time.Duration
	ppm     float64
	asleep  bool
	frozen  bool
	apart   time.Duration // pause between two timers that Thaw makes fire; 0: they fire at one instant
	machine string        // boot id of the machine; empty: none
	timers  map[*timer]struct{}
	asked   int
	awaited map[int]chan struct{} // the channels to close, by the count of asked that closes them
}

type timer struct {
	due  time.Duration // when it fires, by Elapsed
	c    chan time.Time
	stop func() // stops the alarm; nil while suspended
}

func newClock(t testing.TB, world timeline, b *bell, s Skew) *Clock {
	now := world.now()
	return &Clock{t: t, world: world, bell: b, anchor: now, wall: now.Round(0).Add(s.Offset), ppm: s.PPM,
		timers: map[*timer]struct{}{}, awaited: map[int]chan struct{}{}}
}

// Now returns what the client's wall clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall.Add(c.ran())
}

// Elapsed returns what the client's monotonic clock shows: the time since the
// Clock was made, at its own rate, without steps and without the spans of
// suspension.
func (c *Clock) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsedNow()
}

// After returns a channel that receives the value of Now when d has passed on
// the monotonic clock. The channel is buffered, so a receiver that has gone
// blocks nothing.
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
		close(told) // last, since the receiver may pass time at once
		delete(c.awaited, c.asked)
	}
	c.bell.ring()
	return t.c
}

// Step moves the wall clock at once, as an administrator or a time daemon
// would.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// On puts the client on a machine. Clients on one machine share a boot id and
// an uptime, which runs at the true rate whatever the wall clock does.
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

// Apart makes Thaw fire the timers that fell due meanwhile one after the other,
// in the order in which they fell due, with this pause. Without it they fire at
// one instant, and their goroutines go on in any order.
func (c *Clock) Apart(pause time.Duration) *Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apart = pause
	return c
}

// booted is the instant at which every machine of every world started.
var booted = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Suspend puts the client's machine to sleep: the wall clock runs on, but the
// monotonic clock and the timers stand still until Resume. The client's
// goroutines are not stopped.
func (c *Clock) Suspend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	c.asleep = true
	c.rearm()
}

// Resume wakes the machine: its timers have as long to run as they had at
// Suspend.
func (c *Clock) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	c.asleep = false
	c.rearm()
}

// Freeze stops the client's process, as SIGSTOP does: both clocks run on, but
// no timer fires until Thaw. The client's goroutines are not stopped.
func (c *Clock) Freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = true
	c.rearm()
}

// Thaw continues the process. Timers that fell due meanwhile fire at once, or
// one after the other: see Apart.
func (c *Clock) Thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = false
	c.rearm()
}

// Timers returns how many timers are armed and have not fired yet. A timer
// whose receiver has gone counts until it fires.
func (c *Clock) Timers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// Asked returns how often After was called since the Clock was made.
func (c *Clock) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// AwaitTimers waits until at least n timers are armed; it is the handshake
// before time is moved. It fails the test if that takes longer than Patience.
func (c *Clock) AwaitTimers(n int) {
	c.t.Helper()
	c.bell.await(c.t, func() bool { return c.Timers() >= n }, func() string {
		return fmt.Sprintf("%d timers armed, waited for %d", c.Timers(), n)
	})
}

// AskedTimes returns a channel that is closed when After has been called n
// times in all. Use it instead of AwaitTimers where receivers abandon timers,
// which Timers still counts, and for code under test that may also end without
// a timer. Read Asked before that code starts:
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

// ran returns how much the clock has advanced since the anchor. It counts from
// the anchor and not from the last read, so that frequent reads do not add up
// rounding errors.
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
	byDue := func(a, b *timer) int { return cmp.Compare(a.due, b.due) }
	for i, t := range slices.SortedFunc(maps.Keys(c.timers), byDue) {
		if t.stop != nil {
			t.stop()
			t.stop = nil
		}
		c.armNoEarlier(t, time.Duration(i)*c.apart)
	}
}

func (c *Clock) arm(t *timer) { c.armNoEarlier(t, 0) }

// armNoEarlier arms t, which fires after least or when it is due, whichever
// comes later.
func (c *Clock) armNoEarlier(t *timer, least time.Duration) {
	if c.asleep || c.frozen {
		return
	}
	left := t.due - c.elapsedNow()
	wait := drift.Lasts(left, c.ppm/1e6)
	t.stop = c.world.afterFunc(max(wait, least), func() { c.fire(t) })
}

func (c *Clock) fire(t *timer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, pending := c.timers[t]; !pending || c.asleep || c.frozen {
		return // this call was already under way when Suspend or Freeze stopped the timer
	}
	if left := t.due - c.elapsedNow(); left > 0 {
		// Gains are cut to whole nanoseconds.
		t.stop = c.world.afterFunc(max(left/2, 1), func() { c.fire(t) })
		return
	}
	delete(c.timers, t)
	t.c <- c.wall.Add(c.ran())
	c.bell.ring()
}
