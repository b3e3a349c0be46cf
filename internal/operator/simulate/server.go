// SPDX-License-Identifier: Apache-2.0

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

// simServer is the server's clock.
type simServer struct {
	clock Clock
	time  int64 // what it shows at the last event, ns since 1970
}

// setServer begins with a clock that is right.
func (m *Simulator) setServer() {
	m.server.clock = Clock{random: m.random, anchor: simulationStart, nextSet: never, afflicts: true,
		gains: true, steps: &m.Clocks.Server.Step, slews: &m.Clocks.Server.Slew}
	m.server.clock.troubles(m.now)
	m.server.time = m.now
}

// passServer moves the server's clock to a true time.
func (m *Simulator) passServer(to int64) {
	k := &m.server.clock
	for to >= k.change {
		k.alter()
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
