package skew

import "github.com/getsetlock/getsetlock/skew/internal/model"

// The fleet's record of its phase, and the verbs that change it.

func (m *machine) recordSteps(s *state, out []step) []step {
	for _, verb := range recordVerbs {
		if m.may(verb, s) {
			out = append(out, m.did(verb, s))
		}
	}
	if m.Ours.Slow {
		out = m.slowly(s, out)
	}
	return out
}

// recordVerbs are the events of the record, the registry and the tombstones, in
// the order in which they are tried.
var recordVerbs = [...]eventKind{evAdvance, evBack, evInit, evRevert, evEmpty, evSweep, evRestore, evFlush}

// may reports whether an event can happen.
func (m *machine) may(verb eventKind, s *state) bool {
	switch verb {
	case evAdvance:
		return m.goesOn(s) && m.mayAdvance(s)
	case evBack:
		return s.record > m.first && m.mayGoBack(s)
	case evInit:
		return m.mayInit(s)
	case evRevert:
		return m.mayRevert(s)
	case evEmpty:
		return m.Ours.Empties && m.mayEmpty(s)
	case evSweep:
		return m.maySweep(s)
	case evRestore:
		return m.broken(ruleRestoreWithM) && m.tombstoneMissing(s)
	case evFlush:
		return m.Ours.LosesRecord && s.flushed == 0
	}
	return false
}

// mayInit reports whether a new record may be written: after clean, or by what
// members say where the record was lost.
func (m *machine) mayInit(s *state) bool {
	return m.Ours.Again && s.record == model.Clean || m.saidBy(s) != model.NoPhase
}

func (m *machine) mayRevert(s *state) bool {
	return m.Ours.Restored && s.older == 0 && s.record > m.first
}

// goesOn reports whether there is a phase after the record's, to which it may
// be moved.
func (m *machine) goesOn(s *state) bool {
	if s.record == model.NoPhase || m.Ours.Rests && s.record < m.first {
		return false
	}
	return s.record < m.last
}

// did returns what an event changes.
func (m *machine) did(verb eventKind, s *state) step {
	t := step{ev: event{kind: verb}, to: *s}
	switch verb {
	case evAdvance:
		t.to.record++
		t.to.older = min(2*s.older, 2)
		if m.Ours.LosesRecord && t.to.record == model.Clean {
			t.to.may = mayNot
		}
		m.target(&t.to)
	case evBack:
		t.to.record--
		m.target(&t.to)
	case evInit:
		m.inits(&t.to)
	case evFlush:
		m.flush(&t.to)
		return t
	case evRevert:
		t.to.record, t.to.older = m.first, 1
	case evEmpty:
		m.empty(&t.to)
		return t
	case evSweep:
		t.to.l = mark{}
		m.hurt(&t.to, s.l)
		return t
	case evRestore:
		t.to.l = mark{kind: tombMark}
		return t
	}
	m.stepped(&t.to)
	t.ev.arg = int8(t.to.record)
	return t
}

// tombstoneMissing reports whether L is free in a phase that keeps a tombstone
// there.
func (m *machine) tombstoneMissing(s *state) bool {
	return s.record >= model.Sealed && s.record < model.Clean && s.l.kind == noMark
}

// older reports whether c has read a later record than the present one, since
// an older one was restored.
func (m *machine) older(s *state, c *ourClient) bool { return s.older == 1 && c.member > s.record }

// refuses reports whether a member keeps every gate closed. It has read a later
// record, or it has vanished, so that its state is unknown; or no member is
// heard. A member that the registry has lost cannot count: gates do not know
// that it exists.
func (m *machine) refuses(s *state) bool {
	heard := 0
	for i := range m.Ours.Clients {
		c := &s.our[i]
		switch {
		case c.away == awayUnsaid:
			continue
		case m.older(s, c) && !m.broken(ruleOlderOpensNothing),
			c.away == awaySilent && !m.broken(ruleVanishedBlocks):
			return true
		case c.listed():
			heard++
		}
	}
	if m.mayLack(s) {
		return true
	}
	return m.Ours.Clients > 0 && heard == 0 && !m.broken(ruleEmptyCloses)
}

// mayEmpty reports whether there is a member to lose. A loss that gates wait
// for happens only once.
func (m *machine) mayEmpty(s *state) bool {
	for i := range m.Ours.Clients {
		if s.our[i].away != awayUnsaid {
			return s.lost == 0
		}
	}
	return false
}

// empty makes the registry lose its members, as by an eviction or a human who
// deletes too much.
func (m *machine) empty(s *state) {
	for i := range m.Ours.Clients {
		s.our[i].away = awayUnsaid
	}
	if m.Ours.Renewals > 0 && s.lost == 0 {
		s.lost = 1
	}
}

// mayLearn reports whether the record differs from what c follows, and c would
// accept it.
func (m *machine) mayLearn(s *state, c *ourClient) bool {
	if s.record == model.NoPhase {
		return false
	}
	open := m.Ours.LosesRecord && c.doubt&doubtRecord != 0
	return (c.member != s.record || open) && (!m.older(s, c) || m.broken(ruleOlderMovesNobody))
}

func (m *machine) learn(s *state, i int) step {
	t := step{ev: event{kind: evLearn, who: ourName(i), arg: int8(s.record)}, to: *s}
	if s.record == model.NoPhase {
		return t // it keeps its phase
	}
	t.to.our[i].member = m.follows(s, i)
	t.to.our[i].doubt &^= doubtRecord
	return t
}

// heartbeat returns what a member does besides its lease.
func (m *machine) heartbeat(s *state, i int, out []step) []step {
	c := &s.our[i]
	here := c.away == awayNot
	if m.Ours.Restored && here && m.mayLearn(s, c) {
		out = append(out, m.learn(s, i))
	}
	switch {
	case !here && m.Ours.Renewals > 0:
		return m.returns(s, i, out)
	case !here:
		t := step{ev: event{kind: evBeat, who: ourName(i)}, to: *s}
		t.to.our[i].away = awayNot
		return append(out, t)
	}
	if m.Ours.Vanishes && (m.Ours.Renewals == 0 || m.allThere(s)) {
		t := step{ev: event{kind: evVanish, who: ourName(i)}, to: *s}
		t.to.our[i].away = awaySilent
		out = append(out, t)
	}
	if m.Ours.Loses && s.lost == 0 {
		t := step{ev: event{kind: evLose, who: ourName(i)}, to: *s}
		t.to.our[i].away, t.to.lost = awayUnsaid, 1
		out = append(out, t)
	}
	return out
}

// allThere reports whether no member is away. Where the length of an absence
// counts, one absence at a time is enough.
func (m *machine) allThere(s *state) bool {
	for i := range m.Ours.Clients {
		if s.our[i].away != awayNot {
			return false
		}
	}
	return true
}

// returns is what an absent member does: it writes its field, and reads the
// record afterwards. A member that has a phase may read the record even while
// its field cannot be written; that does not count as an answered heartbeat.
func (m *machine) returns(s *state, i int, out []step) []step {
	c := &s.our[i]
	first := m.broken(ruleFieldFirst) && c.away != awayEnters && c.member == model.NoPhase
	if c.away == awayEnters || first || c.member != model.NoPhase && m.mayLearn(s, c) {
		t := m.learn(s, i)
		if c.away == awayEnters {
			t.to.our[i].away = awayNot
		}
		if c.away == awayEnters || first {
			t.to.our[i].quiet = 0
		}
		out = append(out, t)
	}
	if c.away != awayEnters {
		t := step{ev: event{kind: evEnter, who: ourName(i)}, to: *s}
		t.to.our[i].away = awayEnters
		if !m.broken(ruleReadsListed) {
			m.doubts(&t.to.our[i]) // no step waited for what it has read since
		}
		if m.broken(ruleReadsThenActs) {
			t.to.our[i].quiet, t.to.our[i].doubt = 0, 0
		}
		out = append(out, t)
	}
	if c.away == awaySilent && c.quiet > m.waits {
		t := step{ev: event{kind: evForget, who: ourName(i)}, to: *s}
		t.to.our[i].away = awayUnsaid
		out = append(out, t)
	}
	return out
}

// unheard reports whether c's last answered heartbeat is longer ago than rule r
// allows.
func (m *machine) unheard(c *ourClient, longest int, r Rule) bool {
	return m.Ours.Renewals > 0 && int(c.quiet) > longest && !m.broken(r)
}

// mayLack reports whether members may be missing from the registry whose leases
// still run.
func (m *machine) mayLack(s *state) bool {
	return m.Ours.Renewals > 0 && s.lost > 0 && s.lost-1 <= m.waits && !m.broken(ruleLostWaits)
}

// listed reports whether the registry has c's field and c sends heartbeats.
func (c *ourClient) listed() bool {
	return c.away == awayNot || c.away == awayEnters
}

// lowest and highest are over the listed members and, if leases count, over
// their grants. Members that are away do not count.
func (m *machine) lowest(s *state, leases bool) model.Phase {
	low := model.Clean
	for i := range m.Ours.Clients {
		c := &s.our[i]
		if !c.listed() {
			continue
		}
		low = min(low, c.member)
		if leases && c.pc != ourIdle {
			low = min(low, c.phase)
		}
	}
	return low
}

func (m *machine) highest(s *state) model.Phase {
	high := model.NoPhase
	for i := range m.Ours.Clients {
		c := &s.our[i]
		if !c.listed() {
			continue
		}
		high = max(high, c.member)
		if c.pc != ourIdle {
			high = max(high, c.phase)
		}
	}
	return high
}

// oldQuiet reports whether no old client makes an attempt or holds. A job that
// runs for ever outlasts every window, so it does not count.
func (m *machine) oldQuiet(s *state) bool {
	if m.Overrun || m.broken(ruleQuietGate) {
		return true
	}
	for i := range s.old {
		if s.old[i].pc != oldIdle {
			return false
		}
	}
	return true
}

// mayAdvance asks the gate of the next phase. For sealed and modern, the gate's
// window without writes of old clients becomes "no old client makes an attempt
// or holds now". That is less than a window promises. For clean it becomes "no
// old client is left".
func (m *machine) mayAdvance(s *state) bool {
	switch {
	case m.broken(ruleOneStep):
		return true
	case m.refuses(s):
		return false
	}
	switch s.record + 1 {
	case model.Dual:
		return m.lowest(s, false) >= model.Observe
	case model.Sealed:
		return m.lowest(s, false) >= model.Dual && m.oldQuiet(s)
	case model.Modern:
		return m.lowest(s, true) >= model.Sealed && m.oldQuiet(s)
	}
	return m.lowest(s, true) >= model.Modern && m.oldQuiet(s) && (m.oneTarget(s) || m.broken(ruleOneTarget))
}

func (m *machine) mayGoBack(s *state) bool {
	switch {
	case s.record == model.Clean:
		return false
	case m.broken(ruleOneStep):
		return true
	case m.refuses(s):
		return false
	}
	if s.record-1 != model.Observe {
		return m.Ours.Forget || m.lowest(s, false) >= s.record
	}
	// observe takes a tombstone for held. So none may be left, and no client
	// that would leave one.
	return s.l.kind != tombMark && m.highest(s) <= model.Dual && m.lowest(s, false) >= model.Dual
}

// maySweep reports whether tombstones may be deleted: after the way back to
// dual, and after every member has acknowledged clean. With the rule broken, as
// soon as the fleet is on its way to clean.
func (m *machine) maySweep(s *state) bool {
	early := m.broken(ruleTombstonesLast)
	if s.l.kind != tombMark || s.record != model.Dual && s.record != model.Clean &&
		!(early && s.record == model.Modern && m.last == model.Clean) {
		return false
	}
	if early {
		return true
	}
	if s.record == model.Clean {
		return m.lowest(s, true) >= model.Clean && !m.refuses(s)
	}
	return s.m.who == nobody || s.m.who == leftover
}
