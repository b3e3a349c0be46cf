// SPDX-License-Identifier: Apache-2.0

package explore

import "github.com/getsetlock/getsetlock/internal/dialect"

// ends returns the ways in which a holder of the dialect stops holding,
// except a crash. A release that looks first is two steps, and the second
// follows whatever happened in between.
func (m *Machine) ends(s *State, i int, out []Step[State]) []Step[State] {
	c, n := &s.Old[i], Name(i)
	if c.PC == AtHoldsTTL {
		return out
	}
	if c.PC == AtEnds {
		return append(out, m.del(*s, i))
	}
	switch m.Dialect.Release {
	case dialect.ReleaseDel:
		return append(out, m.del(*s, i))
	case dialect.ReleaseNever:
		return append(out, m.leaves(*s, i))
	case dialect.ReleaseCompare:
		if s.L.SameBytes(m.written(i, c.Stamp)) {
			return append(out, m.del(*s, i))
		}
		return append(out, m.leaves(*s, i))
	}
	kind := ActLook
	if m.Dialect.Release == dialect.ReleaseOwnNotPast || m.Dialect.Release == dialect.ReleaseOwnAhead {
		kind = ActDecide
	}
	deletes, leaves := m.releaseLooks(s, i)
	switch {
	case deletes && m.PromptEnds:
		out = append(out, m.del(*s, i))
	case deletes:
		t := Step[State]{Act: Act{Kind: kind, Who: n, Out: OutDone}, To: *s}
		t.To.Old[i].PC = AtEnds
		out = append(out, t)
	}
	if leaves {
		t := m.leaves(*s, i)
		t.Act = Act{Kind: kind, Who: n, Out: OutKept}
		out = append(out, t)
	}
	return out
}

// releaseLooks reports whether the client, by some clock within bounds, may
// decide to delete, and whether it may decide to leave the key.
func (m *Machine) releaseLooks(s *State, i int) (deletes, leaves bool) {
	c := &s.Old[i]
	low, high := m.Cut(s, int(s.Fleet)-m.Behind), m.Cut(s, int(s.Fleet)+m.Ahead)
	switch m.Dialect.Release {
	case dialect.ReleaseValueOwn:
		own := s.L.SameBytes(m.written(i, c.Stamp))
		return own, !own
	case dialect.ReleaseValueAtLeastOwn:
		least := s.L.Kind == GuardMark || s.L.Kind == TombMark || s.L.Kind == StampMark && s.L.At >= c.Stamp
		return least, !least
	case dialect.ReleaseValueLive:
		if s.L.Kind != StampMark {
			return s.L.Kind != NoMark, s.L.Kind == NoMark
		}
		return !m.expired(s.L.At, low, 0), m.expired(s.L.At, high, 0)
	case dialect.ReleaseOwnAhead:
		return int(c.Stamp) > low, int(c.Stamp) <= high
	}
	return int(c.Stamp) >= low, int(c.Stamp) < high
}

// extends returns the renewals of a holder. None of them looks at what is on
// the key.
func (m *Machine) extends(s *State, i int, out []Step[State]) []Step[State] {
	extend := func(l Mark, arg int) {
		t := Step[State]{Act: Act{Kind: ActExtend, Who: Name(i), Arg: int8(arg)}, To: *s}
		t.To.L = l
		c := &t.To.Old[i]
		c.Age = 0
		if m.keepsStamp {
			c.Stamp = l.At
		}
		out = append(out, t)
	}
	switch m.Dialect.Renews {
	case dialect.RenewsGetset, dialect.RenewsSet:
		for off := -m.Behind - m.Gap; off <= m.Ahead; off++ {
			extend(m.written(i, m.stampAt(s, off, s.Old[i].More)), off)
		}
	case dialect.RenewsPexpire:
		if s.L.Kind != NoMark {
			l := s.L
			l.TTL = Lasts(m.Lease + int(s.Old[i].More))
			extend(l, 0)
		}
	}
	return out
}

// del deletes whatever is there.
func (m *Machine) del(s State, i int) Step[State] {
	t := Step[State]{Act: Act{Kind: ActDel, Who: Name(i), Out: OutDone}}
	before := s.L
	s.L = Mark{}
	if before.Kind == NoMark {
		t.Act.Out = OutMissing
	}
	s.Old[i] = Client{}
	if m.Rest > 0 {
		s.Old[i].PC = AtRests
	}
	if s.Holders()+m.Others > 0 && before.Kind != NoMark {
		t.Note |= NoteForeignDel
	}
	t.To = s
	return t
}

func (m *Machine) leaves(s State, i int) Step[State] {
	t := Step[State]{Act: Act{Kind: ActDecide, Who: Name(i), Out: OutKept}}
	s.Old[i] = Client{}
	t.To = s
	return t
}

// forgetOld is a crash: what the client wrote stays, and no client takes it for
// its own. Only uuids and tokens show that.
func (s *State) forgetOld(i int) {
	s.Old[i] = Client{}
	s.Rename(Name(i), Stranger)
}
