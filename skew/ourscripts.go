package skew

import (
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/internal/model"
)

// The scripts of getsetlock clients; each is one step on the server.

// isMark reports whether client i's lease depends on v.
func (m *machine) isMark(s *state, v mark, i int) bool {
	c := &s.our[i]
	switch {
	case c.on == model.OnTomb:
		return v.kind == tombMark
	case v.kind == guardMark:
		return v.who == ourName(i)
	}
	// A stamp's bytes prove nothing without the TTL that a getsetlock client
	// always writes with them.
	return v.kind == stampMark && v.at == s.m.at && (v.ttl > 0 || m.broken(ruleMarkHasTTL))
}

// stands is isMark of the present value of L. Where old clients set a TTL too,
// their TTL differs.
func (m *machine) stands(s *state, i int) bool {
	c := &s.our[i]
	if c.on == model.OnNothing {
		return true
	}
	if !m.isMark(s, s.l, i) || s.l.kind == stampMark && m.broken(ruleStampInM) && s.l.at != c.heard {
		return false
	}
	if s.l.kind == stampMark && m.Dialect.ServerExpires() && !m.broken(ruleMarkHasTTL|ruleMarkSameTTL) {
		return s.l.ttl-s.m.ttl == m.beyond()
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
	return m.unit
}

// free reports whether client i may take L as it is, and what its lease would
// then depend on.
func (m *machine) free(s *state, i int) (model.OnL, bool) {
	c := &s.our[i]
	if c.phase == model.Clean || c.phase == model.NoPhase {
		return model.OnNothing, true
	}
	switch s.l.kind {
	case noMark:
		return model.OnOwn, true
	case tombMark:
		if c.phase >= model.Sealed {
			return model.OnTomb, true
		}
		return model.OnOwn, c.phase == model.Dual || m.broken(ruleAcquireLooks) // observe takes it for held
	case stampMark:
		return model.OnOwn, c.flags&flagJudged != 0 || m.mayTakeOver(s, c) || m.broken(ruleAcquireLooks)
	}
	unread := s.l.kind == constMark && m.broken(ruleUnreadableHeld)
	return model.OnOwn, c.flags&flagJudged != 0 || m.broken(ruleAcquireLooks) || unread
}

func (m *machine) mayTakeOver(s *state, c *ourClient) bool {
	if m.Ours.Unchanged > 0 {
		return c.watch.asMark().sameBytes(s.l) && int(c.since) > m.Ours.Unchanged
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
	return int(s.l.at)+margin < m.cut(s, 0)
}

// known reports whether a client acts on how far the slowest old clock is
// behind: it was claimed, and nothing that was seen contradicts that.
func (m *machine) known(s *state) bool {
	return m.Ours.Known && (!s.proved || m.broken(ruleContradictedIsVoid)) ||
		m.Ours.Measured && m.broken(ruleOnlyClaimsPermit)
}

// proves notes an old client's write that proves its clock to be further behind
// than was claimed. The reading may be Gap old, and the lease may be any.
func (m *machine) proves(s *state, stamp int8) {
	if !m.Ours.Watched || !m.Dialect.HasTakeover() {
		return
	}
	atMost := int(stamp-m.slack) - m.Lease + m.Gap + int(m.unit) - 1
	s.proved = s.proved || atMost < -m.Ours.TakeoverMargin
}

// gained returns how much client c has seen the server's clock gain on its own
// elapsed time.
func (m *machine) gained(s *state, c *ourClient) int {
	undone := s.server < 0
	switch {
	case s.server == 0 || c.met == 0 || m.broken(ruleStepAdds):
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
	if !s.look.sameBytes(s.l) {
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
func (m *machine) notes(s *state, seen seen, age int8) bool {
	if !seen.asMark().sameBytes(s.l) || s.look.sameBytes(s.l) {
		return false
	}
	s.look = look{kind: seen.kind, who: seen.who, at: seen.at, age: age}
	return true
}

// worthALook reports whether client c has found a past stamp, and has nothing
// else to judge it by.
func (m *machine) worthALook(s *state, c *ourClient) bool {
	return m.Ours.Unchanged == 0 && s.l.kind == stampMark && s.m.who == nobody && c.phase != model.Clean &&
		c.phase != model.NoPhase &&
		m.Dialect.HasTakeover() && !m.known(s) && m.past(s, c)
}

// tidies forgets a look at bytes that no client can write again; it has no
// effect any more.
func (m *machine) tidies(s *state) {
	if s.look.kind == noMark || s.look.sameBytes(s.l) || s.look.at >= m.fresh {
		return
	}
	for i := range m.Old {
		if c := &s.old[i]; c.pc > oldRests && c.stamp == s.look.at {
			return
		}
	}
	s.look = look{}
}

// meets is a client's first look at the server's clock, if that comes before
// the step.
func (m *machine) meets(s *state, i int) {
	if m.Ours.Newcomers && s.server == 0 {
		s.our[i].met = 1
	}
}

// reads is client i's look at its mark: it trusts what the server keeps, and no
// more (rule 9).
func (m *machine) reads(s *state, i int) {
	c := &s.our[i]
	if s.l.ttl == 0 || c.on == model.OnNothing || m.broken(ruleTrustPTTL) {
		return
	}
	c.age = max(c.age, min(int8(m.ttl(c))-(s.l.ttl-1), m.trustCap))
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
		c.on, c.flags, c.life = model.OnNothing, c.flags&flagReleased, 0
		return true, false
	}
	on, ok := m.free(s, i)
	if !ok || s.m.who != nobody && !m.broken(ruleTwoKeys) {
		m.endsGap(s, i)
		return false, false
	}
	c := &s.our[i]
	tookOver = on == model.OnOwn && s.l.kind == stampMark
	before := s.l
	c.on, c.flags, c.life = on, c.flags&flagReleased, 0
	if on == model.OnOwn { // L has other bytes than those that were seen
		s.look = look{}
	}
	s.m = token{who: ourName(i), ttl: lasts(m.Ours.TTL), at: m.floor}
	switch on {
	case model.OnOwn:
		m.putMark(s, i)
	case model.OnTomb:
		s.l.ttl = 0
	}
	if before != s.l {
		m.hurt(s, before)
		c.flags &= flagReleased
	}
	return true, tookOver
}

// endsGap ends the time for which a key is left to old clients, when an attempt
// finds that one has taken it: that client has had its turn.
func (m *machine) endsGap(s *state, i int) {
	p := s.our[i].phase
	if m.Ours.Leaves == 0 || p == model.Clean || p == model.NoPhase || s.l.kind == noMark ||
		s.l.kind == tombMark {
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
	s.m.at = m.floor // no getsetlock stamp is ever so far back while M exists
	if c.phase == model.Observe && m.Dialect.HasStamp() {
		u := int(m.unit)
		at := int8(m.cut(s, 0)+(ttl+u-1)/u*u) + m.slack + m.far
		s.m.at = at
		s.l = mark{kind: stampMark, at: at, ttl: lasts(ttl) + m.beyond()}
		if m.Dialect.Shape == dialect.ShapeUUIDNumber {
			s.l.who = ourName(i)
		}
	} else {
		s.l = mark{kind: guardMark, who: ourName(i), ttl: lasts(ttl)}
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
	others := s.m.who != nobody && s.m.who != leftover
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
	if c.phase == model.Modern && m.Ours.Long > 0 && (int(c.life) > m.Gap || m.broken(ruleLongAfterGap)) {
		c.flags |= flagLong
	}
	own := c.on == model.OnOwn && m.stands(s, i) // before M's TTL is renewed, which stands may compare
	s.m.who, s.m.ttl = ourName(i), lasts(m.ttl(c))
	switch {
	case own:
		m.putMark(s, i)
	case c.on == model.OnTomb && s.l.kind == tombMark && !m.broken(ruleTombstoneTTL):
		s.l.ttl = 0 // another program's EXPIRE may have cut it
	}
	return true
}

// leavesKey is a release that leaves the key to old clients. It reports whether
// it may.
func (m *machine) leavesKey(s *state, i int) bool {
	c := &s.our[i]
	if m.Ours.Leaves == 0 || c.on != model.OnOwn || c.phase > model.Dual || !m.hasM(s, i) || !m.stands(s, i) {
		return false
	}
	s.l = mark{}
	s.m = token{who: leftover, ttl: lasts(m.Ours.Leaves), at: m.floor}
	return true
}

// release deletes M, and L if it still has the mark.
func (m *machine) release(s *state, i int) {
	c := &s.our[i]
	if m.elsewhere(s, i) || !m.hasM(s, i) {
		return
	}
	if c.on == model.OnOwn && (m.stands(s, i) || m.broken(ruleReleaseLooks)) {
		s.l = mark{}
		if c.phase >= model.Sealed &&
			(!m.Dialect.OrMine || c.flags&flagSettled != 0 || m.broken(ruleUnsettledDeleted)) {
			s.l = mark{kind: tombMark}
		}
	}
	s.m = token{}
}
