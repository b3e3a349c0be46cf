// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/getsetlock/getsetlock/internal/drift"
)

// never is later than any event.
const never = int64(drift.Never)

// Clock is the clock of a machine: true time plus an offset. The offset moves
// with the rate since the anchor, and changes at steps and slews. Its times are
// true ones, in ns.
type Clock struct {
	random   *rand.Rand
	clocks   *Clocks
	steps    *Steps
	slews    *Slews
	afflicts bool // steps and slews befall this machine, by Share
	gains    bool // slews only gain

	offset   int64
	rate     float64 // seconds gained per second
	own      float64 // rate without a slew
	anchor   int64
	change   int64 // the next of the three below, so that a reading checks only one
	nextStep int64
	nextSlew int64 // its beginning, or while slewing its end
	nextSet  int64 // when the offset is set back to first, each setEvery; never: not at all
	setEvery int64
	first    int64 // the offset at the start
	slewing  bool

	stepped   int64 // size of the last step
	steppedAt int64 // -1: never
	changes   int   // number of steps
}

// NewClock draws the clock of a machine and its first troubles, from time zero
// on.
func NewClock(random *rand.Rand, c *Clocks, afflicted bool) *Clock {
	k := new(Clock)
	k.set(random, c, afflicted, 0, 0)
	return k
}

// Next returns when the clock changes next: at a step, or where a slew begins
// or ends.
func (k *Clock) Next() time.Duration { return time.Duration(k.change) }

// Leg makes the next change, and returns how the clock runs from then on. leg
// is how it ran before.
func (k *Clock) Leg(leg drift.Leg) drift.Leg {
	next := leg.Then(k.Next())
	k.alter()
	return drift.Leg{From: next.From, Elapsed: next.Elapsed, Offset: time.Duration(k.offset), Rate: k.rate}
}

// First returns how the clock runs at the beginning.
func (k *Clock) First() drift.Leg { return drift.Leg{Offset: time.Duration(k.offset), Rate: k.rate} }

// Steps returns how often the clock has stepped.
func (k *Clock) Steps() int { return k.changes }

func (k *Clock) theta(t int64) int64 {
	if k.rate == 0 {
		return k.offset
	}
	return k.offset + int64(drift.Gained(time.Duration(t-k.anchor), k.rate))
}

// read returns what the client's clock shows at true time t. Readings must be
// in the order of time.
func (m *Simulator) read(c *simClient, t int64) int64 {
	for t >= c.clock.change {
		c.clock.alter()
	}
	return t + c.clock.theta(t)
}

// setClock draws a client's clock and its first troubles.
func (m *Simulator) setClock(c *simClient) {
	c.clock = Clock{}
	var more time.Duration
	if int(c.name) < len(m.Offsets) {
		more = m.Offsets[c.name]
	}
	afflicted := int(c.name) < drift.Afflicted(m.Clocks.Share, m.Clients)
	c.clock.set(m.random, &m.Clocks, afflicted, simulationStart, int64(more))
	if m.SetEvery > 0 {
		c.clock.setEvery, c.clock.nextSet = int64(m.SetEvery), simulationStart+int64(m.SetEvery)
		c.clock.plan()
	}
	c.pauseAt = never
	for i, p := range m.Clocks.Pauses {
		c.pauses[i] = m.now + m.until(p.Every, false)
		c.pauseAt = min(c.pauseAt, c.pauses[i])
	}
}

// set draws a clock and its first troubles from an instant on. more is added to
// its offset.
func (k *Clock) set(random *rand.Rand, c *Clocks, afflicted bool, at, more int64) {
	k.random, k.clocks, k.steps, k.slews, k.afflicts = random, c, &c.Step, &c.Slew, afflicted
	k.anchor, k.nextSet, k.steppedAt = at, never, -1
	if afflicted {
		k.offset = k.drawOffset()
	}
	k.troubles(at)
	if c.PPM > 0 {
		k.own = (2*random.Float64() - 1) * c.PPM / 1e6
		k.offset += int64(drift.Gained(c.Age, k.own))
	}
	k.offset += more
	k.rate, k.first = k.own, k.offset
}

// troubles draws the first step and the first slew after an instant.
func (k *Clock) troubles(at int64) {
	k.nextStep, k.nextSlew = never, never
	if s := k.steps; k.afflicts && s.Every > 0 {
		k.nextStep = at + k.until(s.Every, s.Once)
	}
	if s := k.slews; k.afflicts && s.Every > 0 {
		k.nextSlew = at + k.until(s.Every, s.Once)
	}
	k.plan()
}

func (k *Clock) plan() { k.change = min(k.nextStep, k.nextSlew, k.nextSet) }

func (k *Clock) drawOffset() int64 {
	o := k.clocks
	return int64(drift.Offsets{Low: o.Low, High: o.High, LogEven: o.LogEven,
		Choices: o.Choices}.Draw(k.random))
}

// until draws the time to the next trouble.
func (k *Clock) until(every time.Duration, once bool) int64 {
	return int64(drift.Until(k.random, every, once))
}

// until draws the time to the next trouble.
func (m *Simulator) until(every time.Duration, once bool) int64 {
	return int64(drift.Until(m.random, every, once))
}

// alter makes the next step, or begins or ends a slew.
func (k *Clock) alter() {
	t := k.change
	k.offset, k.anchor = k.theta(t), t
	switch t {
	case k.nextSet:
		k.setBack(t)
	case k.nextStep:
		before := k.offset
		k.offset = k.stepTo(before)
		k.stepped, k.steppedAt = k.offset-before, t
		k.changes++
		k.astray(t)
		k.nextStep = never
		if !k.steps.Once {
			k.nextStep = t + k.until(k.steps.Every, false)
		}
	default:
		k.slew(t)
	}
	k.plan()
}

// setBack begins a clock anew, together with troubles that come once.
func (k *Clock) setBack(t int64) {
	k.offset, k.nextSet = k.first, t+k.setEvery
	if k.afflicts && k.steps.Once {
		k.nextStep = t + int64(k.steps.Every)
	}
	if k.afflicts && k.slews.Once {
		k.slewing, k.rate, k.nextSlew = false, k.own, t+int64(k.slews.Every)
	}
	k.astray(t)
}

// astray ends a slew towards the right time when the clock's error has changed.
func (k *Clock) astray(t int64) {
	if k.slewing && k.slews.Towards {
		k.nextSlew = t
	}
}

func (k *Clock) stepTo(from int64) int64 {
	switch s := k.steps; s.Kind {
	case StepBy:
		return from + int64(s.By)
	case StepInward:
		return int64(drift.Inward(time.Duration(from), s.By))
	case StepRight:
		return 0
	}
	return k.drawOffset()
}

func (k *Clock) slew(t int64) {
	o := k.slews
	if k.slewing {
		k.slewing, k.rate, k.nextSlew = false, k.own, never
		if !o.Once {
			k.nextSlew = t + k.until(o.Every-o.For, false)
		}
		return
	}
	k.slewing, k.nextSlew = true, t+int64(o.For)
	if o.Towards {
		rate, span := drift.Towards(time.Duration(k.offset), k.own, o.PPM/1e6, o.For)
		k.rate, k.nextSlew = rate, t+int64(span)
		return
	}
	k.rate = k.own + o.PPM/1e6
	if !k.gains && k.random.IntN(2) == 0 {
		k.rate = k.own - o.PPM/1e6
	}
}

// idle returns when a client that waits until an instant continues: later, if
// it is paused then. What it waits for (a reply, a sleep) goes on meanwhile.
func (m *Simulator) idle(c *simClient, until int64) int64 {
	for c.pauseAt <= until {
		until = max(until, m.pause(c))
	}
	return until
}

// busy returns when a client has done so much work; pauses add to it.
func (m *Simulator) busy(c *simClient, from, work int64) int64 {
	end := from + work
	for c.pauseAt <= end {
		start := max(from, c.pauseAt)
		end += max(0, m.pause(c)-start)
	}
	return end
}

// pause returns the end of the next pause, and draws the one after it.
func (m *Simulator) pause(c *simClient) int64 {
	kinds, which := m.Clocks.Pauses, 0
	for i := range kinds {
		if c.pauses[i] < c.pauses[which] {
			which = i
		}
	}
	end := c.pauses[which] + int64(kinds[which].For)
	c.pauses[which] = end + m.until(kinds[which].Every, false)
	c.pauseAt = never
	for i := range kinds {
		c.pauseAt = min(c.pauseAt, c.pauses[i])
	}
	return end
}
