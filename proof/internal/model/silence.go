// SPDX-License-Identifier: Apache-2.0

package model

// A member that was silent for longer than it renews leases may have been
// forgotten, and the record may have moved by any number of steps since. What
// it knows counts again once it has read a record. The server may lose the
// record meanwhile.

// What is open after such a silence.
const (
	doubtRecord  int8 = 1 << iota // it has read no record since
	doubtAttempt                  // its present attempt began before
)

// doubts notes a silence of c that has become that long.
func (m *machine) doubts(c *ourClient) {
	if int(c.quiet) <= m.Ours.Renewals {
		return
	}
	c.doubt |= doubtRecord
	if c.pc != ourIdle && c.pc <= ourAnswer {
		c.doubt |= doubtAttempt
	}
}

// tooSilent reports whether an attempt that took the lock has to give it back.
func (m *machine) tooSilent(c *ourClient) bool {
	return m.unheard(c, m.Ours.Renewals, ruleAsksAfterTaking|ruleAttemptsStop) ||
		c.doubt&doubtAttempt != 0 && !m.broken(ruleAsksAfterTaking)
}

// unread reports whether c takes nothing since it has read no record after a
// silence.
func (m *machine) unread(c *ourClient) bool {
	still := m.broken(ruleAttemptsStop) && int(c.quiet) > m.Ours.Renewals
	return c.doubt&doubtRecord != 0 && !still && !m.broken(ruleReadsAfterSilence)
}

// flush makes the server lose the record and the registry.
func (m *machine) flush(s *state) {
	s.record, s.flushed = noPhase, 1
	if s.may == mayWhenOver {
		s.may = mayNot
	}
	for i := range m.Ours.Clients {
		s.our[i].away = awayUnsaid
	}
}

// saidBy returns the phase with which a lost record is written again, by what
// the registered members say. It is NoPhase while there is a record, while no
// member has said anything, and where two are more than a step apart. Of two
// neighbours the earlier phase excludes more, except for clean, from which no
// step leads back. A member follows that record whatever it has read before:
// nobody lags behind by more than the step by which the new record is later.
func (m *machine) saidBy(s *state) level {
	if s.record != noPhase {
		return noPhase
	}
	low, high := m.said(s)
	switch {
	case low == inObserve && high == inClean: // a new beginning that is not over
		return low
	case high-low > 1:
		return noPhase
	case low == inModern && high == inClean:
		return high
	}
	return low
}

// said returns the lowest and the highest phase that members say.
func (m *machine) said(s *state) (low, high level) {
	for i := range m.Ours.Clients {
		c := &s.our[i]
		if c.member == noPhase || !m.counts(c) {
			continue
		}
		if low == noPhase || c.member < low {
			low = c.member
		}
		high = max(high, c.member)
	}
	return low, high
}

// counts reports whether c's word counts where a lost record is written again.
func (m *machine) counts(c *ourClient) bool {
	silent := c.doubt&doubtRecord != 0 && !m.broken(ruleWordOfTheHeard)
	return c.away != awayUnsaid && !silent
}

// inits writes a new record: after clean, or in the place of a lost one. After
// a loss gates wait for leases of members that are missing.
func (m *machine) inits(s *state) {
	if s.record == noPhase {
		s.record, s.lost = m.saidBy(s), 1
		first := &s.our[0]
		composed := first.member == inClean && m.counts(first)
		s.plain = m.Ours.Composes && s.record == inClean && !composed
	} else {
		s.record = inObserve
	}
	if s.record == inObserve && s.may == mayNot {
		s.may = mayWhenOver
	}
}

// mayStart says whether old clients may start. A gate to clean promises that
// none is left, and only the end of a new beginning takes that back. From then
// on they run, whatever becomes of the record.
type mayStart int8

const (
	mayAlways mayStart = iota // they have started; everywhere where the record cannot be lost
	mayNot
	mayWhenOver // when the new beginning is over
)
