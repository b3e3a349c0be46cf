// SPDX-License-Identifier: Apache-2.0

package explore

import "github.com/getsetlock/getsetlock/internal/dialect"

// The old clients, step by step, follow their dialect's data. An attempt may
// end between any two commands, since a client may stop there. Up to Gap ticks
// may pass from an attempt's clock reading to its last write.
//
// Where a client reads its clock anew to judge, it judges in the instant of its
// next command, by the clock that is furthest ahead. A value that it would have
// found expired earlier is expired then too, so no case is missed.

// clientSteps appends to out what the client i may do next, each as one step. A
// client in an attempt may also quit.
func (m *Machine) clientSteps(s *State, i int, out []Step[State]) []Step[State] {
	switch s.Old[i].PC {
	case AtIdle:
		return m.begin(s, i, out)
	case AtRests:
		return out
	case AtRead:
		out = m.firstSetnx(s, i, out)
	case AtBusy:
		out = append(out, m.get(*s, i))
	case AtLook:
		out = m.look(s, i, out)
	case AtJudged:
		out = append(out, m.getset(*s, i, s.Old[i].Stamp, 0))
	case AtReply:
		out = m.judgeReply(s, i, out)
	case AtLast:
		out = m.lastSetnx(s, i, out)
	case AtExpire:
		out = append(out, m.expire(*s, i))
	case AtHoldsTTL:
		return m.holding(s, i, append(out, m.expire(*s, i)))
	default:
		return m.holding(s, i, out)
	}
	t := Step[State]{Act: Act{Kind: ActQuit, Who: Name(i)}, To: *s}
	t.To.Old[i] = Client{}
	return append(out, t)
}

// holding appends the steps of a holder: the job ends, the lease is
// extended, the client crashes.
func (m *Machine) holding(s *State, i int, out []Step[State]) []Step[State] {
	out = m.ends(s, i, out)
	if m.Renews && s.Old[i].PC == AtHolds {
		out = m.extends(s, i, out)
	}
	t := Step[State]{Act: Act{Kind: ActCrash, Who: Name(i)}, To: *s}
	t.To.forgetOld(i)
	return append(out, t)
}

// begin appends the starts of an attempt: a reading of the client's clock for
// each offset within bounds, with the smallest and with the greatest lease. In
// dialects without a takeover the clock does not matter. Where no old client
// may be left, none starts.
func (m *Machine) begin(s *State, i int, out []Step[State]) []Step[State] {
	if m.Shut {
		return out
	}
	low, high := -m.Behind, m.Ahead
	if !m.Dialect.HasTakeover() {
		low, high = 0, 0
	}
	for off := low; off <= high; off++ {
		for more := 0; more <= m.LongestLease()-m.Lease; more += max(1, m.LongestLease()-m.Lease) {
			t := Step[State]{Act: Act{Kind: ActRead, Who: Name(i), Arg: int8(off)}, To: *s}
			if more > 0 {
				t.Act.Out = OutGreatest
			}
			t.To.Old[i] = Client{PC: AtRead, Stamp: m.stampAt(s, off, int8(more)), More: int8(more)}
			out = append(out, t)
		}
	}
	return out
}

// stampAt returns the stamp of a clock reading, with a lease that exceeds the
// smallest by more.
func (m *Machine) stampAt(s *State, off int, more int8) int8 {
	if !m.Dialect.HasTakeover() {
		return 0
	}
	return int8(m.Cut(s, off+int(s.Fleet))+m.Lease) + m.Slack + more
}

// Below returns what a clock loses when its reading is cut to the unit. off is
// the clock's distance from the server's.
func (m *Machine) Below(s *State, off int) int {
	u := int(m.Grain)
	return ((int(s.Within)+off)%u + u) % u
}

// Cut returns off after the clock's reading was cut to the unit.
func (m *Machine) Cut(s *State, off int) int { return off - m.Below(s, off) }

// written returns what the client puts on L.
func (m *Machine) written(i int, stamp int8) Mark {
	w := Mark{Kind: StampMark, At: stamp}
	switch m.Dialect.Shape {
	case dialect.ShapeUUIDNumber:
		w.Who = Name(i)
	case dialect.ShapeConstant:
		w = Mark{Kind: ConstMark}
	case dialect.ShapeToken, dialect.ShapeDecimal:
		w = Mark{Kind: ConstMark, Who: Name(i)}
	}
	return w
}

// firstSetnx writes the stamp of the reading, or with StampAtWrite one that is
// made only now.
func (m *Machine) firstSetnx(s *State, i int, out []Step[State]) []Step[State] {
	t := *s
	if m.StampAtWrite {
		t.Old[i].Stamp += t.Old[i].Age
	}
	return append(out, m.setnx(t, i))
}

// lastSetnx is one more SETNX, which ends the attempt, won or lost.
func (m *Machine) lastSetnx(s *State, i int, out []Step[State]) []Step[State] {
	t := m.setnx(*s, i)
	t.Act.Kind = ActLast
	if c := &t.To.Old[i]; !c.Holds() {
		*c = Client{}
	}
	return append(out, t)
}

// setnx is a SETNX of client i. On a free key the client wins. Otherwise GET
// follows, or EXPIRE in the dialect whose waiters all send it. In other
// dialects without a takeover the attempt ends.
func (m *Machine) setnx(s State, i int) Step[State] {
	c := &s.Old[i]
	t := Step[State]{Act: Act{Kind: ActSetnx, Who: Name(i)}}
	everybody := m.Dialect.KeyTTL == dialect.TTLEverybody
	if s.L.Kind != NoMark {
		t.Act.Out = OutLost
		c.PC = AtBusy
		switch {
		case everybody:
			c.PC = AtExpire
		case !m.Dialect.HasTakeover():
			*c = Client{}
		}
		t.To = s
		return t
	}
	t.Act.Out = OutWon
	s.L = m.written(i, c.Stamp)
	if m.Dialect.Acquire != dialect.AcquireSetnx {
		s.L.TTL = Lasts(m.Lease + int(c.More))
	}
	expire := everybody || m.Dialect.KeyTTL == dialect.TTLWinExpire ||
		m.Dialect.KeyTTL == dialect.TTLAfterSetnx
	m.wins(&s, i, expire)
	t.To = s
	return t
}

// wins makes client i hold; expire says that its EXPIRE is still to come. The
// client's stamp is kept only where a release uses it.
func (m *Machine) wins(s *State, i int, expire bool) {
	c := &s.Old[i]
	age := int8(0)
	if m.OwnDelay {
		age = c.Age
	}
	*c = Client{PC: AtHolds, Stamp: c.Stamp, More: c.More, Age: age}
	if expire {
		c.PC = AtHoldsTTL
	}
	if !m.keepsStamp {
		c.Stamp = 0
	}
}

// get is the GET after a lost SETNX. GETSET, a last SETNX or the end of the
// attempt follows.
func (m *Machine) get(s State, i int) Step[State] {
	c := &s.Old[i]
	t := Step[State]{Act: Act{Kind: ActGet, Who: Name(i), Arg: s.L.At, Out: OutOther}}
	c.PC, c.Seen = AtLook, s.L.AsSeen()
	if s.L.Kind == NoMark {
		t.Act.Out = OutNil
	}
	switch m.nextStep(&s, c, Name(i)) {
	case dialect.StepSetnxOnce:
		c.PC, c.Seen = AtLast, Seen{}
	case dialect.StepGetset:
	default:
		*c = Client{}
	}
	t.To = s
	return t
}

// nextStep returns the dialect's answer to what GET returned. It is StepGetset
// also where the value can still expire before the attempt's time is up.
func (m *Machine) nextStep(s *State, c *Client, name int8) dialect.Step {
	held := dialect.StepWait
	if m.Dialect.SetnxAfterHeld {
		held = dialect.StepSetnxOnce
	}
	switch {
	case c.Seen.Kind == NoMark:
		return m.nilStep()
	case m.Dialect.OrMine && c.Seen.Who == name:
		return dialect.StepGetset
	case c.Seen.Kind != StampMark:
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
func (m *Machine) mayExpire(s *State, c *Client) bool {
	at := *s
	for wait := range m.expiryWait(c) + 1 {
		if m.expired(c.Seen.At, m.judgesAt(&at, c), wait) {
			return true
		}
		at.Within = (at.Within + 1) % m.Grain
	}
	return false
}

// nilStep returns what follows a GET that found nothing. Anything but a GETSET
// or a last SETNX ends the attempt; the next attempt may follow at once.
func (m *Machine) nilStep() dialect.Step {
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
func (m *Machine) judgesAt(s *State, c *Client) int {
	if m.Dialect.JudgesAnew {
		return m.Cut(s, m.Ahead+int(s.Fleet))
	}
	return int(c.Stamp-m.Slack-c.More) - m.Lease
}

// expiryWait returns how many ticks may pass before the client judges.
func (m *Machine) expiryWait(c *Client) int {
	if m.Dialect.JudgesAnew {
		return max(0, m.Gap-int(c.Age))
	}
	return 0
}

// expired compares a clock with the stamp as it will be in wait ticks.
func (m *Machine) expired(at int8, clock, wait int) bool {
	distance := int(at) - wait - clock
	return distance < 0 || m.Inclusive && distance == 0
}

// expiredNow reports whether the client goes on to its GETSET now. A stamp that
// is not its own must have expired by its clock.
func (m *Machine) expiredNow(s *State, c *Client, name int8) bool {
	if c.Seen.Kind != StampMark || m.Dialect.OrMine && c.Seen.Who == name {
		return true // get stops at all other values
	}
	return m.expired(c.Seen.At, m.judgesAt(s, c), 0)
}

// look appends what follows a GET that led to a takeover. It appends nothing
// while the value has not expired by the client's clock. Then the client sends
// GETSET: with the stamp of its attempt, or with a new one in dialects that
// read the clock again.
func (m *Machine) look(s *State, i int, out []Step[State]) []Step[State] {
	c := &s.Old[i]
	if !m.expiredNow(s, c, Name(i)) {
		return out
	}
	switch {
	case m.StampAtWrite:
		for off := -m.Behind; off <= m.Ahead; off++ {
			out = append(out, m.getset(*s, i, m.stampAt(s, off, c.More), off))
		}
	case m.Dialect.Restamp:
		for off := -m.Behind; off <= m.Ahead; off++ {
			t := Step[State]{Act: Act{Kind: ActJudge, Who: Name(i), Arg: int8(off)}, To: *s}
			t.To.Old[i].PC, t.To.Old[i].Stamp = AtJudged, m.stampAt(s, off, c.More)
			out = append(out, t)
		}
	default:
		out = append(out, m.getset(*s, i, c.Stamp, m.judgesAt(s, c)))
	}
	return out
}

// getset writes the client's value. In dialects that judge the reply by a new
// clock reading, that decision follows later; otherwise the client has won or
// lost at once.
func (m *Machine) getset(s State, i int, stamp int8, clock int) Step[State] {
	c := &s.Old[i]
	before := s.L
	t := Step[State]{Act: Act{Kind: ActGetset, Who: Name(i), Arg: int8(clock), Out: OutLost}}
	s.L = m.written(i, stamp) // GETSET removes the key's TTL
	c.Stamp = stamp
	if !m.Dialect.JudgesAnew || m.Dialect.Wins == dialect.WinsSameText ||
		m.Dialect.Wins == dialect.WinsEqualNumber || before.Kind == NoMark {
		m.decide(&s, i, &t, before, clock)
		t.To = s
		return t
	}
	*c = Client{PC: AtReply, Stamp: stamp, More: c.More, Seen: before.AsSeen()}
	t.Act.Out = OutNone
	t.To = s
	return t
}

// decide makes the client hold if the value that its GETSET replaced says so.
// Otherwise its attempt ends, and t notes the harm: the GETSET overwrote the
// key while a client held, or left a value on a free key.
func (m *Machine) decide(s *State, i int, t *Step[State], before Mark, clock int) {
	if m.won(before, s.Old[i].Seen, clock) {
		t.Act.Out = OutWon
		expire := m.Dialect.KeyTTL == dialect.TTLWinExpire || m.Dialect.KeyTTL == dialect.TTLGetsetExpire
		m.wins(s, i, expire)
		return
	}
	switch {
	case s.Holders()+m.Others > 0:
		t.Note |= NoteClobber
	case before.Kind == NoMark:
		t.Note |= NoteGhost
	}
	s.Old[i] = Client{}
}

// won reports whether a client that replaced the value before counts its GETSET
// as won. seen is what its GET returned, clock its clock's distance from the
// server's.
func (m *Machine) won(before Mark, seen Seen, clock int) bool {
	switch m.Dialect.Wins {
	case dialect.WinsSameText, dialect.WinsEqualNumber:
		return before.Kind != NoMark && before.SameBytes(seen.AsMark())
	}
	if before.Kind == NoMark {
		return m.Dialect.Wins == dialect.WinsExpiredOrNil
	}
	return before.Kind == StampMark && m.expired(before.At, clock, 0)
}

// judgeReply appends the win of a client that judges GETSET's reply by a new
// clock reading, if the value has expired by then. Otherwise the client can
// only quit.
func (m *Machine) judgeReply(s *State, i int, out []Step[State]) []Step[State] {
	c := &s.Old[i]
	if !m.won(c.Seen.AsMark(), Seen{}, m.Cut(s, m.Ahead+int(s.Fleet))) {
		return out
	}
	t := Step[State]{Act: Act{Kind: ActReply, Who: Name(i), Arg: int8(m.Ahead), Out: OutWon}, To: *s}
	age := c.Age
	m.wins(&t.To, i, m.Dialect.KeyTTL == dialect.TTLWinExpire || m.Dialect.KeyTTL == dialect.TTLGetsetExpire)
	t.To.Old[i].Age = age
	return append(out, t)
}

// expire is the EXPIRE of client i, which it sends whatever value is on the
// key.
func (m *Machine) expire(s State, i int) Step[State] {
	t := Step[State]{Act: Act{Kind: ActExpire, Who: Name(i)}}
	if s.L.Kind != NoMark {
		s.L.TTL = Lasts(m.Lease + int(s.Old[i].More))
	}
	if s.Old[i].PC == AtHoldsTTL {
		s.Old[i].PC = AtHolds
	} else {
		s.Old[i] = Client{}
	}
	t.To = s
	return t
}
