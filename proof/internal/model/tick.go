// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/getsetlock/getsetlock/internal/explore"

// due reports whether a client must act before time may pass.
func (m *machine) due(s *state) bool {
	for i := range m.Ours.Clients {
		if m.ourDue(&s.our[i]) {
			return true
		}
	}
	return m.old.Due(&s.State)
}

// ourDue reports whether c's trust has ended, it has to look at L, or its job
// has to have stopped.
func (m *machine) ourDue(c *ourClient) bool {
	switch c.pc {
	case ourHolds:
		return m.trustOver(c) || c.flags&flagWoken != 0
	case ourLost:
		return int(c.life) >= m.Ours.Stop
	}
	return false
}

// tick lets one tick pass everywhere.
func (m *machine) tick(s *state) {
	before := s.L
	m.old.Tick(&s.State)
	m.ended(s, before) // while M still names its owner
	if s.lost > 0 {
		s.lost = min(s.lost+1, m.waits+2)
	}
	if s.look.kind != explore.NoMark {
		s.look.at, s.look.age = max(s.look.at-1, m.old.Floor), min(s.look.age+1, m.lookCap)
	}
	if s.m.who != explore.Nobody {
		if s.m.ttl--; s.m.ttl == 0 {
			s.m = token{}
		} else {
			s.m.at = max(s.m.at-1, m.old.Floor)
		}
	}
	for i := range m.Ours.Clients {
		m.passOur(&s.our[i])
	}
}

// ended notes the end of a mark whose TTL is over.
func (m *machine) ended(s *state, before explore.Mark) {
	if before.TTL > 0 && s.L.Kind == explore.NoMark {
		m.hurt(s, before)
	}
}

func (m *machine) passOur(c *ourClient) {
	if m.Ours.Renewals > 0 && c.away != awayNot {
		c.quiet = min(c.quiet+1, m.waits+1)
		m.doubts(c)
	}
	if c.pc > ourBegun {
		c.age = min(c.age+1, m.trustCap)
		c.life = min(c.life+1, m.settled+int8(m.Ours.Stop))
		if c.renew > 0 {
			c.renew = min(c.renew+1, m.trustCap)
		}
	}
	if m.broken(ruleStampInM) && c.pc != ourIdle {
		c.heard = max(c.heard-1, m.old.Floor)
	}
	if c.flags&flagTimed != 0 || m.Ours.OldServer && c.watch.Kind != explore.NoMark {
		c.since = min(c.since+1, m.lookCap)
		if c.watch.Kind != explore.NoMark {
			c.watch.At = max(c.watch.At-1, m.old.Floor)
		}
		return
	}
	if c.watch.Kind == explore.NoMark {
		return
	}
	c.watch.At = max(c.watch.At-1, m.old.Floor)
	c.since = min(c.since+1, int8(m.Ours.Unchanged)+1)
	c.last++
	if int(c.last) > m.Ours.Sparse {
		if !m.broken(ruleFreshSample) {
			c.watch, c.since, c.last = explore.Seen{}, 0, 0
			return
		}
		c.last--
	}
}

// stepServer moves the server's clock. Every distance from it changes, and
// every TTL with it.
func (m *machine) stepServer(s *state, by int8) {
	m.stepM(s, by)
	before := s.L
	if before.Kind == explore.StampMark {
		before.At = max(before.At-by, m.old.Floor)
	}
	m.old.StepServer(&s.State, by)
	m.ended(s, before)
	m.stepLook(s, by)
	for i := range m.Ours.Clients {
		if c := &s.our[i]; c.watch.Kind == explore.StampMark {
			c.watch.At = max(c.watch.At-by, m.old.Floor)
		}
	}
}

// stepLook forgets a look that was made under another server's run id, or on
// whose age two clocks disagree.
func (m *machine) stepLook(s *state, by int8) {
	if s.look.kind == explore.NoMark {
		return
	}
	s.look.at, s.look.shift = max(s.look.at-by, m.old.Floor), s.look.shift+by
	switch {
	case m.FailOver, !m.Ours.Elsewhere && !m.broken(ruleLookElapsed):
		s.look = look{}
	}
}

func (m *machine) stepM(s *state, by int8) {
	if s.m.who == explore.Nobody {
		return
	}
	if s.m.at != m.old.Floor {
		s.m.at = max(s.m.at-by, m.old.Floor)
	}
	if s.m.ttl -= by; s.m.ttl <= 0 {
		s.m = token{}
	}
}
