// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/explore"
)

// The scripts of getsetlock clients; each is one step on the server.

// isMark reports whether client i's lease depends on v.
func (m *machine) isMark(s *state, v explore.Mark, i int) bool {
	c := &s.our[i]
	switch {
	case c.on == onTomb:
		return v.Kind == explore.TombMark
	case v.Kind == explore.GuardMark:
		return v.Who == ourName(i)
	}
	// A stamp's bytes prove nothing without the TTL that a getsetlock client
	// always writes with them.
	return v.Kind == explore.StampMark && v.At == s.m.at && (v.TTL > 0 || m.broken(ruleMarkHasTTL))
}

// hurt notes for each getsetlock client that its mark was touched since it last
// looked.
func (m *machine) hurt(s *state, before explore.Mark) {
	for i := range s.our {
		c := &s.our[i]
		if c.pc < ourAnswer || c.on == onNothing || s.m.who != ourName(i) {
			continue
		}
		if c.on == onTomb && before.Kind == explore.TombMark || c.on == onOwn && m.isMark(s, before, i) {
			c.flags |= flagHurt
		}
	}
}

// stands is isMark of the present value of L. Where old clients set a TTL too,
// their TTL differs.
func (m *machine) stands(s *state, i int) bool {
	c := &s.our[i]
	if c.on == onNothing {
		return true
	}
	if !m.isMark(s, s.L, i) || s.L.Kind == explore.StampMark && m.broken(ruleStampInM) && s.L.At != c.heard {
		return false
	}
	if s.L.Kind == explore.StampMark && m.Dialect.ServerExpires() &&
		!m.broken(ruleMarkHasTTL|ruleMarkSameTTL) {
		return s.L.TTL-s.m.ttl == m.beyond()
	}
	return true
}

// beyond returns how much longer L exists than M when L has a stamp. Only where
// old clients set TTLs too must that be more than 0: then only the end
// distinguishes a getsetlock client's bytes from the same bytes of an old
// client.
func (m *machine) beyond() int8 {
	if !m.Dialect.ServerExpires() {
		return 0
	}
	return m.old.Grain
}

// free reports whether client i may take L as it is, and what its lease would
// then depend on.
func (m *machine) free(s *state, i int) (onL, bool) {
	c := &s.our[i]
	if c.phase == inClean || c.phase == noPhase {
		return onNothing, true
	}
	switch s.L.Kind {
	case explore.NoMark:
		return onOwn, true
	case explore.TombMark:
		if c.phase >= inSealed {
			return onTomb, true
		}
		return onOwn, c.phase == inDual || m.broken(ruleAcquireLooks) // observe takes it for held
	case explore.StampMark:
		return onOwn, c.flags&flagJudged != 0 || m.mayTakeOver(s, c) || m.broken(ruleAcquireLooks)
	}
	unread := s.L.Kind == explore.ConstMark && m.broken(ruleUnreadableHeld)
	return onOwn, c.flags&flagJudged != 0 || m.broken(ruleAcquireLooks) || unread
}

func (m *machine) mayTakeOver(s *state, c *ourClient) bool {
	if m.Ours.Unchanged > 0 {
		return c.watch.AsMark().SameBytes(s.L) && int(c.since) > m.Ours.Unchanged
	}
	return m.past(s, c) && (m.known(s) || m.looked(s))
}

// past reports whether the server's clock is past the stamp on L by more than
// the margin.
func (m *machine) past(s *state, c *ourClient) bool {
	margin := m.Ours.TakeoverMargin
	if m.known(s) {
		margin += m.gained(s, c)
	}
	return int(s.L.At)+margin < m.old.Cut(&s.State, 0)
}

// known reports whether a client acts on how far the slowest old clock is
// behind: it was claimed, and nothing that was seen contradicts that.
func (m *machine) known(s *state) bool {
	return m.Ours.Known && (!s.proved || m.broken(ruleContradictedIsVoid)) ||
		m.Ours.Measured && m.broken(ruleOnlyClaimsPermit)
}

// proves notes an old client's write that proves its clock to be further behind
// than was claimed. The reading may be Gap old, and the lease may be any.
func (m *machine) proves(s *state) {
	if !m.Ours.Watched || !m.Dialect.HasTakeover() {
		return
	}
	atMost := int(s.L.At-m.old.Slack) - m.Lease + m.Gap + int(m.old.Grain) - 1
	s.proved = s.proved || atMost < -m.Ours.TakeoverMargin
}

// gained returns how much client c has seen the server's clock gain on its own
// elapsed time.
func (m *machine) gained(s *state, c *ourClient) int {
	undone := s.Server < 0
	switch {
	case s.Server == 0 || c.met == 0 || m.broken(ruleStepAdds):
		return 0
	case m.ServerStep > 0:
		return m.ServerStep
	case undone:
		return -m.ServerStep
	}
	return 0
}

// looked reports whether a look long enough ago showed the bytes that are on L.
func (m *machine) looked(s *state) bool {
	if !s.look.sameBytes(s.L) {
		return false
	}
	age := int(s.look.age)
	switch {
	case m.broken(ruleLookElapsed):
		age += int(s.look.shift)
	case m.Ours.Elsewhere:
		age = 9*(age+int(s.look.shift))/10 - m.Ours.Margin
	}
	return age >= int(m.lookAge)
}

// notes remembers a look whose clock reading has that age, unless a look at the
// same bytes is already remembered.
func (m *machine) notes(s *state, seen explore.Seen, age int8) bool {
	if !seen.AsMark().SameBytes(s.L) || s.look.sameBytes(s.L) {
		return false
	}
	s.look = look{kind: seen.Kind, who: seen.Who, at: seen.At, age: age}
	return true
}

// worthALook reports whether client c has found a past stamp, and has nothing
// else to judge it by.
func (m *machine) worthALook(s *state, c *ourClient) bool {
	return m.Ours.Unchanged == 0 && s.L.Kind == explore.StampMark && s.m.who == explore.Nobody &&
		c.phase != inClean && c.phase != noPhase &&
		m.Dialect.HasTakeover() && !m.known(s) && m.past(s, c)
}

// tidies forgets a look at bytes that no client can write again; it has no
// effect any more.
func (m *machine) tidies(s *state) {
	if s.look.kind == explore.NoMark || s.look.sameBytes(s.L) || s.look.at >= m.fresh {
		return
	}
	for i := range m.Old {
		if c := &s.Old[i]; c.PC > explore.AtRests && c.Stamp == s.look.at {
			return
		}
	}
	s.look = look{}
}

// meets is a client's first look at the server's clock, if that comes before
// the step.
func (m *machine) meets(s *state, i int) {
	if m.Ours.Newcomers && s.Server == 0 {
		s.our[i].met = 1
	}
}

// reads is client i's look at its mark: it trusts what the server keeps, and no
// more (rule 9).
func (m *machine) reads(s *state, i int) {
	c := &s.our[i]
	if s.L.TTL == 0 || c.on == onNothing || m.broken(ruleTrustPTTL) {
		return
	}
	c.age = max(c.age, min(int8(m.ttl(c))-(s.L.TTL-1), m.trustCap))
}

// hears returns the stamp that a reply says was written to L; it is kept only
// where M does not say it.
func (m *machine) hears(s *state) int8 {
	if m.broken(ruleStampInM) {
		return s.m.at
	}
	return 0
}

// acquire is the script that takes both keys or neither. It reports whether the
// attempt won and whether it replaced an old client's value.
func (m *machine) acquire(s *state, i int) (won, tookOver bool) {
	if m.elsewhere(s, i) {
		c := &s.our[i]
		c.on, c.flags, c.life = onNothing, c.flags&flagReleased, 0
		return true, false
	}
	on, ok := m.free(s, i)
	if !ok || s.m.who != explore.Nobody && !m.broken(ruleTwoKeys) {
		m.endsGap(s, i)
		return false, false
	}
	c := &s.our[i]
	tookOver = on == onOwn && s.L.Kind == explore.StampMark
	before := s.L
	c.on, c.flags, c.life = on, c.flags&flagReleased, 0
	if on == onOwn { // L has other bytes than those that were seen
		s.look = look{}
	}
	s.m = token{who: ourName(i), ttl: explore.Lasts(m.Ours.TTL), at: m.old.Floor}
	switch on {
	case onOwn:
		m.putMark(s, i)
	case onTomb:
		s.L.TTL = 0
	}
	if before != s.L {
		m.hurt(s, before)
		c.flags &= flagReleased
	}
	return true, tookOver
}

// endsGap ends the time for which a key is left to old clients, when an attempt
// finds that one has taken it: that client has had its turn.
func (m *machine) endsGap(s *state, i int) {
	p := s.our[i].phase
	if m.Ours.Leaves == 0 || p == inClean || p == noPhase || s.L.Kind == explore.NoMark ||
		s.L.Kind == explore.TombMark {
		return
	}
	if s.m.who == leftover || m.broken(ruleLeftIsNobodys) {
		s.m = token{}
	}
}

// putMark writes the mark on which client i's lease depends. It does not write
// a tombstone, whose TTL is so long that it counts as none here. A stamp lies
// far beyond the lease, and the key ends with the lease.
func (m *machine) putMark(s *state, i int) {
	c := &s.our[i]
	ttl := m.ttl(c)
	s.m.at = m.old.Floor // no getsetlock stamp is ever so far back while M exists
	if c.phase == inObserve && m.Dialect.HasStamp() {
		u := int(m.old.Grain)
		at := int8(m.old.Cut(&s.State, 0)+(ttl+u-1)/u*u) + m.old.Slack + m.far
		s.m.at = at
		s.L = explore.Mark{Kind: explore.StampMark, At: at, TTL: explore.Lasts(ttl) + m.beyond()}
		if m.Dialect.Shape == dialect.ShapeUUIDNumber {
			s.L.Who = ourName(i)
		}
	} else {
		s.L = explore.Mark{Kind: explore.GuardMark, Who: ourName(i), TTL: explore.Lasts(ttl)}
	}
}

// ttl returns the present TTL of client i's lease.
func (m *machine) ttl(c *ourClient) int {
	if c.flags&flagLong != 0 {
		return m.Ours.Long
	}
	return m.Ours.TTL
}

func (m *machine) hasM(s *state, i int) bool {
	others := s.m.who != explore.Nobody && s.m.who != leftover
	return s.m.who == ourName(i) || m.broken(ruleToken) && others || m.broken(ruleTwoKeys)
}

// renewal renews both keys if M has the client's token and L still has its
// mark.
func (m *machine) renewal(s *state, i int) bool {
	c := &s.our[i]
	looks := !m.broken(ruleRenewalLooks)
	switch {
	case m.elsewhere(s, i):
		return true
	case !m.hasM(s, i):
		return false
	case looks && !m.stands(s, i):
		if m.broken(ruleKeepM) {
			s.m = token{}
		}
		return false
	}
	if c.phase == inModern && m.Ours.Long > 0 && (int(c.life) > m.Gap || m.broken(ruleLongAfterGap)) {
		c.flags |= flagLong
	}
	own := c.on == onOwn && m.stands(s, i) // before M's TTL is renewed, which stands may compare
	s.m.who, s.m.ttl = ourName(i), explore.Lasts(m.ttl(c))
	switch {
	case own:
		m.putMark(s, i)
	case c.on == onTomb && s.L.Kind == explore.TombMark && !m.broken(ruleTombstoneTTL):
		s.L.TTL = 0 // another program's EXPIRE may have cut it
	}
	return true
}

// leavesKey is a release that leaves the key to old clients. It reports whether
// it may.
func (m *machine) leavesKey(s *state, i int) bool {
	c := &s.our[i]
	if m.Ours.Leaves == 0 || c.on != onOwn || c.phase > inDual || !m.hasM(s, i) || !m.stands(s, i) {
		return false
	}
	s.L = explore.Mark{}
	s.m = token{who: leftover, ttl: explore.Lasts(m.Ours.Leaves), at: m.old.Floor}
	return true
}

// release deletes M, and L if it still has the mark.
func (m *machine) release(s *state, i int) {
	c := &s.our[i]
	if m.elsewhere(s, i) || !m.hasM(s, i) {
		return
	}
	if c.on == onOwn && (m.stands(s, i) || m.broken(ruleReleaseLooks)) {
		s.L = explore.Mark{}
		if c.phase >= inSealed &&
			(!m.Dialect.OrMine || c.flags&flagSettled != 0 || m.broken(ruleUnsettledDeleted)) {
			s.L = explore.Mark{Kind: explore.TombMark}
		}
	}
	s.m = token{}
}
