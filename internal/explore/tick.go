// SPDX-License-Identifier: Apache-2.0

package explore

// Due reports whether an old client, or the server's clock, must act before
// time may pass.
func (m *Machine) Due(s *State) bool {
	for i := range m.Old {
		if m.clientDue(&s.Old[i]) {
			return true
		}
	}
	return m.StepUndone && int(s.Server) > m.Lease
}

// clientDue reports whether c's attempt or job has reached its longest.
func (m *Machine) clientDue(c *Client) bool {
	switch {
	case c.PC == AtIdle, c.PC == AtRests:
		return false
	case c.Holds():
		return !m.Overrun && int(c.Age) >= m.Job
	case c.PC == AtReply:
		return int(c.Age) >= m.Reply
	}
	return int(c.Age) >= m.Gap
}

// Tick lets one tick pass.
func (m *Machine) Tick(s *State) {
	if m.ServerStep > 0 && s.Server > 0 {
		s.Server = min(s.Server+1, int8(m.Lease)+2)
	}
	s.Within = (s.Within + 1) % m.Grain
	if s.L.Kind == StampMark {
		s.L.At = max(s.L.At-1, m.Floor)
	}
	s.L.shorten(1)
	for i := range m.Old {
		m.passClient(&s.Old[i])
	}
}

// shorten takes ticks from a TTL, if there is one. At its end the value is
// gone.
func (m *Mark) shorten(by int8) {
	if m.TTL == 0 {
		return
	}
	if m.TTL -= by; m.TTL <= 0 {
		*m = Mark{}
	}
}

func (m *Machine) passClient(c *Client) {
	switch c.PC {
	case AtIdle:
		return
	case AtRests:
		if c.Age++; int(c.Age) >= m.Rest {
			*c = Client{}
		}
		return
	}
	if !c.Holds() || !m.Overrun {
		c.Age++
	}
	if m.Dialect.HasTakeover() && (m.keepsStamp || !c.Holds()) {
		c.Stamp = max(c.Stamp-1, m.Floor)
	}
	if c.Seen.Kind == StampMark {
		c.Seen.At = max(c.Seen.At-1, m.Floor)
	}
}

// StepServer moves the server's clock. Every distance from it changes, and
// every TTL with it.
func (m *Machine) StepServer(s *State, by int8) {
	s.Fleet -= by
	s.Within = int8(m.Below(s, int(by)))
	if s.Server == 0 {
		s.Server = 1
	} else {
		s.Server = -1
	}
	if s.L.Kind == StampMark {
		s.L.At = max(s.L.At-by, m.Floor)
	}
	s.L.shorten(by)
	for i := range m.Old {
		c := &s.Old[i]
		if m.Dialect.HasTakeover() && c.PC > AtRests && (m.keepsStamp || !c.Holds()) {
			c.Stamp = max(c.Stamp-by, m.Floor)
		}
		if c.Seen.Kind == StampMark {
			c.Seen.At = max(c.Seen.At-by, m.Floor)
		}
	}
}
