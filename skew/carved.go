package skew

// A namespace that was carved out of a shorter one begins with the phase of
// that one. Its members begin as members of the shorter one's record, which
// does not move. Each comes to the longer one's record by a heartbeat.

// acknowledges is the heartbeat by which a member starts to follow the longer
// record. The shorter one's roster still counts a lease that it has then.
func (c *ourClient) acknowledges() {
	if c.away == awayShorter && c.pc != ourIdle {
		c.away = awayBefore
		return
	}
	c.away = awayNot
}

// ended returns the member's standing once its attempt or lease has ended.
func (a away) ended() away {
	if a == awayBefore {
		return awayNot
	}
	return a
}

// carvedRefuses reports whether a member keeps every gate of the longer record
// closed: it has not acknowledged the carving, or has a lease from before it.
func (m *machine) carvedRefuses(c *ourClient) bool {
	return c.away == awayShorter && !m.broken(ruleCarvedAcknowledged) ||
		c.away == awayBefore && !m.broken(ruleCarvedLeases)
}
