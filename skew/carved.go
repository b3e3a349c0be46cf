package skew

// A namespace that was carved out of a shorter one, with the phase of that one.
// Its members begin as those of the shorter one's record, which stays where it
// is, and each comes to the longer one's by a heartbeat.

// acknowledges is the heartbeat by which a member goes by the longer record. A
// lease that it has then is still counted in the shorter one's roster.
func (c *ourClient) acknowledges() {
	if c.away == awayShorter && c.pc != ourIdle {
		c.away = awayBefore
		return
	}
	c.away = awayNot
}

// ended is where a member stands whose attempt or lease is over.
func (a away) ended() away {
	if a == awayBefore {
		return awayNot
	}
	return a
}

// carvedRefuses: a member has not acknowledged the carving, or has a lease from
// before it. No gate of the longer record is open.
func (m *machine) carvedRefuses(c *ourClient) bool {
	return c.away == awayShorter && !m.broken(ruleCarvedAcknowledged) || c.away == awayBefore && !m.broken(ruleCarvedLeases)
}
