package simulate

import (
	"math/bits"
	"time"
)

// act makes an event happen.
func (m *quorumSim) act(e quorumEvent) {
	switch e.kind {
	case quorumClock:
		m.change(e.member)
	case quorumLose:
		m.free(&m.members[e.member])
		m.trouble(e.kind, e.member, m.Lost)
	case quorumRestart:
		s := &m.members[e.member]
		m.free(s)
		if m.Wait {
			s.votes = m.now + int64(m.TTL)
		}
		m.trouble(e.kind, e.member, m.Restarted)
	case quorumExec:
		m.exec(e)
	case quorumDel:
		if s := m.awake(e); s != nil {
			m.rates.Messages++
			if s.owner == e.client && s.serial == e.serial {
				s.owner = -1
			}
		}
	default:
		if c := &m.clients[e.client]; e.serial == c.serial {
			m.actClient(c, e)
		}
	}
}

// actClient is an event of a client in its present attempt or lease.
func (m *quorumSim) actClient(c *quorumClient, e quorumEvent) {
	switch e.kind {
	case quorumAsk:
		m.ask(c, e.client)
	case quorumReply:
		if e.round == c.round {
			m.reply(c, e)
		}
	case quorumRenew:
		if c.holding {
			m.renew(c, e.client)
		}
	case quorumTrust:
		switch {
		case c.holding && m.now >= c.trust:
			m.rates.Lost++
			m.leave(c, e.client)
		case c.holding:
			e.at = c.trust
			m.push(e)
		}
	case quorumDone:
		if c.holding {
			m.leave(c, e.client)
		}
	}
}

// awake returns the member that executes a message; nil if it stands still, and
// the message waits.
func (m *quorumSim) awake(e quorumEvent) *quorumMember {
	s := &m.members[e.member]
	if until := m.sim.idle(&s.simClient, m.now); until > m.now {
		e.at = until
		m.push(e)
		return nil
	}
	m.expire(s)
	return s
}

// expire frees a key whose time has passed by the member's clock. Its vote did
// not end early unless its owner still counts on it.
func (m *quorumSim) expire(s *quorumMember) {
	if s.owner >= 0 && m.now+s.clock.theta(m.now) >= s.until {
		m.free(s)
	}
}

// free takes the key from its owner, and marks votes that end early.
func (m *quorumSim) free(s *quorumMember) {
	if s.owner < 0 {
		return
	}
	c, bit := &m.clients[s.owner], uint32(1)<<s.name
	if c.serial == s.serial {
		if c.granted&bit != 0 {
			c.lapsed |= bit
		}
		if c.holding && m.now < c.trust && c.votes&bit != 0 && c.ended&bit == 0 {
			c.ended |= bit
			m.rates.EarlyEnds++
		}
	}
	s.owner = -1
}

// change changes a member's clock. A key that is past its time at any instant
// is gone, even if the clock steps back afterwards.
func (m *quorumSim) change(i int8) {
	s := &m.members[i]
	m.expire(s)
	m.sim.now = m.now
	s.clock.alter()
	m.expire(s)
	m.push(quorumEvent{at: s.clock.change, kind: quorumClock, member: i})
}

// ask begins an attempt.
func (m *quorumSim) ask(c *quorumClient, name int32) {
	c.serial++
	c.asked = uint32(1)<<m.Members - 1
	for n := m.Members; n > m.Votes; n-- {
		left := c.asked // drop the k-th of the members that are left
		for range m.random.IntN(n) {
			left &= left - 1
		}
		c.asked &^= left & -left
	}
	c.votes, c.ended, c.yes = 0, 0, 0
	m.send(c, name, c.asked)
}

// send begins a round.
func (m *quorumSim) send(c *quorumClient, name int32, to uint32) {
	c.round++
	c.sent, c.granted, c.replied, c.yes, c.lapsed = m.now, 0, 0, 0, 0
	m.post(c, name, to, quorumEvent{kind: quorumExec})
}

// post sends a message to each of some members.
func (m *quorumSim) post(c *quorumClient, name int32, to uint32, e quorumEvent) {
	e.client, e.serial, e.round = name, c.serial, c.round
	for ; to != 0; to &= to - 1 {
		e.member, e.at = int8(bits.TrailingZeros32(to)), m.now+m.Latency.draw(m.random)
		m.push(e)
	}
}

// exec is a member's turn: SET NX of an attempt or for a missing vote, or the
// renewal where the token stands.
func (m *quorumSim) exec(e quorumEvent) {
	s := m.awake(e)
	if s == nil {
		return
	}
	m.rates.Messages++
	c, bit := &m.clients[e.client], uint32(1)<<e.member
	if c.serial != e.serial {
		return // given up: the DEL behind it would come to the same
	}
	old := c.holding && !e.taking
	switch {
	case old:
		e.ok = s.owner == e.client && s.serial == e.serial
	default:
		e.ok = s.owner < 0 && m.now >= s.votes
	}
	if e.ok {
		s.owner, s.serial, s.until = e.client, e.serial, m.now+s.clock.theta(m.now)+int64(m.TTL)
		if c.round == e.round && !e.taking {
			c.granted |= bit
			c.lapsed &^= bit
		}
	}
	e.kind, e.at = quorumReply, m.now+m.Latency.draw(m.random)
	m.push(e)
}

// reply is the client reading one.
func (m *quorumSim) reply(c *quorumClient, e quorumEvent) {
	if e.taking {
		return // it counts from the next renewal on
	}
	bit := uint32(1) << e.member
	c.replied |= bit
	if e.ok {
		c.yes |= bit
	}
	yes := bits.OnesCount32(c.yes)
	if m.now >= c.sent+int64(m.TTL-m.Margin) {
		if !c.holding {
			m.refused(c, e.client)
		}
		return
	}
	switch {
	case e.ok && yes == m.majority:
		m.succeeds(c, e.client)
	case e.ok && yes > m.majority:
		c.votes, c.ended = c.granted, c.ended|c.lapsed
	case !e.ok && yes+bits.OnesCount32(c.asked&^c.replied) < m.majority:
		if c.holding {
			m.rates.Lost++
			m.leave(c, e.client)
			return
		}
		m.refused(c, e.client)
	}
}

// succeeds is the majority's last reply.
func (m *quorumSim) succeeds(c *quorumClient, name int32) {
	c.trust, c.votes, c.ended = c.sent+int64(m.TTL-m.Margin), c.granted, c.lapsed
	if c.holding {
		if missing := c.asked &^ c.granted; missing != 0 {
			m.post(c, name, missing, quorumEvent{kind: quorumExec, taking: true})
		}
	} else {
		m.holds(c, name)
	}
	m.push(quorumEvent{at: c.sent + int64(m.Renew), kind: quorumRenew, client: name, serial: c.serial})
}

// holds begins a lease.
func (m *quorumSim) holds(c *quorumClient, name int32) {
	m.rates.Acquisitions++
	if m.holders > 0 {
		m.rates.Entries++
		for i := range m.clients {
			if other := &m.clients[i]; other.holding && m.entered != nil {
				m.entered(other)
			}
		}
	}
	c.holding = true
	if m.holders++; m.holders == 2 {
		m.since = m.now
	}
	c.done = m.now + m.Job.draw(m.random)
	m.push(quorumEvent{at: c.done, kind: quorumDone, client: name, serial: c.serial})
	m.push(quorumEvent{at: c.trust, kind: quorumTrust, client: name, serial: c.serial})
}

// renew begins a renewal of all votes.
func (m *quorumSim) renew(c *quorumClient, name int32) { m.send(c, name, c.asked) }

// leave ends a lease: the job is done, or the lease is lost.
func (m *quorumSim) leave(c *quorumClient, name int32) {
	c.holding = false
	if m.holders--; m.holders == 1 {
		m.episode()
	}
	m.giveBack(c, name, m.Rest.draw(m.random))
}

// episode counts the episode that ends now.
func (m *quorumSim) episode() {
	m.rates.Episodes++
	span := time.Duration(m.now - m.since)
	m.rates.EpisodeTime += span
	m.rates.LongestEpisode = max(m.rates.LongestEpisode, span)
}

// refused ends an attempt without a majority.
func (m *quorumSim) refused(c *quorumClient, name int32) {
	m.rates.Refused++
	m.giveBack(c, name, int64(m.Retry)/2+m.random.Int64N(int64(m.Retry)))
}

// giveBack deletes what the client may have, and lets it return.
func (m *quorumSim) giveBack(c *quorumClient, name int32, pause int64) {
	m.post(c, name, c.asked, quorumEvent{kind: quorumDel})
	c.serial++
	m.push(quorumEvent{at: m.now + max(1, pause), kind: quorumAsk, client: name, serial: c.serial})
}
