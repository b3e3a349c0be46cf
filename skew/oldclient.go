package skew

import (
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/internal/model"
)

// The old clients, step by step, follow their dialect's data. An attempt may
// end between any two commands, since a client may stop there. Up to Gap ticks
// may pass from an attempt's clock reading to its last write.
//
// Where a client reads its clock anew to judge, it judges in the instant of its
// next command, by the clock that is furthest ahead. A value that it would have
// found expired earlier is expired then too, so no case is missed.

// oldSteps appends to out what the client i may do next, each as one step. A
// client in an attempt may also quit.
func (m *machine) oldSteps(s *state, i int, out []step) []step {
	switch s.old[i].pc {
	case oldIdle:
		return m.begin(s, i, out)
	case oldRests:
		return out
	case oldRead:
		out = m.firstSetnx(s, i, out)
	case oldBusy:
		out = append(out, m.get(*s, i))
	case oldLook:
		out = m.look(s, i, out)
	case oldJudged:
		out = append(out, m.getset(*s, i, s.old[i].stamp, 0))
	case oldReply:
		out = m.judgeReply(s, i, out)
	case oldLast:
		out = m.lastSetnx(s, i, out)
	case oldExpire:
		out = append(out, m.expire(*s, i))
	case oldHoldsTTL:
		return m.oldHolding(s, i, append(out, m.expire(*s, i)))
	default:
		return m.oldHolding(s, i, out)
	}
	t := step{ev: event{kind: evQuit, who: oldName(i)}, to: *s}
	t.to.old[i] = oldClient{}
	return append(out, t)
}

// oldHolding appends the steps of a holder: the job ends, the lease is
// extended, the client crashes.
func (m *machine) oldHolding(s *state, i int, out []step) []step {
	out = m.oldEnds(s, i, out)
	if m.Renews && s.old[i].pc == oldHolds {
		out = m.extends(s, i, out)
	}
	t := step{ev: event{kind: evCrash, who: oldName(i)}, to: *s}
	t.to.forgetOld(i)
	return append(out, t)
}

// begin appends the starts of an attempt: a reading of the client's clock for
// each offset within bounds, with the smallest and with the greatest lease. In
// dialects without a takeover the clock does not matter. Where no old client
// may be left, none starts.
func (m *machine) begin(s *state, i int, out []step) []step {
	if !m.mayStart(s) {
		return out
	}
	low, high := -m.Behind, m.Ahead
	if !m.Dialect.HasTakeover() {
		low, high = 0, 0
	}
	for off := low; off <= high; off++ {
		for more := 0; more <= m.greatest()-m.Lease; more += max(1, m.greatest()-m.Lease) {
			t := step{ev: event{kind: evRead, who: oldName(i), arg: int8(off)}, to: *s}
			if more > 0 {
				t.ev.out = outGreatest
			}
			t.to.may = mayAlways
			t.to.old[i] = oldClient{pc: oldRead, stamp: m.stampAt(s, off, int8(more)), more: int8(more)}
			out = append(out, t)
		}
	}
	return out
}

// mayStart reports whether old clients may be left, or started again. Where no
// phase keeps them out any more, none may.
func (m *machine) mayStart(s *state) bool {
	switch {
	case m.first == model.Clean:
		return false
	case m.Ours.LosesRecord:
		return s.may == mayAlways || s.may == mayWhenOver && s.record != model.NoPhase && m.reopened(s)
	}
	return (s.record != model.Clean || m.broken(rulePause)) && (!m.Ours.Again || m.reopened(s)) &&
		!(m.Ours.Restored && m.refuses(s))
}

// reopened reports whether every getsetlock client has a mark on L again.
func (m *machine) reopened(s *state) bool {
	return m.highest(s) < model.Clean && !m.refuses(s) || m.broken(ruleInitLast)
}

// stampAt returns the stamp of a clock reading, with a lease that exceeds the
// smallest by more.
func (m *machine) stampAt(s *state, off int, more int8) int8 {
	if !m.Dialect.HasTakeover() {
		return 0
	}
	return int8(m.cut(s, off+int(s.fleet))+m.Lease) + m.slack + more
}

// below returns what a clock loses when its reading is cut to the unit. off is
// the clock's distance from the server's.
func (m *machine) below(s *state, off int) int {
	u := int(m.unit)
	return ((int(s.within)+off)%u + u) % u
}

// cut returns off after the clock's reading was cut to the unit.
func (m *machine) cut(s *state, off int) int { return off - m.below(s, off) }

// written returns what the client puts on L.
func (m *machine) written(i int, stamp int8) mark {
	w := mark{kind: stampMark, at: stamp}
	switch m.Dialect.Shape {
	case dialect.ShapeUUIDNumber:
		w.who = oldName(i)
	case dialect.ShapeConstant:
		w = mark{kind: constMark}
	case dialect.ShapeToken, dialect.ShapeDecimal:
		w = mark{kind: constMark, who: oldName(i)}
	}
	return w
}

// lasts returns the mark's ttl for a TTL in ticks: the key exists through its
// last tick.
func lasts(ticks int) int8 { return int8(ticks + 1) }

// firstSetnx writes the stamp of the reading, or with StampAtWrite one that is
// made only now.
func (m *machine) firstSetnx(s *state, i int, out []step) []step {
	t := *s
	if m.StampAtWrite {
		t.old[i].stamp += t.old[i].age
	}
	return append(out, m.setnx(t, i))
}

// lastSetnx is one more SETNX, which ends the attempt, won or lost.
func (m *machine) lastSetnx(s *state, i int, out []step) []step {
	t := m.setnx(*s, i)
	t.ev.kind = evLast
	if c := &t.to.old[i]; !c.holds() {
		*c = oldClient{}
	}
	return append(out, t)
}

// setnx is a SETNX of client i. On a free key the client wins. Otherwise GET
// follows, or EXPIRE in the dialect whose waiters all send it. In other
// dialects without a takeover the attempt ends.
func (m *machine) setnx(s state, i int) step {
	c := &s.old[i]
	t := step{ev: event{kind: evSetnx, who: oldName(i)}}
	everybody := m.Dialect.KeyTTL == dialect.TTLEverybody
	if s.l.kind != noMark {
		t.ev.out = outLost
		c.pc = oldBusy
		switch {
		case everybody:
			c.pc = oldExpire
		case !m.Dialect.HasTakeover():
			*c = oldClient{}
		}
		t.to = s
		return t
	}
	t.ev.out = outWon
	s.l = m.written(i, c.stamp)
	m.proves(&s, c.stamp)
	if m.Dialect.Acquire != dialect.AcquireSetnx {
		s.l.ttl = lasts(m.Lease + int(c.more))
	}
	expire := everybody || m.Dialect.KeyTTL == dialect.TTLWinExpire ||
		m.Dialect.KeyTTL == dialect.TTLAfterSetnx
	m.wins(&s, i, expire)
	t.to = s
	return t
}

// wins makes client i hold; expire says that its EXPIRE is still to come. The
// client's stamp is kept only where a release uses it.
func (m *machine) wins(s *state, i int, expire bool) {
	c := &s.old[i]
	age := int8(0)
	if m.OwnDelay {
		age = c.age
	}
	*c = oldClient{pc: oldHolds, stamp: c.stamp, more: c.more, age: age}
	if expire {
		c.pc = oldHoldsTTL
	}
	if !m.keepsStamp {
		c.stamp = 0
	}
}

// get is the GET after a lost SETNX. GETSET, a last SETNX or the end of the
// attempt follows.
func (m *machine) get(s state, i int) step {
	c := &s.old[i]
	t := step{ev: event{kind: evGet, who: oldName(i), arg: s.l.at, out: outOther}}
	c.pc, c.seen = oldLook, s.l.asSeen()
	if s.l.kind == noMark {
		t.ev.out = outNil
	}
	switch m.nextStep(&s, c, oldName(i)) {
	case dialect.StepSetnxOnce:
		c.pc, c.seen = oldLast, seen{}
	case dialect.StepGetset:
	default:
		*c = oldClient{}
	}
	t.to = s
	return t
}

// nextStep returns the dialect's answer to what GET returned. It is StepGetset
// also where the value can still expire before the attempt's time is up.
func (m *machine) nextStep(s *state, c *oldClient, name int8) dialect.Step {
	held := dialect.StepWait
	if m.Dialect.SetnxAfterHeld {
		held = dialect.StepSetnxOnce
	}
	switch {
	case c.seen.kind == noMark:
		return m.nilStep()
	case m.Dialect.OrMine && c.seen.who == name:
		return dialect.StepGetset
	case c.seen.kind != stampMark:
		if m.readsMark == dialect.StepGetset {
			return m.readsMark
		}
		return held
	case m.mayExpire(s, c):
		return dialect.StepGetset
	}
	return held
}

// mayExpire reports whether the value that the client saw is expired by its
// clock, now or before its attempt's time is up.
func (m *machine) mayExpire(s *state, c *oldClient) bool {
	at := *s
	for wait := range m.expiryWait(c) + 1 {
		if m.expired(c.seen.at, m.judgesAt(&at, c), wait) {
			return true
		}
		at.within = (at.within + 1) % m.unit
	}
	return false
}

// nilStep returns what follows a GET that found nothing. Anything but a GETSET
// or a last SETNX ends the attempt; the next attempt may follow at once.
func (m *machine) nilStep() dialect.Step {
	switch {
	case m.Dialect.OnNil == dialect.NilGetset:
		return dialect.StepGetset
	case m.Dialect.OnNil == dialect.NilSetnx && m.Dialect.SetnxAfterHeld:
		return dialect.StepSetnxOnce
	}
	return dialect.StepWait
}

// judgesAt returns the clock by which the client judges, as a distance from the
// server's. With a new reading that is the one furthest ahead; otherwise it is
// the one that made the stamp.
func (m *machine) judgesAt(s *state, c *oldClient) int {
	if m.Dialect.JudgesAnew {
		return m.cut(s, m.Ahead+int(s.fleet))
	}
	return int(c.stamp-m.slack-c.more) - m.Lease
}

// expiryWait returns how many ticks may pass before the client judges.
func (m *machine) expiryWait(c *oldClient) int {
	if m.Dialect.JudgesAnew {
		return max(0, m.Gap-int(c.age))
	}
	return 0
}

// expired compares a clock with the stamp as it will be in wait ticks.
func (m *machine) expired(at int8, clock, wait int) bool {
	distance := int(at) - wait - clock
	return distance < 0 || m.inclusive && distance == 0
}

// expiredNow reports whether the client goes on to its GETSET now. A stamp that
// is not its own must have expired by its clock.
func (m *machine) expiredNow(s *state, c *oldClient, name int8) bool {
	if c.seen.kind != stampMark || m.Dialect.OrMine && c.seen.who == name {
		return true // get stops at all other values
	}
	return m.expired(c.seen.at, m.judgesAt(s, c), 0)
}

// look appends what follows a GET that led to a takeover. It appends nothing
// while the value has not expired by the client's clock. Then the client sends
// GETSET: with the stamp of its attempt, or with a new one in dialects that
// read the clock again.
func (m *machine) look(s *state, i int, out []step) []step {
	c := &s.old[i]
	if !m.expiredNow(s, c, oldName(i)) {
		return out
	}
	switch {
	case m.StampAtWrite:
		for off := -m.Behind; off <= m.Ahead; off++ {
			out = append(out, m.getset(*s, i, m.stampAt(s, off, c.more), off))
		}
	case m.Dialect.Restamp:
		for off := -m.Behind; off <= m.Ahead; off++ {
			t := step{ev: event{kind: evJudge, who: oldName(i), arg: int8(off)}, to: *s}
			t.to.old[i].pc, t.to.old[i].stamp = oldJudged, m.stampAt(s, off, c.more)
			out = append(out, t)
		}
	default:
		out = append(out, m.getset(*s, i, c.stamp, m.judgesAt(s, c)))
	}
	return out
}

// getset writes the client's value. In dialects that judge the reply by a new
// clock reading, that decision follows later; otherwise the client has won or
// lost at once.
func (m *machine) getset(s state, i int, stamp int8, clock int) step {
	c := &s.old[i]
	before := s.l
	t := step{ev: event{kind: evGetset, who: oldName(i), arg: int8(clock), out: outLost}}
	s.l = m.written(i, stamp) // GETSET removes the key's TTL
	m.proves(&s, stamp)
	c.stamp = stamp
	m.hurt(&s, before)
	if !m.Dialect.JudgesAnew || m.Dialect.Wins == dialect.WinsSameText ||
		m.Dialect.Wins == dialect.WinsEqualNumber || before.kind == noMark {
		m.decide(&s, i, &t, before, clock)
		t.to = s
		return t
	}
	*c = oldClient{pc: oldReply, stamp: stamp, more: c.more, seen: before.asSeen()}
	t.ev.out = outNone
	t.to = s
	return t
}

// decide makes the client hold if the value that its GETSET replaced says so.
// Otherwise its attempt ends, and t notes the harm: the GETSET overwrote the
// key while a client held, or left a value on a free key.
func (m *machine) decide(s *state, i int, t *step, before mark, clock int) {
	if m.won(before, s.old[i].seen, clock) {
		t.ev.out = outWon
		expire := m.Dialect.KeyTTL == dialect.TTLWinExpire || m.Dialect.KeyTTL == dialect.TTLGetsetExpire
		m.wins(s, i, expire)
		return
	}
	old, ours := s.holders()
	switch {
	case old+ours > 0:
		t.note |= noteClobber
	case before.kind == noMark:
		t.note |= noteGhost
	}
	s.old[i] = oldClient{}
}

// won reports whether a client that replaced the value before counts its GETSET
// as won. seen is what its GET returned, clock its clock's distance from the
// server's.
func (m *machine) won(before mark, seen seen, clock int) bool {
	switch m.Dialect.Wins {
	case dialect.WinsSameText, dialect.WinsEqualNumber:
		return before.kind != noMark && before.sameBytes(seen.asMark())
	}
	if before.kind == noMark {
		return m.Dialect.Wins == dialect.WinsExpiredOrNil
	}
	return before.kind == stampMark && m.expired(before.at, clock, 0)
}

// judgeReply appends the win of a client that judges GETSET's reply by a new
// clock reading, if the value has expired by then. Otherwise the client can
// only quit.
func (m *machine) judgeReply(s *state, i int, out []step) []step {
	c := &s.old[i]
	if !m.won(c.seen.asMark(), seen{}, m.cut(s, m.Ahead+int(s.fleet))) {
		return out
	}
	t := step{ev: event{kind: evReply, who: oldName(i), arg: int8(m.Ahead), out: outWon}, to: *s}
	age := c.age
	m.wins(&t.to, i, m.Dialect.KeyTTL == dialect.TTLWinExpire || m.Dialect.KeyTTL == dialect.TTLGetsetExpire)
	t.to.old[i].age = age
	return append(out, t)
}

// expire is the EXPIRE of client i, which it sends whatever value is on the
// key.
func (m *machine) expire(s state, i int) step {
	t := step{ev: event{kind: evExpire, who: oldName(i)}}
	if s.l.kind != noMark {
		s.l.ttl = lasts(m.Lease + int(s.old[i].more))
	}
	if s.old[i].pc == oldHoldsTTL {
		s.old[i].pc = oldHolds
	} else {
		s.old[i] = oldClient{}
	}
	t.to = s
	return t
}
