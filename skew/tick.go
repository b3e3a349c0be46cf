package skew

// due reports whether a client must act before time may pass.
func (m *machine) due(s *state) bool {
	for i := range m.Old {
		if m.oldDue(&s.old[i]) {
			return true
		}
	}
	for i := range m.Ours.Clients {
		if m.ourDue(&s.our[i]) {
			return true
		}
	}
	return m.StepUndone && int(s.server) > m.Lease
}

// oldDue reports whether c's attempt or job has reached its longest.
func (m *machine) oldDue(c *oldClient) bool {
	switch {
	case c.pc == oldIdle, c.pc == oldRests:
		return false
	case c.holds():
		return !m.Overrun && int(c.age) >= m.Job
	case c.pc == oldReply:
		return int(c.age) >= m.Reply
	}
	return int(c.age) >= m.Gap
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
	if m.ServerStep > 0 && s.server > 0 {
		s.server = min(s.server+1, int8(m.Lease)+2)
	}
	s.within = (s.within + 1) % m.unit
	if s.lost > 0 {
		s.lost = min(s.lost+1, m.waits+2)
	}
	m.passL(s)
	if s.look.kind != noMark {
		s.look.at, s.look.age = max(s.look.at-1, m.floor), min(s.look.age+1, m.lookCap)
	}
	if s.m.who != nobody {
		if s.m.ttl--; s.m.ttl == 0 {
			s.m = token{}
		} else {
			s.m.at = max(s.m.at-1, m.floor)
		}
	}
	for i := range m.Old {
		m.passOld(&s.old[i])
	}
	for i := range m.Ours.Clients {
		m.passOur(&s.our[i])
	}
}

func (m *machine) passL(s *state) {
	before := s.l // while M still names its owner
	if s.l.kind == stampMark {
		s.l.at = max(s.l.at-1, m.floor)
	}
	if s.l.ttl == 0 {
		return
	}
	if s.l.ttl--; s.l.ttl == 0 {
		s.l = mark{}
		m.hurt(s, before)
	}
}

func (m *machine) passOld(c *oldClient) {
	switch c.pc {
	case oldIdle:
		return
	case oldRests:
		if c.age++; int(c.age) >= m.Rest {
			*c = oldClient{}
		}
		return
	}
	if !c.holds() || !m.Overrun {
		c.age++
	}
	if m.Dialect.HasTakeover() && (m.keepsStamp || !c.holds()) {
		c.stamp = max(c.stamp-1, m.floor)
	}
	if c.seen.kind == stampMark {
		c.seen.at = max(c.seen.at-1, m.floor)
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
		c.heard = max(c.heard-1, m.floor)
	}
	if c.flags&flagTimed != 0 || m.Ours.OldServer && c.watch.kind != noMark {
		c.since = min(c.since+1, m.lookCap)
		if c.watch.kind != noMark {
			c.watch.at = max(c.watch.at-1, m.floor)
		}
		return
	}
	if c.watch.kind == noMark {
		return
	}
	c.watch.at = max(c.watch.at-1, m.floor)
	c.since = min(c.since+1, int8(m.Ours.Unchanged)+1)
	c.last++
	if int(c.last) > m.Ours.Sparse {
		if !m.broken(ruleFreshSample) {
			c.watch, c.since, c.last = seen{}, 0, 0
			return
		}
		c.last--
	}
}

// stepServer moves the server's clock. Every distance from it changes, and
// every TTL with it.
func (m *machine) stepServer(s *state, by int8) {
	s.fleet -= by
	s.within = int8(m.below(s, int(by)))
	if s.server == 0 {
		s.server = 1
	} else {
		s.server = -1
	}
	m.stepKeys(s, by)
	m.stepLook(s, by)
	for i := range m.Old {
		c := &s.old[i]
		if m.Dialect.HasTakeover() && c.pc > oldRests && (m.keepsStamp || !c.holds()) {
			c.stamp = max(c.stamp-by, m.floor)
		}
		if c.seen.kind == stampMark {
			c.seen.at = max(c.seen.at-by, m.floor)
		}
	}
	for i := range m.Ours.Clients {
		if c := &s.our[i]; c.watch.kind == stampMark {
			c.watch.at = max(c.watch.at-by, m.floor)
		}
	}
}

// stepLook forgets a look that was made under another server's run id, or on
// whose age two clocks disagree.
func (m *machine) stepLook(s *state, by int8) {
	if s.look.kind == noMark {
		return
	}
	s.look.at, s.look.shift = max(s.look.at-by, m.floor), s.look.shift+by
	switch {
	case m.FailOver, !m.Ours.Elsewhere && !m.broken(ruleLookElapsed):
		s.look = look{}
	}
}

func (m *machine) stepKeys(s *state, by int8) {
	if s.m.who != nobody {
		if s.m.at != m.floor {
			s.m.at = max(s.m.at-by, m.floor)
		}
		if s.m.ttl -= by; s.m.ttl <= 0 {
			s.m = token{}
		}
	}
	if s.l.kind == stampMark {
		s.l.at = max(s.l.at-by, m.floor)
	}
	if s.l.ttl == 0 {
		return
	}
	before := s.l
	if s.l.ttl -= by; s.l.ttl <= 0 {
		s.l = mark{}
		m.hurt(s, before)
	}
}
