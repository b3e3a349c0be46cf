package simulate

import (
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// The server's clock in a simulation, what getsetlock clients know of it, and
// the looks that the server remembers for them. TTLs and getsetlock stamps
// follow that clock; everything else follows true time.

// ServerTroubles are the troubles of the server's clock. It is right at the
// beginning.
type ServerTroubles struct {
	Step Steps // by By or, if StepInward, back and forth
	Slew Slews // only gains
	// FailOver says that a step is a fail-over to another server, with another
	// clock and another run id.
	FailOver bool
}

// Any reports whether there are any troubles.
func (t ServerTroubles) Any() bool { return t.Step.Every > 0 || t.Slew.Every > 0 }

// check refuses troubles that the simulation cannot show.
func (t ServerTroubles) check() error {
	if t.Step.Every > 0 && t.Step.Kind != StepBy && t.Step.Kind != StepInward {
		return impossible("Clocks.Server.Step.Kind", quote(string(t.Step.Kind)), "by or inward")
	}
	return Clocks{Step: t.Step, Slew: t.Slew}.check()
}

// simServer is the server's clock.
type simServer struct {
	clock simClock
	time  int64 // what it shows at the last event, ns since 1970
	runs  int   // number of servers before this one
}

// setServer begins with a clock that is right.
func (m *Simulator) setServer() {
	k, t := &m.server.clock, m.Clocks.Server
	*k = simClock{anchor: simulationStart, nextStep: never, nextSlew: never, nextSet: never,
		steps: &m.Clocks.Server.Step, slews: &m.Clocks.Server.Slew}
	if t.Step.Every > 0 {
		k.nextStep = m.now + m.until(t.Step.Every, t.Step.Once)
	}
	if t.Slew.Every > 0 {
		k.nextSlew = m.now + m.until(t.Slew.Every, t.Slew.Once)
	}
	k.change = min(k.nextStep, k.nextSlew)
	m.server.time = m.now
}

// passServer moves the server's clock to a true time.
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

// ending returns when a TTL that the server sets now ends, by its clock.
func (m *Simulator) ending(ttl int64) int64 {
	end := m.server.time + ttl
	if m.tick > 0 {
		end += m.tick - (end-simulationStart)%m.tick
	}
	return end
}

// trueEnd returns the true time at which a TTL ends, as the server's clock goes
// now.
func (m *Simulator) trueEnd(expires int64) int64 {
	if expires == never {
		return never
	}
	return expires - (m.server.time - m.now)
}

// simKnows is what a getsetlock client knows of the server's clock.
type simKnows struct {
	met    bool
	last   int64 // the server's clock less the client's elapsed time, at the last reply
	gained int64 // what that has gained since the first reply
}

// hears receives a reply that has the server's time.
func (m *Simulator) hears(g *simMember) {
	off := m.server.time - m.now
	if g.knows.met {
		g.knows.gained += max(0, off-g.knows.last)
	}
	g.knows.met, g.knows.last = true, off
}

// simLook is M:look: the bytes, and the clock readings of the client that
// looked.
type simLook struct {
	value   simValue
	there   bool
	by      int32
	server  int64
	elapsed int64
	runs    int
}

// ourPast reports whether a getsetlock client may take over the stamp on L. If
// only a look is missing, it remembers one.
func (m *Simulator) ourPast(c *simClient, g *simMember) bool {
	k, margin := &m.key, int64(m.Ours.TakeoverMargin)
	_, claimed := dialect.Claimed(m.Ours.Terms.Behind)
	if claimed {
		margin += g.knows.gained
	}
	if m.server.time-m.server.time%m.rules.unit <= k.value.stamp+margin {
		return false
	}
	if claimed || m.lookedAt(c) {
		return true
	}
	if !m.looks.there || !m.rules.same(m.looks.value, k.value) || m.astray(c) {
		m.looks = simLook{k.value, true, c.name, m.server.time, m.now, m.server.runs}
	}
	return false
}

// lookedAt reports whether a look long enough ago showed the bytes that are on
// L.
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
	needed, known := m.Ours.Terms.LookAge(m.Dialect)
	return known && age > int64(needed)
}

// astray reports whether a look no longer counts and begins anew: another
// server answers or, for the client that looked, the two clocks disagree.
func (m *Simulator) astray(c *simClient) bool {
	l := &m.looks
	if l.runs != m.server.runs {
		return true
	}
	elapsed := m.now - l.elapsed
	apart := m.server.time - l.server - elapsed
	return c.name == l.by && max(apart, -apart) > int64(time.Second)+elapsed/1000
}
