package simulate

import (
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/internal/model"
)

// Marks of getsetlock clients as numbers. Both are times that no clock reaches,
// so that the dialects' own rules for numbers judge them as they judge the
// bytes. No two guards are equal.
const (
	guardStamp = int64(1) << 62
	tombStamp  = guardStamp + guardStamp/2
)

// simToken is M on the server.
type simToken struct {
	owner   int32 // noToken or doneToken where it is no client's
	expires int64
}

const (
	noToken   int32 = -1 // M is missing
	doneToken int32 = -2 // a release left M: the tick is done
)

// simMember is what a getsetlock client has in addition to what every client
// has. An instant that will not come is never. While the client holds, the
// earliest of its instants is its next event.
type simMember struct {
	on     model.OnL
	mark   simValue // what its lease depends on
	ends   int64    // end of the TTL that it gave L, by the server's clock
	sent   int64    // true time of the request from which trust counts
	taken  int64    // server's clock when the acquire script ran
	cause  Cause    // what let it in while another client held
	took   bool
	stands bool // the settle's look found the mark
	retry  bool // the release belongs to an attempt that failed
	loss   loss
	hurt   bool
	knows  simKnows

	until int64 // end of trust, even while its machine is paused
	late  bool  // its machine was paused then, and it learned of it afterwards

	job, crash, trust, renew, told, stop int64 // at the client
	turn, reply                          int64 // a renewal's instants: at the server; back at the client
	asked                                int64 // true time at which the settle's look or the renewal was sent
	renewed                              bool
}

func (m *Simulator) isOurs(name int32) bool { return int(name) >= m.Fleet.Clients }

func (m *Simulator) member(name int32) *simMember { return &m.members[int(name)-m.Fleet.Clients] }

// actOurs executes one event of a getsetlock client.
func (m *Simulator) actOurs(c *simClient) {
	g := m.member(c.name)
	switch c.pc {
	case simOurTry:
		m.ourTry(c, g)
	case simOurWon:
		m.ourWon(c, g)
	case simOurCheck:
		m.ourChecks(c, g)
	case simOurChecked:
		if g.stands && m.now < g.trust {
			m.ourBegin(c, g)
			return
		}
		if !g.stands {
			m.ourTally.Retried.count(g.loss)
		}
		m.ourRelease(c, g, true)
	case simOurHolds:
		m.ourHolds(c, g)
	case simOurRelease:
		m.ourReleased(c, g)
	}
}

// ourAsk sends an attempt at a client's instant.
func (m *Simulator) ourAsk(c *simClient, at int64) {
	m.member(c.name).sent = at
	c.pc, c.next = simOurTry, at+m.way()
}

// ourTry executes the acquire script.
func (m *Simulator) ourTry(c *simClient, g *simMember) {
	m.tally.commands++
	if !c.waiting {
		c.waiting = true
		m.tally.waiting++
	}
	m.hears(g)
	on, free := m.ourFree(c, g)
	if !free {
		at := m.idle(c, m.now+m.way())
		every := int64(m.Ours.RetryEvery)
		m.ourAsk(c, m.idle(c, at+every+m.random.Int64N(every/4+1)))
		return
	}
	sent := g.sent
	*g = simMember{on: on, sent: sent, taken: m.server.time, stop: never, knows: g.knows}
	m.trusts(g, sent+int64(m.Ours.TTL-m.Ours.Margin))
	m.looks.there = false
	k := &m.key
	g.took = on == model.OnOwn && k.present && k.value.stamp != tombStamp
	g.cause = k.freed
	if g.took {
		m.tally.takeovers++
		m.ourTally.Takeovers++
		g.cause = m.ourCause()
	}
	if k.owner >= 0 && m.clients[k.owner].holding {
		m.clients[k.owner].robbed = g.cause
	}
	m.token.owner, k.owner = c.name, c.name
	m.mark(c, g)
	c.pc, c.next = simOurWon, m.idle(c, m.now+m.way())
}

// ourCause returns why a takeover by the server's clock met a holder. Either
// the holder's clock was behind by more than the margin, or its job was too
// long.
func (m *Simulator) ourCause() Cause {
	k := &m.key
	if k.owner < 0 || !m.clients[k.owner].holding {
		return CauseNone
	}
	if m.rules.past(simValue{stamp: k.value.stamp - k.theta}, m.now) {
		return CauseJob
	}
	return CauseSkew
}

// ourFree reports whether the acquire script would take the keys, and what the
// lease would then depend on.
func (m *Simulator) ourFree(c *simClient, g *simMember) (model.OnL, bool) {
	k, phase := &m.key, m.phase
	switch {
	case m.token.owner != noToken && m.token.expires > m.server.time:
		return model.OnNothing, false
	case phase == model.Clean:
		return model.OnNothing, true
	case !k.present:
		return model.OnOwn, true
	case k.value.stamp == tombStamp:
		if phase >= model.Sealed {
			return model.OnTomb, true
		}
		return model.OnOwn, phase == model.Dual
	case !m.rules.stamps || k.value.stamp >= guardStamp:
		return model.OnOwn, false
	}
	return model.OnOwn, m.ourPast(c, g)
}

// mark writes the mark on which the lease depends, with its TTL, and renews M.
func (m *Simulator) mark(c *simClient, g *simMember) {
	k, ttl := &m.key, int64(m.Ours.TTL)
	m.token.expires = m.ending(ttl)
	switch {
	case g.on == model.OnNothing:
		return
	case g.on == model.OnTomb:
		g.mark, g.ends = simValue{tombStamp, -1}, never
	case m.phase <= model.Observe && m.rules.stamps:
		g.mark = simValue{m.server.time - m.server.time%m.rules.unit + m.ourAhead, c.name}
		g.ends = m.ending(ttl + m.ourBeyond)
	default:
		m.serial++
		g.mark, g.ends = simValue{guardStamp + m.serial, c.name}, m.ending(ttl)
	}
	k.value, k.present, k.expires, k.truth, k.theta = g.mark, true, g.ends, m.now, m.server.time-m.now
}

// stamping computes how far ahead a getsetlock stamp lies, and by how much L
// outlives M. Only where old clients set TTLs too does it outlive M, to
// distinguish the two.
func (m *Simulator) stamping() {
	d, o := m.Dialect, m.Ours
	gap, _ := dialect.Claimed(o.Terms.Gap)
	m.ourGap = int64(gap)
	up := func(t time.Duration) int64 { u := m.rules.unit; return (int64(t) + u - 1) / u * u }
	lost := max(-d.C(), 0)
	m.ourAhead = up(o.TTL+lost+o.Terms.StampAhead()) + int64(d.Slack)/m.rules.unit*m.rules.unit
	if d.ServerExpires() {
		m.ourBeyond = int64(o.Terms.Settle())
	}
}

// hasM reports whether the token on M is this client's.
func (m *Simulator) hasM(c *simClient) bool {
	return m.token.owner == c.name && m.token.expires > m.server.time
}

// stands reports whether L has the mark. The same bytes without a TTL belong to
// another client; where old clients set TTLs too, so do those with another end.
func (m *Simulator) stands(g *simMember) bool {
	k := &m.key
	switch {
	case g.on == model.OnNothing:
		return true
	case !k.present || g.on == model.OnTomb:
		return k.present && k.value.stamp == tombStamp
	case k.value.stamp >= guardStamp:
		return k.value == g.mark
	}
	return m.rules.same(k.value, g.mark) && k.expires != never &&
		(!m.Dialect.ServerExpires() || k.expires == g.ends)
}

// struck notes that an old client, or the end of a TTL, is about to remove the
// mark of the client that has M. It tells a holder that watches.
func (m *Simulator) struck(why loss) {
	if m.token.owner < 0 || m.token.expires <= m.server.time {
		return
	}
	c := &m.clients[m.token.owner]
	g := m.member(c.name)
	if g.hurt || g.on == model.OnNothing || !m.stands(g) {
		return
	}
	g.hurt, g.loss = true, why
	if c.pc == simOurHolds && !m.Ours.Polls && g.stop == never {
		g.told = m.now + m.way()
		m.plan(c, g)
		m.disturbed = true
	}
}

// lossBy names the kind of a GETSET that is about to replace a getsetlock mark.
func (m *Simulator) lossBy(c *simClient, outcome dialect.Outcome) loss {
	switch {
	case m.now-c.first > m.ourGap:
		return lossPause
	case outcome == dialect.Won && c.present:
		return lossClock
	case !c.present:
		return lossMissing
	}
	return lossRace
}

// wake lets waiting getsetlock clients ask at once, a message's way from now.
func (m *Simulator) wake() {
	if m.Ours.Polls {
		return
	}
	for i := m.Fleet.Clients; i < len(m.clients); i++ {
		c := &m.clients[i]
		if !c.waiting || c.pc != simOurTry {
			continue
		}
		// The server tells one after the other, in any order.
		at := m.now + m.way() + m.random.Int64N(int64(50*time.Microsecond))
		if g := m.member(c.name); at < g.sent && c.pauseAt > at {
			m.ourAsk(c, at)
			m.disturbed = true
		}
	}
}
