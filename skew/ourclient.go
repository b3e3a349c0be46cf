package skew

import "github.com/getsetlock/getsetlock/skew/internal/model"

// The getsetlock clients, step by step: attempt, settle, hold, renewal, loss,
// release.

func (m *machine) ourSteps(s *state, i int, out []step) []step {
	c := &s.our[i]
	if m.Ours.Vanishes || m.Ours.Restored || m.Ours.Empties || m.Ours.Renewals > 0 {
		out = m.heartbeat(s, i, out)
	}
	switch c.pc {
	case ourIdle:
		return m.idle(s, i, out)
	case ourBegun:
		out = append(m.sends(*s, i, out), m.idles(s, i, evCancel))
	case ourSent:
		out = append(out, m.attempt(*s, i), m.pc(s, i, evCancel, ourGone))
	case ourGone:
		out = append(out, m.attempt(*s, i), m.idles(s, i, evDrop))
	case ourAnswer:
		out = append(out, m.answer(*s, i), m.pc(s, i, evCancel, ourStopped))
	case ourSettle:
		out = m.settling(s, i, out)
	case ourHolds:
		out = m.lateRelease(s, i, m.holding(s, i, out))
	case ourLost:
		out = m.lateRelease(s, i, append(out, m.pc(s, i, evStop, ourStopped)))
	case ourStopped:
		out = m.stopped(s, i, out)
	}
	if c.pc >= ourAnswer {
		out = append(out, m.idles(s, i, evDie))
	}
	return out
}

// stopped releases. If their rules are broken, the next holder in the process
// takes over the grant meanwhile, or the next attempt begins with the same
// token.
func (m *machine) stopped(s *state, i int, out []step) []step {
	c := &s.our[i]
	out = append(out, m.releases(s, i))
	if t := (step{ev: event{kind: evRelease, who: ourName(i), out: outKept}, to: *s}); m.leavesKey(&t.to, i) {
		t.to.endAttempt(i)
		out = append(out, t)
	}
	if m.broken(ruleReleasedNotPassed) && !m.trustOver(c) {
		t := m.pc(s, i, evPass, ourHolds)
		t.to.our[i].flags |= flagReleased
		out = append(out, t)
	}
	if m.broken(ruleFreshToken) {
		t := m.pc(s, i, evLate, ourIdle)
		t.to.our[i] = c.between()
		t.to.our[i].on, t.to.our[i].flags = c.on, flagReleased
		out = append(out, t)
	}
	return out
}

// lateRelease is the release of an earlier holder with the same token, which is
// executed only now.
func (m *machine) lateRelease(s *state, i int, out []step) []step {
	if s.our[i].flags&flagReleased == 0 {
		return out
	}
	t := step{ev: event{kind: evRelease, who: ourName(i)}, to: *s}
	m.release(&t.to, i)
	t.to.our[i].flags &^= flagReleased
	return append(out, t)
}

// releases executes the release script. No client waits for its reply.
func (m *machine) releases(s *state, i int) step {
	t := step{ev: event{kind: evRelease, who: ourName(i)}, to: *s}
	trampled := s.l.kind != noMark && !m.stands(s, i)
	m.release(&t.to, i)
	t.to.endAttempt(i)
	if old, _ := t.to.holders(); trampled && t.to.l.kind != s.l.kind && old > 0 {
		t.note |= noteTrampled
	}
	return t
}

func (m *machine) pc(s *state, i int, kind eventKind, pc ourStep) step {
	t := step{ev: event{kind: kind, who: ourName(i)}, to: *s}
	t.to.our[i].pc, t.to.our[i].renew = pc, 0
	if pc == ourLost {
		t.to.our[i].life = 0
	}
	return t
}

func (m *machine) idles(s *state, i int, kind eventKind) step {
	t := step{ev: event{kind: kind, who: ourName(i)}, to: *s}
	t.to.endAttempt(i)
	return t
}

// endAttempt gives up a token for good: from now on its bytes are a stranger's.
func (s *state) endAttempt(i int) {
	s.our[i] = s.our[i].between()
	s.rename(ourName(i), stranger)
}

// between returns what is left of a client when its attempt or lease has ended.
func (c *ourClient) between() ourClient {
	return ourClient{member: c.member, met: c.met, away: c.away, quiet: c.quiet,
		doubt: c.doubt &^ doubtAttempt}
}

func (m *machine) idle(s *state, i int, out []step) []step {
	c := &s.our[i]
	if m.Ours.Unchanged > 0 && s.l.kind == stampMark {
		out = append(out, m.sample(*s, i))
	}
	if m.Ours.OldServer {
		out = m.remembers(s, i, out)
	}
	if !m.Ours.Restored && c.away == awayNot && m.mayLearn(s, c) {
		out = append(out, m.learn(s, i))
	}
	if c.member == model.NoPhase && !m.broken(ruleNoPhaseNoLock) ||
		m.unheard(c, m.Ours.Attempts, ruleAttemptsStop) || m.unread(c) {
		return out
	}
	to := *s
	to.our[i].phase, to.our[i].age = c.member, 0
	if m.Ours.LongAttempts {
		to.our[i].pc = ourBegun
		return append(out, step{ev: event{kind: evBegin, who: ourName(i)}, to: to})
	}
	if m.broken(ruleCompareAndSet) && s.l.kind == stampMark && m.mayTakeOver(s, c) {
		blind := to
		blind.our[i].pc, blind.our[i].flags = ourSent, flagJudged
		out = append(out, step{ev: event{kind: evSample, who: ourName(i), arg: s.l.at, out: outOther},
			to: blind})
	}
	return m.sends(to, i, out)
}

// sends sends the acquire script of an attempt, whose trust counts from then.
func (m *machine) sends(to state, i int, out []step) []step {
	to.our[i].age = 0
	if !m.Ours.Late {
		return append(out, m.attempt(to, i))
	}
	to.our[i].pc = ourSent
	return append(out, step{ev: event{kind: evSend, who: ourName(i)}, to: to})
}

// sample is a look at L that takes nothing.
func (m *machine) sample(s state, i int) step {
	c := &s.our[i]
	t := step{ev: event{kind: evSample, who: ourName(i), arg: s.l.at, out: outKept}}
	if !c.watch.asMark().sameBytes(s.l) {
		c.watch, c.since = s.l.asSeen(), 0
		t.ev.out = outOther
	}
	c.last = 0
	t.to = s
	return t
}

// attempt executes the acquire script on the server.
func (m *machine) attempt(s state, i int) step {
	c := &s.our[i]
	m.meets(&s, i)
	t := step{ev: event{kind: evAcquire, who: ourName(i), arg: int8(c.phase), out: outHeld}}
	cancelled := c.pc == ourGone
	won, tookOver := m.acquire(&s, i)
	if !won {
		past := !cancelled && m.worthALook(&s, c) // a client that cancelled sends no look afterwards
		timed := c.flags&flagTimed != 0
		was := *c
		*c = was.between()
		c.flags, c.watch, c.since, c.last = was.flags&flagReleased, was.watch, was.since, was.last
		if past && m.meetsPast(&s, c, timed) {
			t.ev.out = outNoted
		}
		if timed {
			c.since = 0 // the reading is used up
		}
		t.to = s
		return t
	}
	t.ev.out = outWon
	if tookOver {
		t.ev.out = outTakeover
	}
	c.watch, c.since, c.last = seen{}, 0, 0
	c.heard = m.hears(&s)
	if !m.mustSettle(c, tookOver) {
		c.flags |= flagSettled
	}
	switch {
	case cancelled:
		c.pc = ourStopped
	case m.Ours.Late:
		c.pc = ourAnswer
	default:
		m.told(c)
	}
	t.to = s
	return t
}

// meetsPast is what an attempt does after it found a past stamp. It reports
// whether it remembered a look.
func (m *machine) meetsPast(s *state, c *ourClient, timed bool) bool {
	switch {
	case timed: // the reading is older than the bytes may be
		return m.notes(s, s.l.asSeen(), c.since)
	case m.Ours.OldServer:
		if !m.broken(ruleLookAfterReply) && !s.look.sameBytes(s.l) {
			c.watch, c.since = s.l.asSeen(), 0
		}
		return false
	}
	return m.notes(s, s.l.asSeen(), 0)
}

// remembers returns the parts of a look, on a server where a script that has
// called TIME may not write.
func (m *machine) remembers(s *state, i int, out []step) []step {
	c := &s.our[i]
	if m.broken(ruleLookAfterReply) {
		if c.flags&flagTimed == 0 {
			t := step{ev: event{kind: evTime, who: ourName(i)}, to: *s}
			t.to.our[i].flags |= flagTimed
			t.to.our[i].since = 0
			out = append(out, t)
		}
		return out
	}
	if c.watch.kind == noMark {
		return out
	}
	t := step{ev: event{kind: evNote, who: ourName(i), out: outKept}, to: *s}
	if m.notes(&t.to, c.watch, c.since) {
		t.ev.out = outNoted
	}
	t.to.our[i].watch, t.to.our[i].since = seen{}, 0
	return append(out, t)
}

// mustSettle reports whether a grant must settle. A grant on a tombstone need
// not, since only settled guards leave one.
func (m *machine) mustSettle(c *ourClient, tookOver bool) bool {
	if m.Ours.Settle == 0 || !m.Dialect.HasTakeover() || c.on != model.OnOwn {
		return false
	}
	every := m.Ours.SettleAlways || m.Dialect.NeedsSettleEvery() && !m.broken(ruleSettleEvery)
	return tookOver || every
}

// told delivers the reply "taken" to the client, if any trust is left.
func (m *machine) told(c *ourClient) {
	switch {
	case m.trustOver(c), m.tooSilent(c):
		c.pc = ourStopped
	case c.flags&flagSettled == 0:
		c.pc = ourSettle
	default:
		c.pc = ourHolds
	}
}

func (m *machine) trustOver(c *ourClient) bool { return int(c.age) >= m.ttl(c)-m.Ours.Margin }

func (m *machine) answer(s state, i int) step {
	c := &s.our[i]
	if m.broken(ruleTrustFromSent) {
		c.age = 0
	}
	m.told(c)
	return step{ev: event{kind: evAnswer, who: ourName(i)}, to: s}
}

// settling waits, looks again, and only then reports the lock as held.
func (m *machine) settling(s *state, i int, out []step) []step {
	c := &s.our[i]
	out = append(out, m.pc(s, i, evCancel, ourStopped))
	if m.broken(ruleSettlePassedOn) && !m.trustOver(c) {
		t := m.pc(s, i, evPass, ourHolds)
		out = append(out, t)
	}
	if int(c.life) < m.Ours.Settle || m.trustOver(c) {
		return out
	}
	t := m.pc(s, i, evCheck, ourStopped)
	t.ev.out = outLost
	m.reads(&t.to, i)
	if m.stands(s, i) && m.hasM(s, i) && !m.trustOver(&t.to.our[i]) {
		t.to.our[i].pc = ourHolds
		t.to.our[i].flags |= flagSettled
		t.ev.out = outWon
	}
	return append(out, t)
}

// holding returns a holder's steps: the job ends, a renewal is sent or
// executed, trust ends. A holder that watches L may learn early of a lost mark;
// that only shortens holds, so it may happen at any time.
func (m *machine) holding(s *state, i int, out []step) []step {
	c := &s.our[i]
	out = append(out, m.pc(s, i, evStop, ourStopped))
	if c.flags&flagWoken != 0 {
		t := step{ev: event{kind: evSample, who: ourName(i), arg: s.l.at, out: outKept}, to: *s}
		t.to.our[i].flags &^= flagWoken
		m.reads(&t.to, i)
		out = append(out, t)
	}
	if m.trustOver(c) {
		return append(out, m.pc(s, i, evToldLost, ourLost))
	}
	if c.on != model.OnNothing && !m.stands(s, i) {
		out = append(out, m.pc(s, i, evToldLost, ourLost))
	}
	if m.unheard(c, m.Ours.Renewals, ruleRenewalsStop) {
		return out
	}
	if m.Ours.Late && c.renew == 0 {
		t := step{ev: event{kind: evRenew, who: ourName(i)}, to: *s}
		t.to.our[i].renew = 1
		return append(out, t)
	}
	return m.renewed(s, i, out)
}

// renewed executes the renewal on the server and delivers its reply. A late
// success is trusted for less. A failure that never arrives leaves trust to run
// out.
func (m *machine) renewed(s *state, i int, out []step) []step {
	t := step{ev: event{kind: evRenewed, who: ourName(i), out: outWon}, to: *s}
	c := &t.to.our[i]
	sent := max(0, c.renew-1)
	ok := m.renewal(&t.to, i)
	c.renew = 0
	if !ok {
		t.ev.out = outLost
		if s.our[i].flags&flagHurt == 0 && s.m.who == ourName(i) {
			t.note |= noteFalseLoss
		}
		deaf := t
		t.to.our[i].pc, t.to.our[i].life = ourLost, 0
		if m.broken(ruleKeepM) {
			out = append(out, deaf)
		}
		return append(out, t)
	}
	if c.flags&flagHurt != 0 {
		t.note |= noteUnnoticed
	}
	if m.Ours.Deaf {
		deaf := t
		deaf.to.our[i].renew = 0
		out = append(out, deaf)
	}
	c.age, c.heard = sent, m.hears(&t.to)
	return append(out, t)
}
