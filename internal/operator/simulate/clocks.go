package simulate

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/drift"
)

// never is later than any event.
const never = int64(drift.Never)

// simClock is a client's clock: true time plus an offset. The offset moves with
// the rate since the anchor, and changes at steps and slews. Readings must be
// in the order of time.
type simClock struct {
	offset   int64
	rate     float64 // seconds gained per second
	own      float64 // rate without a slew
	anchor   int64
	change   int64 // the next of the three below, so that a reading checks only one
	nextStep int64
	nextSlew int64 // its beginning, or while slewing its end
	nextSet  int64 // when the offset is set back to first
	first    int64 // the offset at the start
	slewing  bool
	afflicts bool // steps and slews befall this client, by Share
	steps    *Steps
	slews    *Slews

	stepped   int64 // size of the last step
	steppedAt int64
}

func (k *simClock) theta(t int64) int64 {
	if k.rate == 0 {
		return k.offset
	}
	return k.offset + int64(drift.Gained(time.Duration(t-k.anchor), k.rate))
}

// read returns what the client's clock shows at true time t.
func (m *Simulator) read(c *simClient, t int64) int64 {
	for t >= c.clock.change {
		m.changeClock(&c.clock)
	}
	return t + c.clock.theta(t)
}

// setClock draws a client's clock and its first troubles.
func (m *Simulator) setClock(c *simClient) {
	k, o := &c.clock, m.Clocks
	k.afflicts = int(c.name) < drift.Afflicted(o.Share, m.Clients)
	k.anchor, k.nextStep, k.nextSlew, k.nextSet = simulationStart, never, never, never
	k.steps, k.slews = &m.Clocks.Step, &m.Clocks.Slew
	if k.afflicts {
		k.offset = m.drawOffset()
		if o.Step.Every > 0 {
			k.nextStep = m.now + m.until(o.Step.Every, o.Step.Once)
		}
		if o.Slew.Every > 0 {
			k.nextSlew = m.now + m.until(o.Slew.Every, o.Slew.Once)
		}
	}
	if int(c.name) < len(m.Offsets) {
		k.offset += int64(m.Offsets[c.name])
	}
	if o.PPM > 0 {
		k.own = (2*m.random.Float64() - 1) * o.PPM / 1e6
		k.offset += int64(drift.Gained(o.Age, k.own))
	}
	k.rate, k.steppedAt, k.first = k.own, -1, k.offset
	if m.SetEvery > 0 {
		k.nextSet = simulationStart + int64(m.SetEvery)
	}
	k.change = min(k.nextStep, k.nextSlew, k.nextSet)
	c.pauseAt = never
	for i, p := range o.Pauses {
		c.pauses[i] = m.now + m.until(p.Every, false)
		c.pauseAt = min(c.pauseAt, c.pauses[i])
	}
}

func (m *Simulator) drawOffset() int64 {
	o := m.Clocks
	return int64(drift.Offsets{Low: o.Low, High: o.High, LogEven: o.LogEven,
		Choices: o.Choices}.Draw(m.random))
}

// until draws the time to the next trouble.
func (m *Simulator) until(every time.Duration, once bool) int64 {
	return int64(drift.Until(m.random, every, once))
}

// changeClock makes the next step, or begins or ends a slew.
func (m *Simulator) changeClock(k *simClock) {
	t := k.change
	k.offset, k.anchor = k.theta(t), t
	switch t {
	case k.nextSet:
		m.setBack(k, t)
	case k.nextStep:
		before := k.offset
		k.offset = m.stepTo(k.steps, before)
		k.stepped, k.steppedAt = k.offset-before, t
		k.astray(t)
		k.nextStep = never
		if !k.steps.Once {
			k.nextStep = t + m.until(k.steps.Every, false)
		}
	default:
		m.slew(k, t)
	}
	k.change = min(k.nextStep, k.nextSlew, k.nextSet)
}

// setBack begins a clock anew, together with troubles that come once.
func (m *Simulator) setBack(k *simClock, t int64) {
	k.offset, k.nextSet = k.first, t+int64(m.SetEvery)
	if k.afflicts && k.steps.Once {
		k.nextStep = t + int64(k.steps.Every)
	}
	if k.afflicts && k.slews.Once {
		k.slewing, k.rate, k.nextSlew = false, k.own, t+int64(k.slews.Every)
	}
	k.astray(t)
}

// astray ends a slew towards the right time when the clock's error has changed.
func (k *simClock) astray(t int64) {
	if k.slewing && k.slews.Towards {
		k.nextSlew = t
	}
}

func (m *Simulator) stepTo(s *Steps, from int64) int64 {
	switch s.Kind {
	case StepBy:
		return from + int64(s.By)
	case StepInward:
		return int64(drift.Inward(time.Duration(from), s.By))
	case StepRight:
		return 0
	}
	return m.drawOffset()
}

func (m *Simulator) slew(k *simClock, t int64) {
	o := k.slews
	if k.slewing {
		k.slewing, k.rate, k.nextSlew = false, k.own, never
		if !o.Once {
			k.nextSlew = t + m.until(o.Every-o.For, false)
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
	if k != &m.server.clock && m.random.IntN(2) == 0 {
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
