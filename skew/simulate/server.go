package simulate

import (
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// The server's clock in a simulation, what ours know of it, and the looks that they remember on the server.
// TTLs and the stamps of ours are by that clock; everything else keeps true time.

// ServerTroubles are what befalls the server's clock. It is right in the beginning.
type ServerTroubles struct {
	Step Steps // by By, or, if StepInward, to and fro
	Slew Slews // gains only
	// FailOver: a step is a fail-over to another server, whose clock is elsewhere and whose run id is another.
	FailOver bool
}

// Any says whether there are any.
func (t ServerTroubles) Any() bool { return t.Step.Every > 0 || t.Slew.Every > 0 }

// check allows a server no trouble of which the simulation has no account.
func (t ServerTroubles) check() error {
	if t.Step.Every > 0 && t.Step.Kind != StepBy && t.Step.Kind != StepInward {
		return impossible("Clocks.Server.Step.Kind", quote(string(t.Step.Kind)), "by or inward")
	}
	return Clocks{Step: t.Step, Slew: t.Slew}.check()
}

// simServer is the server's clock.
type simServer struct {
	clock simClock
	time  int64 // what it shows at the time of the last event
	runs  int   // how many servers there have been before
}

// setServer begins with a clock that is right.
func (m *Simulator) setServer() {
	k, t := &m.server.clock, m.Clocks.Server
	*k = simClock{anchor: simulationStart, nextStep: never, nextSlew: never, nextSet: never, steps: &m.Clocks.Server.Step, slews: &m.Clocks.Server.Slew}
	if t.Step.Every > 0 {
		k.nextStep = m.now + m.until(t.Step.Every, t.Step.Once)
	}
	if t.Slew.Every > 0 {
		k.nextSlew = m.now + m.until(t.Slew.Every, t.Slew.Once)
	}
	k.change = min(k.nextStep, k.nextSlew)
	m.server.time = m.now
}

// passServer lets the server's clock go on to true time.
func (m *Simulator) passServer(to int64) {
	k := &m.server.clock
	for to >= k.change {
		if k.change == k.nextStep && m.Clocks.Server.FailOver {
			m.server.runs++
		}
		m.changeClock(k)
	}
	m.server.time = to + k.theta(to)
}

// trueEnd is when a TTL that ends by the server's clock ends by true time, as the clock goes now.
func (m *Simulator) trueEnd(expires int64) int64 {
	if expires == never {
		return never
	}
	return expires - (m.server.time - m.now)
}

// simKnows is what one of ours knows of the server's clock.
type simKnows struct {
	met    bool
	last   int64 // the server's clock less its own elapsed time, when it last heard
	gained int64 // what that has gained since it first did
}

// hears is a reply with the server's time in it.
func (m *Simulator) hears(g *simMember) {
	off := m.server.time - m.now
	if g.knows.met {
		g.knows.gained += max(0, off-g.knows.last)
	}
	g.knows.met, g.knows.last = true, off
}

// simLook is M's look: the bytes, and the readings of whoever looked.
type simLook struct {
	value   simValue
	there   bool
	by      int32
	server  int64
	elapsed int64
	runs    int
}

// behindKnown: ours know how far the slowest old clock is behind this server.
func (m *Simulator) behindKnown() bool {
	_, claimed := dialect.Claimed(m.Ours.Terms.Behind)
	return claimed && (!m.Ours.Measured || m.server.runs == 0)
}

// ourPast: the stamp on L may be taken over by one of ours. It remembers a look where that is still to come.
func (m *Simulator) ourPast(c *simClient, g *simMember) bool {
	k, margin := &m.key, int64(m.Ours.TakeoverMargin)
	known := m.behindKnown()
	switch {
	case known:
		margin += g.knows.gained
	case m.Ours.Measured:
		margin = int64(dialect.Terms{Spread: m.Ours.Terms.Spread}.TakeoverMargin())
	}
	if m.server.time-m.server.time%m.rules.unit <= k.value.stamp+margin {
		return false
	}
	if known || m.lookedAt(c) {
		return true
	}
	if !m.looks.there || !m.rules.same(m.looks.value, k.value) || m.astray(c) {
		m.looks = simLook{k.value, true, c.name, m.server.time, m.now, m.server.runs}
	}
	return false
}

// lookedAt: a look long enough ago showed the bytes that are on L.
func (m *Simulator) lookedAt(c *simClient) bool {
	l := &m.looks
	if !l.there || !m.rules.same(l.value, m.key.value) || m.astray(c) {
		return false
	}
	age := m.server.time - l.server
	if c.name == l.by {
		age = min(age, m.now-l.elapsed)
	} else {
		age = 9*age/10 - int64(m.Ours.Margin)
	}
	return age > int64(m.Ours.Terms.LookAge(m.Dialect))
}

// astray: another server answers, or, to the client that looked, two clocks disagree. The look begins anew.
func (m *Simulator) astray(c *simClient) bool {
	l := &m.looks
	if l.runs != m.server.runs {
		return true
	}
	elapsed := m.now - l.elapsed
	apart := m.server.time - l.server - elapsed
	return c.name == l.by && max(apart, -apart) > int64(time.Second)+elapsed/1000
}
