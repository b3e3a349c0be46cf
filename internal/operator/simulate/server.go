package simulate

// The server's clock in a simulation. TTLs follow that clock; everything else
// follows true time.

// ServerTroubles are the troubles of the server's clock. It is right at the
// beginning.
type ServerTroubles struct {
	Step Steps // by By or, if StepInward, back and forth
	Slew Slews // only gains
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
