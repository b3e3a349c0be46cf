package skew

import (
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/internal/model"
)

// oldEnds returns the ways in which a holder of the dialect stops holding,
// except a crash. A release that looks first is two steps, and the second
// follows whatever happened in between.
func (m *machine) oldEnds(s *state, i int, out []step) []step {
	c, n := &s.old[i], oldName(i)
	if c.pc == oldHoldsTTL {
		return out
	}
	if c.pc == oldEnds {
		return append(out, m.del(*s, i))
	}
	switch m.Dialect.Release {
	case dialect.ReleaseDel:
		return append(out, m.del(*s, i))
	case dialect.ReleaseNever:
		return append(out, m.leaves(*s, i))
	case dialect.ReleaseCompare:
		if s.l.sameBytes(m.written(i, c.stamp)) {
			return append(out, m.del(*s, i))
		}
		return append(out, m.leaves(*s, i))
	}
	kind := evLook
	if m.Dialect.Release == dialect.ReleaseOwnNotPast || m.Dialect.Release == dialect.ReleaseOwnAhead {
		kind = evDecide
	}
	deletes, leaves := m.releaseLooks(s, i)
	switch {
	case deletes && m.PromptEnds:
		out = append(out, m.del(*s, i))
	case deletes:
		t := step{ev: event{kind: kind, who: n, out: outDone}, to: *s}
		t.to.old[i].pc = oldEnds
		out = append(out, t)
	}
	if leaves {
		t := m.leaves(*s, i)
		t.ev = event{kind: kind, who: n, out: outKept}
		out = append(out, t)
	}
	return out
}

// releaseLooks reports whether the client, by some clock within bounds, may
// decide to delete, and whether it may decide to leave the key.
func (m *machine) releaseLooks(s *state, i int) (deletes, leaves bool) {
	c := &s.old[i]
	low, high := m.cut(s, int(s.fleet)-m.Behind), m.cut(s, int(s.fleet)+m.Ahead)
	switch m.Dialect.Release {
	case dialect.ReleaseValueOwn:
		own := s.l.sameBytes(m.written(i, c.stamp))
		return own, !own
	case dialect.ReleaseValueAtLeastOwn:
		least := s.l.kind == guardMark || s.l.kind == tombMark || s.l.kind == stampMark && s.l.at >= c.stamp
		return least, !least
	case dialect.ReleaseValueLive:
		if s.l.kind != stampMark {
			return s.l.kind != noMark, s.l.kind == noMark
		}
		return !m.expired(s.l.at, low, 0), m.expired(s.l.at, high, 0)
	case dialect.ReleaseOwnAhead:
		return int(c.stamp) > low, int(c.stamp) <= high
	}
	return int(c.stamp) >= low, int(c.stamp) < high
}

// extends returns the renewals of a holder. None of them looks at what is on
// the key.
func (m *machine) extends(s *state, i int, out []step) []step {
	extend := func(l mark, arg int) {
		t := step{ev: event{kind: evExtend, who: oldName(i), arg: int8(arg)}, to: *s}
		t.to.l = l
		c := &t.to.old[i]
		c.age = 0
		if m.keepsStamp {
			c.stamp = l.at
		}
		if m.Dialect.Renews != dialect.RenewsPexpire {
			m.hurt(&t.to, s.l)
		}
		out = append(out, t)
	}
	switch m.Dialect.Renews {
	case dialect.RenewsGetset, dialect.RenewsSet:
		for off := -m.Behind - m.Gap; off <= m.Ahead; off++ {
			extend(m.written(i, m.stampAt(s, off, s.old[i].more)), off)
		}
	case dialect.RenewsPexpire:
		if s.l.kind != noMark {
			l := s.l
			l.ttl = lasts(m.Lease + int(s.old[i].more))
			extend(l, 0)
		}
	}
	return out
}

// del deletes whatever is there.
func (m *machine) del(s state, i int) step {
	t := step{ev: event{kind: evDel, who: oldName(i), out: outDone}}
	before := s.l
	s.l = mark{}
	m.hurt(&s, before)
	if before.kind == noMark {
		t.ev.out = outMissing
	}
	s.old[i] = oldClient{}
	if m.Rest > 0 {
		s.old[i].pc = oldRests
	}
	if before.kind == tombMark {
		t.note |= noteUntombed
	}
	if old, ours := s.holders(); old+ours > 0 && before.kind != noMark {
		t.note |= noteForeignDel
	}
	t.to = s
	return t
}

func (m *machine) leaves(s state, i int) step {
	t := step{ev: event{kind: evDecide, who: oldName(i), out: outKept}}
	s.old[i] = oldClient{}
	t.to = s
	return t
}

// forgetOld is a crash: what the client wrote stays, and no client takes it for
// its own. Only uuids and tokens show that.
func (s *state) forgetOld(i int) {
	s.old[i] = oldClient{}
	s.rename(oldName(i), stranger)
}

// hurt notes for each getsetlock client that its mark was touched since it last
// looked.
func (m *machine) hurt(s *state, before mark) {
	for i := range s.our {
		c := &s.our[i]
		if c.pc < ourAnswer || c.on == model.OnNothing || s.m.who != ourName(i) {
			continue
		}
		if c.on == model.OnTomb && before.kind == tombMark || c.on == model.OnOwn && m.isMark(s, before, i) {
			c.flags |= flagHurt
		}
	}
}
