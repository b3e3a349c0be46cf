// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/getsetlock/getsetlock/internal/explore"

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
	left := event{Kind: evRelease, Who: ourName(i), Out: explore.OutKept}
	if t := (step{Act: left, To: *s}); m.leavesKey(&t.To, i) {
		t.To.endAttempt(i)
		out = append(out, t)
	}
	if m.broken(ruleReleasedNotPassed) && !m.trustOver(c) {
		t := m.pc(s, i, evPass, ourHolds)
		t.To.our[i].flags |= flagReleased
		out = append(out, t)
	}
	if m.broken(ruleFreshToken) {
		t := m.pc(s, i, evLate, ourIdle)
		t.To.our[i] = c.between()
		t.To.our[i].on, t.To.our[i].flags = c.on, flagReleased
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
	t := step{Act: event{Kind: evRelease, Who: ourName(i)}, To: *s}
	m.release(&t.To, i)
	t.To.our[i].flags &^= flagReleased
	return append(out, t)
}

// releases executes the release script. No client waits for its reply.
func (m *machine) releases(s *state, i int) step {
	t := step{Act: event{Kind: evRelease, Who: ourName(i)}, To: *s}
	trampled := s.L.Kind != explore.NoMark && !m.stands(s, i)
	m.release(&t.To, i)
	t.To.endAttempt(i)
	if old, _ := t.To.holders(); trampled && t.To.L.Kind != s.L.Kind && old > 0 {
		t.Note |= noteTrampled
	}
	return t
}

func (m *machine) pc(s *state, i int, kind explore.Kind, pc ourStep) step {
	t := step{Act: event{Kind: kind, Who: ourName(i)}, To: *s}
	t.To.our[i].pc, t.To.our[i].renew = pc, 0
	if pc == ourLost {
		t.To.our[i].life = 0
	}
	return t
}

func (m *machine) idles(s *state, i int, kind explore.Kind) step {
	t := step{Act: event{Kind: kind, Who: ourName(i)}, To: *s}
	t.To.endAttempt(i)
	return t
}

// endAttempt gives up a token for good: from now on its bytes are a stranger's.
func (s *state) endAttempt(i int) {
	s.our[i] = s.our[i].between()
	s.rename(ourName(i), explore.Stranger)
}

// between returns what is left of a client when its attempt or lease has ended.
func (c *ourClient) between() ourClient {
	return ourClient{member: c.member, met: c.met, away: c.away, quiet: c.quiet,
		doubt: c.doubt &^ doubtAttempt}
}

func (m *machine) idle(s *state, i int, out []step) []step {
	c := &s.our[i]
	if m.Ours.Unchanged > 0 && s.L.Kind == explore.StampMark {
		out = append(out, m.sample(*s, i))
	}
	if m.Ours.OldServer {
		out = m.remembers(s, i, out)
	}
	if !m.Ours.Restored && c.away == awayNot && m.mayLearn(s, c) {
		out = append(out, m.learn(s, i))
	}
	if c.member == noPhase && !m.broken(ruleNoPhaseNoLock) ||
		m.unheard(c, m.Ours.Attempts, ruleAttemptsStop) || m.unread(c) {
		return out
	}
	to := *s
	to.our[i].phase, to.our[i].age = c.member, 0
	if m.Ours.LongAttempts {
		to.our[i].pc = ourBegun
		return append(out, step{Act: event{Kind: evBegin, Who: ourName(i)}, To: to})
	}
	if m.broken(ruleCompareAndSet) && s.L.Kind == explore.StampMark && m.mayTakeOver(s, c) {
		blind := to
		blind.our[i].pc, blind.our[i].flags = ourSent, flagJudged
		looked := event{Kind: evSample, Who: ourName(i), Arg: s.L.At, Out: explore.OutOther}
		out = append(out, step{Act: looked, To: blind})
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
	return append(out, step{Act: event{Kind: evSend, Who: ourName(i)}, To: to})
}

// sample is a look at L that takes nothing.
func (m *machine) sample(s state, i int) step {
	c := &s.our[i]
	t := step{Act: event{Kind: evSample, Who: ourName(i), Arg: s.L.At, Out: explore.OutKept}}
	if !c.watch.AsMark().SameBytes(s.L) {
		c.watch, c.since = s.L.AsSeen(), 0
		t.Act.Out = explore.OutOther
	}
	c.last = 0
	t.To = s
	return t
}

// attempt executes the acquire script on the server.
func (m *machine) attempt(s state, i int) step {
	c := &s.our[i]
	m.meets(&s, i)
	t := step{Act: event{Kind: evAcquire, Who: ourName(i), Arg: int8(c.phase), Out: outHeld}}
	cancelled := c.pc == ourGone
	won, tookOver := m.acquire(&s, i)
	if !won {
		past := !cancelled && m.worthALook(&s, c) // a client that cancelled sends no look afterwards
		timed := c.flags&flagTimed != 0
		was := *c
		*c = was.between()
		c.flags, c.watch, c.since, c.last = was.flags&flagReleased, was.watch, was.since, was.last
		if past && m.meetsPast(&s, c, timed) {
			t.Act.Out = outNoted
		}
		if timed {
			c.since = 0 // the reading is used up
		}
		t.To = s
		return t
	}
	t.Act.Out = explore.OutWon
	if tookOver {
		t.Act.Out = outTakeover
	}
	c.watch, c.since, c.last = explore.Seen{}, 0, 0
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
	t.To = s
	return t
}

// meetsPast is what an attempt does after it found a past stamp. It reports
// whether it remembered a look.
func (m *machine) meetsPast(s *state, c *ourClient, timed bool) bool {
	switch {
	case timed: // the reading is older than the bytes may be
		return m.notes(s, s.L.AsSeen(), c.since)
	case m.Ours.OldServer:
		if !m.broken(ruleLookAfterReply) && !s.look.sameBytes(s.L) {
			c.watch, c.since = s.L.AsSeen(), 0
		}
		return false
	}
	return m.notes(s, s.L.AsSeen(), 0)
}

// remembers returns the parts of a look, on a server where a script that has
// called TIME may not write.
func (m *machine) remembers(s *state, i int, out []step) []step {
	c := &s.our[i]
	if m.broken(ruleLookAfterReply) {
		if c.flags&flagTimed == 0 {
			t := step{Act: event{Kind: evTime, Who: ourName(i)}, To: *s}
			t.To.our[i].flags |= flagTimed
			t.To.our[i].since = 0
			out = append(out, t)
		}
		return out
	}
	if c.watch.Kind == explore.NoMark {
		return out
	}
	t := step{Act: event{Kind: evNote, Who: ourName(i), Out: explore.OutKept}, To: *s}
	if m.notes(&t.To, c.watch, c.since) {
		t.Act.Out = outNoted
	}
	t.To.our[i].watch, t.To.our[i].since = explore.Seen{}, 0
	return append(out, t)
}

// mustSettle reports whether a grant must settle. A grant on a tombstone need
// not, since only settled guards leave one.
func (m *machine) mustSettle(c *ourClient, tookOver bool) bool {
	if m.Ours.Settle == 0 || !m.Dialect.HasTakeover() || c.on != onOwn {
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
	return step{Act: event{Kind: evAnswer, Who: ourName(i)}, To: s}
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
	t.Act.Out = explore.OutLost
	m.reads(&t.To, i)
	if m.stands(s, i) && m.hasM(s, i) && !m.trustOver(&t.To.our[i]) {
		t.To.our[i].pc = ourHolds
		t.To.our[i].flags |= flagSettled
		t.Act.Out = explore.OutWon
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
		t := step{Act: event{Kind: evSample, Who: ourName(i), Arg: s.L.At, Out: explore.OutKept}, To: *s}
		t.To.our[i].flags &^= flagWoken
		m.reads(&t.To, i)
		out = append(out, t)
	}
	if m.trustOver(c) {
		return append(out, m.pc(s, i, evToldLost, ourLost))
	}
	if c.on != onNothing && !m.stands(s, i) {
		out = append(out, m.pc(s, i, evToldLost, ourLost))
	}
	if m.unheard(c, m.Ours.Renewals, ruleRenewalsStop) {
		return out
	}
	if m.Ours.Late && c.renew == 0 {
		t := step{Act: event{Kind: evRenew, Who: ourName(i)}, To: *s}
		t.To.our[i].renew = 1
		return append(out, t)
	}
	return m.renewed(s, i, out)
}

// renewed executes the renewal on the server and delivers its reply. A late
// success is trusted for less. A failure that never arrives leaves trust to run
// out.
func (m *machine) renewed(s *state, i int, out []step) []step {
	t := step{Act: event{Kind: evRenewed, Who: ourName(i), Out: explore.OutWon}, To: *s}
	c := &t.To.our[i]
	sent := max(0, c.renew-1)
	ok := m.renewal(&t.To, i)
	c.renew = 0
	if !ok {
		t.Act.Out = explore.OutLost
		if s.our[i].flags&flagHurt == 0 && s.m.who == ourName(i) {
			t.Note |= noteFalseLoss
		}
		deaf := t
		t.To.our[i].pc, t.To.our[i].life = ourLost, 0
		if m.broken(ruleKeepM) {
			out = append(out, deaf)
		}
		return append(out, t)
	}
	if c.flags&flagHurt != 0 {
		t.Note |= noteUnnoticed
	}
	if m.Ours.Deaf {
		deaf := t
		deaf.To.our[i].renew = 0
		out = append(out, deaf)
	}
	c.age, c.heard = sent, m.hears(&t.To)
	return append(out, t)
}
