// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/getsetlock/getsetlock/internal/explore"

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
var recordVerbs = [...]explore.Kind{evAdvance, evBack, evInit, evRevert, evEmpty, evSweep, evRestore, evFlush}

// may reports whether an event can happen.
func (m *machine) may(verb explore.Kind, s *state) bool {
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
	return m.Ours.Again && s.record == inClean || m.saidBy(s) != noPhase
}

func (m *machine) mayRevert(s *state) bool {
	return m.Ours.Restored && s.older == 0 && s.record > m.first
}

// mayStart reports whether old clients may be left, or started again. Where no
// phase keeps them out any more, none may.
func (m *machine) mayStart(s *state) bool {
	switch {
	case m.first == inClean:
		return false
	case m.Ours.LosesRecord:
		return s.may == mayAlways || s.may == mayWhenOver && s.record != noPhase && m.reopened(s)
	}
	return (s.record != inClean || m.broken(rulePause)) && (!m.Ours.Again || m.reopened(s)) &&
		!(m.Ours.Restored && m.refuses(s))
}

// reopened reports whether every getsetlock client has a mark on L again.
func (m *machine) reopened(s *state) bool {
	return m.highest(s) < inClean && !m.refuses(s) || m.broken(ruleInitLast)
}

// goesOn reports whether there is a phase after the record's, to which it may
// be moved.
func (m *machine) goesOn(s *state) bool {
	if s.record == noPhase || m.Ours.Rests && s.record < m.first {
		return false
	}
	return s.record < m.last
}

// did returns what an event changes.
func (m *machine) did(verb explore.Kind, s *state) step {
	t := step{Act: event{Kind: verb}, To: *s}
	switch verb {
	case evAdvance:
		t.To.record++
		t.To.older = min(2*s.older, 2)
		if m.Ours.LosesRecord && t.To.record == inClean {
			t.To.may = mayNot
		}
		m.target(&t.To)
	case evBack:
		t.To.record--
		m.target(&t.To)
	case evInit:
		m.inits(&t.To)
	case evFlush:
		m.flush(&t.To)
		return t
	case evRevert:
		t.To.record, t.To.older = m.first, 1
	case evEmpty:
		m.empty(&t.To)
		return t
	case evSweep:
		t.To.L = explore.Mark{}
		m.hurt(&t.To, s.L)
		return t
	case evRestore:
		t.To.L = explore.Mark{Kind: explore.TombMark}
		return t
	}
	m.stepped(&t.To)
	t.Act.Arg = int8(t.To.record)
	return t
}

// tombstoneMissing reports whether L is free in a phase that keeps a tombstone
// there.
func (m *machine) tombstoneMissing(s *state) bool {
	return s.record >= inSealed && s.record < inClean && s.L.Kind == explore.NoMark
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
	if s.record == noPhase {
		return false
	}
	open := m.Ours.LosesRecord && c.doubt&doubtRecord != 0
	return (c.member != s.record || open) && (!m.older(s, c) || m.broken(ruleOlderMovesNobody))
}

func (m *machine) learn(s *state, i int) step {
	t := step{Act: event{Kind: evLearn, Who: ourName(i), Arg: int8(s.record)}, To: *s}
	if s.record == noPhase {
		return t // it keeps its phase
	}
	t.To.our[i].member = m.follows(s, i)
	t.To.our[i].doubt &^= doubtRecord
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
		t := step{Act: event{Kind: evBeat, Who: ourName(i)}, To: *s}
		t.To.our[i].away = awayNot
		return append(out, t)
	}
	if m.Ours.Vanishes && (m.Ours.Renewals == 0 || m.allThere(s)) {
		t := step{Act: event{Kind: evVanish, Who: ourName(i)}, To: *s}
		t.To.our[i].away = awaySilent
		out = append(out, t)
	}
	if m.Ours.Loses && s.lost == 0 {
		t := step{Act: event{Kind: evLose, Who: ourName(i)}, To: *s}
		t.To.our[i].away, t.To.lost = awayUnsaid, 1
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
	first := m.broken(ruleFieldFirst) && c.away != awayEnters && c.member == noPhase
	if c.away == awayEnters || first || c.member != noPhase && m.mayLearn(s, c) {
		t := m.learn(s, i)
		if c.away == awayEnters {
			t.To.our[i].away = awayNot
		}
		if c.away == awayEnters || first {
			t.To.our[i].quiet = 0
		}
		out = append(out, t)
	}
	if c.away != awayEnters {
		t := step{Act: event{Kind: evEnter, Who: ourName(i)}, To: *s}
		t.To.our[i].away = awayEnters
		if !m.broken(ruleReadsListed) {
			m.doubts(&t.To.our[i]) // no step waited for what it has read since
		}
		if m.broken(ruleReadsThenActs) {
			t.To.our[i].quiet, t.To.our[i].doubt = 0, 0
		}
		out = append(out, t)
	}
	if c.away == awaySilent && c.quiet > m.waits {
		t := step{Act: event{Kind: evForget, Who: ourName(i)}, To: *s}
		t.To.our[i].away = awayUnsaid
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
func (m *machine) lowest(s *state, leases bool) level {
	low := inClean
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

func (m *machine) highest(s *state) level {
	high := noPhase
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
	for i := range s.Old {
		if s.Old[i].PC != explore.AtIdle {
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
	case inDual:
		return m.lowest(s, false) >= inObserve
	case inSealed:
		return m.lowest(s, false) >= inDual && m.oldQuiet(s)
	case inModern:
		return m.lowest(s, true) >= inSealed && m.oldQuiet(s)
	}
	return m.lowest(s, true) >= inModern && m.oldQuiet(s) && (m.oneTarget(s) || m.broken(ruleOneTarget))
}

func (m *machine) mayGoBack(s *state) bool {
	switch {
	case s.record == inClean:
		return false
	case m.broken(ruleOneStep):
		return true
	case m.refuses(s):
		return false
	}
	if s.record-1 != inObserve {
		return m.Ours.Forget || m.lowest(s, false) >= s.record
	}
	// observe takes a tombstone for held. So none may be left, and no client
	// that would leave one.
	return s.L.Kind != explore.TombMark && m.highest(s) <= inDual && m.lowest(s, false) >= inDual
}

// maySweep reports whether tombstones may be deleted: after the way back to
// dual, and after every member has acknowledged clean. With the rule broken, as
// soon as the fleet is on its way to clean.
func (m *machine) maySweep(s *state) bool {
	early := m.broken(ruleTombstonesLast)
	if s.L.Kind != explore.TombMark || s.record != inDual && s.record != inClean &&
		!(early && s.record == inModern && m.last == inClean) {
		return false
	}
	if early {
		return true
	}
	if s.record == inClean {
		return m.lowest(s, true) >= inClean && !m.refuses(s)
	}
	return s.m.who == explore.Nobody || s.m.who == leftover
}
