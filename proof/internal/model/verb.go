// SPDX-License-Identifier: Apache-2.0

package model

// verb is a step of the migration that takes time, in addition to the verbs
// that take no time.
type verb struct {
	read  int8  // how much it has read: 0 nothing, 1 record or registry, 2 both
	at    level // the record that it has read
	opens int16 // the gates that the registry opened when it was read
	stale bool  // another step was taken since it read the registry
}

// slowly returns what a slow verb does next: it reads the record, then the
// registry, and then writes, if no other step was taken since. A window's
// promise holds until then, but not beyond another verb's step.
func (m *machine) slowly(s *state, out []step) []step {
	v := s.verb
	t := step{Act: event{Kind: evAsk}, To: *s}
	rosterFirst := m.broken(ruleRecordThenRoster)
	switch {
	case v.read == 0 && rosterFirst:
		t.Act.Kind = evRoll
		t.To.verb = verb{read: 1, opens: m.opens(s)}
	case v.read == 0:
		t.To.verb = verb{read: 1, at: s.record}
	case v.read == 1 && rosterFirst:
		t.To.verb = verb{read: 2, at: s.record, opens: v.opens & gates(s.record), stale: v.stale}
	case v.read == 1:
		t.Act.Kind = evRoll
		seen := *s
		seen.record = v.at
		t.To.verb = verb{read: 2, at: v.at, opens: m.opens(&seen) & gates(v.at)}
	default:
		return m.writes(s, out)
	}
	if t.To.verb.opens == 0 && t.To.verb.read == 2 {
		t.To.verb = verb{}
	}
	return append(out, t)
}

// writes takes a step whose gate was found open.
func (m *machine) writes(s *state, out []step) []step {
	v := s.verb
	quiet := v.at < inDual || v.stale || m.oldQuiet(s)
	apart := v.at == inModern && !m.oneTarget(s) && !m.broken(ruleTargetAsked)
	if v.opens&forwards(v.at) != 0 && quiet && !apart {
		t := step{Act: event{Kind: evAdvance, Arg: int8(v.at + 1)}, To: *s}
		t.To.record, t.To.verb = v.at+1, verb{}
		m.target(&t.To)
		out = append(out, t)
	}
	if v.opens&backwards(v.at) != 0 {
		t := step{Act: event{Kind: evBack, Arg: int8(v.at - 1)}, To: *s}
		t.To.record, t.To.verb = v.at-1, verb{}
		m.target(&t.To)
		out = append(out, t)
	}
	return out
}

// opens returns the gates that the registry opens in each phase of the record.
func (m *machine) opens(s *state) (open int16) {
	for p := m.first; p <= m.last; p++ {
		at := *s
		at.record = p
		if p < m.last && m.mayAdvance(&at) {
			open |= forwards(p)
		}
		if p > m.first && m.mayGoBack(&at) {
			open |= backwards(p)
		}
	}
	return open
}

func forwards(p level) int16  { return 1 << p }
func backwards(p level) int16 { return 1 << (p + inClean) }
func gates(p level) int16     { return forwards(p) | backwards(p) }

// stepped makes a verb that compares begin again after another verb's step.
// What it read before the record cannot be compared.
func (m *machine) stepped(s *state) {
	unread := s.verb.read == 1 && m.broken(ruleRecordThenRoster)
	switch {
	case s.verb.read == 0:
	case unread || m.broken(ruleVerbCompares):
		s.verb.stale = s.verb.opens != 0
	default:
		s.verb = verb{}
	}
}
