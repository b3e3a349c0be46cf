// SPDX-License-Identifier: Apache-2.0

package model

// In a world that composes, the first getsetlock client takes each lock in
// another store too, the target, and in clean there alone. No other client
// takes anything there, so the target needs no state.

// elsewhere reports whether client i's attempt or lease is in the target alone.
func (m *machine) elsewhere(s *state, i int) bool {
	return m.Ours.Composes && i == 0 && s.our[i].phase == inClean
}

// composes reports whether the registry has a member that composes, and whether
// it has one that does not.
func (m *machine) composes(s *state) (some, others bool) {
	for i := range m.Ours.Clients {
		if s.our[i].away != awayUnsaid { // silent members have their fields too
			some, others = some || i == 0, others || i > 0
		}
	}
	return some, others
}

// oneTarget reports whether the listed members go to clean together: all of
// them compose, or none does.
func (m *machine) oneTarget(s *state) bool {
	some, others := m.composes(s)
	return !m.Ours.Composes || !some || !others
}

// target notes which members the record of clean is for: those that compose, or
// the others where no registered member does.
func (m *machine) target(s *state) {
	some, _ := m.composes(s)
	s.plain = m.Ours.Composes && s.record == inClean && !some
}

// follows returns the phase by which client i acts once it has read the record.
// In clean the record names the target or none. After a new beginning it keeps
// that until nothing is left of clean.
func (m *machine) follows(s *state, i int) level {
	if i == 0 && s.plain && !m.broken(ruleApart) {
		return noPhase
	}
	if !m.Ours.Composes || i == 0 || s.plain {
		return s.record
	}
	first := &s.our[0]
	left := first.member == inClean || first.pc != ourIdle && first.phase == inClean
	anew := m.Ours.Again && s.record != inClean && left
	if s.record == inClean && !m.broken(ruleApart) || anew && !m.broken(ruleTargetKept) {
		return noPhase
	}
	return s.record
}
