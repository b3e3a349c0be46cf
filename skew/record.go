package skew

// The fleet's record of its phase, and the verbs that move it.

func (m *machine) recordSteps(s *state, out []step) []step {
	if s.record < m.last && m.mayAdvance(s) {
		t := step{ev: event{kind: evAdvance, arg: int8(s.record + 1)}, to: *s}
		t.to.record++
		t.to.older = min(2*s.older, 2)
		out = append(out, t)
	}
	if s.record > m.first && s.record != clean && m.mayGoBack(s) {
		t := step{ev: event{kind: evBack, arg: int8(s.record - 1)}, to: *s}
		t.to.record--
		out = append(out, t)
	}
	if m.Ours.Again && s.record == clean {
		t := step{ev: event{kind: evInit, arg: int8(observe)}, to: *s}
		t.to.record = observe
		out = append(out, t)
	}
	if m.Ours.Restored && s.older == 0 && s.record > m.first {
		t := step{ev: event{kind: evRevert, arg: int8(m.first)}, to: *s}
		t.to.record, t.to.older = m.first, 1
		out = append(out, t)
	}
	if m.Ours.Empties && !m.forgotten(s) {
		out = append(out, m.empties(s))
	}
	if m.maySweep(s) {
		t := step{ev: event{kind: evSweep}, to: *s}
		t.to.l = mark{}
		m.hurt(&t.to, s.l)
		out = append(out, t)
	}
	if m.broken(RuleRestoreWithM) && s.record >= sealed && s.record < clean && s.l.kind == noMark {
		t := step{ev: event{kind: evRestore}, to: *s}
		t.to.l = mark{kind: tombMark}
		out = append(out, t)
	}
	return out
}

// older says that c has read a later record than stands there: one was restored.
func (m *machine) older(s *state, c *ourClient) bool { return s.older == 1 && c.member > s.record }

// refuses: a member has read a later record, or has vanished, so that nobody knows what it does; or nobody
// is heard. Of one that the registry has lost nothing is known, not even that it is there.
func (m *machine) refuses(s *state) bool {
	heard := 0
	for i := range m.Ours.Clients {
		c := &s.our[i]
		switch {
		case c.away == awayUnsaid:
			continue
		case m.older(s, c) && !m.broken(RuleOlderOpensNothing), c.away == awaySilent && !m.broken(RuleVanishedBlocks):
			return true
		case c.away == awayNot:
			heard++
		}
	}
	return m.Ours.Clients > 0 && heard == 0 && !m.broken(RuleEmptyCloses)
}

// forgotten says that the registry is empty.
func (m *machine) forgotten(s *state) bool {
	for i := range m.Ours.Clients {
		if s.our[i].away != awayUnsaid {
			return false
		}
	}
	return true
}

// empties is the registry losing its members, as by an eviction or a hand that deletes too much.
func (m *machine) empties(s *state) step {
	t := step{ev: event{kind: evEmpty}, to: *s}
	for i := range m.Ours.Clients {
		t.to.our[i].away = awayUnsaid
	}
	return t
}

// mayLearn: the record says something else than c acts by, and c heeds it.
func (m *machine) mayLearn(s *state, c *ourClient) bool {
	return c.member != s.record && c.away == awayNot && (!m.older(s, c) || m.broken(RuleOlderMovesNobody))
}

func (m *machine) learn(s *state, i int) step {
	t := step{ev: event{kind: evLearn, who: ourName(i), arg: int8(s.record)}, to: *s}
	t.to.our[i].member = s.record
	return t
}

// heartbeat is what a member does beside its lease.
func (m *machine) heartbeat(s *state, i int, out []step) []step {
	c := &s.our[i]
	if m.Ours.Restored && m.mayLearn(s, c) {
		out = append(out, m.learn(s, i))
	}
	if c.away != awayNot {
		t := step{ev: event{kind: evBeat, who: ourName(i)}, to: *s}
		t.to.our[i].away = awayNot
		return append(out, t)
	}
	if m.Ours.Vanishes {
		t := step{ev: event{kind: evVanish, who: ourName(i)}, to: *s}
		t.to.our[i].away = awaySilent
		out = append(out, t)
	}
	return out
}

// lowest and highest are over members and, if leases count, over the grants that still live. Who is
// away is asked nothing.
func (m *machine) lowest(s *state, leases bool) phase {
	low := clean
	for i := range m.Ours.Clients {
		c := &s.our[i]
		if c.away != awayNot {
			continue
		}
		low = min(low, c.member)
		if leases && c.pc != ourIdle {
			low = min(low, c.phase)
		}
	}
	return low
}

func (m *machine) highest(s *state) phase {
	high := noPhase
	for i := range m.Ours.Clients {
		c := &s.our[i]
		if c.away != awayNot {
			continue
		}
		high = max(high, c.member)
		if c.pc != ourIdle {
			high = max(high, c.phase)
		}
	}
	return high
}

// A job that runs for ever outlasts every window.
func (m *machine) oldQuiet(s *state) bool {
	if m.Overrun || m.broken(RuleQuietGate) {
		return true
	}
	for i := range s.old {
		if s.old[i].pc != oldIdle {
			return false
		}
	}
	return true
}

// mayAdvance asks the gate of the next phase. The windows in which no old client writes are asked of
// sealed and modern as "none is in an attempt or holds now", which is less than a window promises; of
// clean as "none is left".
func (m *machine) mayAdvance(s *state) bool {
	switch {
	case m.broken(RuleOneStep):
		return true
	case m.refuses(s):
		return false
	}
	switch s.record + 1 {
	case dual:
		return m.lowest(s, false) >= observe
	case sealed:
		return m.lowest(s, false) >= dual && m.oldQuiet(s)
	case modern:
		return m.lowest(s, true) >= sealed && m.oldQuiet(s)
	}
	return m.lowest(s, true) >= modern && m.oldQuiet(s)
}

func (m *machine) mayGoBack(s *state) bool {
	switch {
	case m.broken(RuleOneStep):
		return true
	case m.refuses(s):
		return false
	}
	if s.record-1 != observe {
		return m.Ours.Forget || m.lowest(s, false) >= s.record
	}
	// observe takes a tombstone for held, so none may be left, nor anybody who would leave one.
	return s.l.kind != tombMark && m.highest(s) <= dual && m.lowest(s, false) >= dual
}

// maySweep: after the way back to dual, and after clean was acknowledged by everybody. Without the
// rule, as soon as clean is where the fleet goes.
func (m *machine) maySweep(s *state) bool {
	early := m.broken(RuleTombstonesLast)
	if s.l.kind != tombMark || s.record != dual && s.record != clean && !(early && s.record == modern && m.last == clean) {
		return false
	}
	if early {
		return true
	}
	if s.record == clean {
		return m.lowest(s, true) >= clean && !m.refuses(s)
	}
	return s.m.who == nobody
}
