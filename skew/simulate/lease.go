package simulate

import (
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/internal/model"
)

// A lease of ours in a simulation: told held, renewed, stopped or told lost, released.

// ourWon is the reply "taken".
func (m *Simulator) ourWon(c *simClient, g *simMember) {
	every := m.Ours.SettleAlways || m.rules.NeedsSettleEvery()
	switch {
	case m.now >= g.trust:
		m.ourRelease(c, g, true)
	case m.Ours.Settle > 0 && m.rules.takeover && g.on == model.OnOwn && (g.took || every):
		c.pc, c.next = simOurCheck, m.idle(c, m.now+int64(m.Ours.Settle))+m.way()
	default:
		m.ourBegin(c, g)
	}
}

// ourBegin tells a client that it holds.
func (m *Simulator) ourBegin(c *simClient, g *simMember) {
	m.ourTally.Acquisitions++
	m.ourWaits.add(m.now - c.began)
	m.holds(c, g.cause)
	job := m.Ours.Job.draw(m.random)
	g.job, g.crash, g.told, g.stop, g.turn, g.reply = m.now+job, never, never, never, never, never
	if m.CrashShare > 0 && m.random.Float64() < m.CrashShare {
		g.crash = m.now + int64(m.random.Float64()*float64(job))
	}
	g.renew = max(m.now, g.sent+int64(m.Ours.RenewEvery))
	if g.hurt && !m.Ours.Polls {
		g.told = m.now // its watch begins by a look
	}
	c.pc = simOurHolds
	m.plan(c, g)
}

func (m *Simulator) plan(c *simClient, g *simMember) {
	c.next = min(g.job, g.crash, g.trust, g.renew, g.told, g.stop, g.turn, g.reply)
}

// ourHolds is the next event of a holder. What happens at the client waits while its machine stands still.
func (m *Simulator) ourHolds(c *simClient, g *simMember) {
	defer func() {
		if c.pc == simOurHolds {
			m.plan(c, g)
		}
	}()
	if g.turn == m.now {
		m.ourRenewal(c, g)
		return
	}
	if c.pauseAt <= m.now {
		m.ourPause(c, g)
		return
	}
	switch m.now {
	case g.stop:
		m.ends(c)
		m.ourRelease(c, g, false)
	case g.crash:
		m.tally.crashes++
		m.ends(c)
		c.pc, c.next = simBack, m.now+m.Restart.draw(m.random)
	case g.trust, g.told:
		m.ourLost(c, g)
	case g.job:
		m.ends(c)
		m.ourRelease(c, g, false)
	case g.reply:
		m.ourRenewed(c, g)
	case g.renew:
		g.asked, g.renew, g.turn = m.now, never, m.now+m.way()
	}
}

// ourPause makes everything at the client wait for the end of a pause, and the job last longer by it.
func (m *Simulator) ourPause(c *simClient, g *simMember) {
	began := c.pauseAt
	end := m.pause(c)
	if g.job != never {
		g.job += end - began
	}
	for _, at := range []*int64{&g.crash, &g.trust, &g.renew, &g.told, &g.stop, &g.reply} {
		*at = max(*at, end)
	}
}

// ourRenewal is the renew script's turn.
func (m *Simulator) ourRenewal(c *simClient, g *simMember) {
	m.tally.commands++
	m.hears(g)
	g.renewed = m.hasM(c) && m.stands(g)
	if !m.hasM(c) && m.now < g.trust && g.loss == lossOwn {
		g.loss = lossExpire // the server's clock has stepped over its TTL
	}
	if g.renewed {
		m.mark(c, g)
	}
	g.turn, g.reply = never, m.now+m.way()
}

// ourRenewed is its reply. Trust counts from before it was sent.
func (m *Simulator) ourRenewed(c *simClient, g *simMember) {
	g.reply = never
	if !g.renewed {
		m.ourLost(c, g)
		return
	}
	g.trust = max(g.trust, g.asked+int64(m.Ours.TTL-m.Ours.Margin))
	g.until = g.trust
	g.renew = max(m.now, g.asked+int64(m.Ours.RenewEvery))
}

// ourLost tells a holder that its lease is lost. Its job stops, M stays until it has.
func (m *Simulator) ourLost(c *simClient, g *simMember) {
	m.ourTally.Lost.count(g.loss)
	g.late = m.now > g.until
	g.stop = min(m.now+int64(m.Ours.Stop), max(m.now, g.job))
	g.job, g.trust, g.renew, g.told, g.turn, g.reply = never, never, never, never, never, never
}

// ourRelease sends the release.
func (m *Simulator) ourRelease(c *simClient, g *simMember, retry bool) {
	g.retry = retry
	c.pc, c.next = simOurRelease, m.now+m.way()
}

// ourReleased is the release script's turn: L only if it still carries the mark, M in any case.
func (m *Simulator) ourReleased(c *simClient, g *simMember) {
	m.tally.commands++
	k := &m.key
	if m.hasM(c) {
		left := simToken{noToken, never}
		if m.stands(g) {
			left = m.ourGiveM(g)
			m.ourGiveL(c, g)
		}
		m.token = left
		m.wake()
	}
	if k.owner == c.name {
		k.owner = -1
	}
	g.on, g.hurt = model.OnNothing, false
	if g.retry {
		m.ourAsk(c, m.idle(c, m.now+m.way()+int64(m.Ours.RetryEvery)))
		return
	}
	rest := m.Rest.draw(m.random)
	if m.phase <= model.Dual {
		rest = max(rest, int64(m.Poll)) // politeness: who polls gets a turn
	}
	c.pc, c.next = simBack, m.idle(c, m.now+rest)
}

// entombs: tombstones are left on L in this phase.
func (m *Simulator) entombs() bool { return m.phase >= model.Sealed && m.phase < model.Clean }

// doneUntil is until when the release of a lease says that its tick is done, by the server's clock: in
// dialects that never release, as long as the stamp of an old client that had taken the key in its
// stead (rule 10). It is 0 in all others, where that is over, and where nobody was told that it held.
func (m *Simulator) doneUntil(g *simMember) int64 {
	until := g.taken + m.rules.lease + int64(m.rules.Slack)
	if m.rules.Release != dialect.ReleaseNever || !m.rules.stamps || g.retry || until <= m.server.time {
		return 0
	}
	return until
}

// ourGiveM is what a release leaves on M. Where a tombstone tells getsetlock clients that L is free, M
// says that the tick is done.
func (m *Simulator) ourGiveM(g *simMember) simToken {
	if until := m.doneUntil(g); until > 0 && m.entombs() {
		return simToken{doneToken, until}
	}
	return simToken{noToken, never}
}

// ourGiveL deletes the mark, or leaves in its place what belongs there: the tombstone, or, before those,
// the old stamp of a dialect that never releases. In or-mine dialects an unsettled mark is deleted.
func (m *Simulator) ourGiveL(c *simClient, g *simMember) {
	k := &m.key
	if g.on != model.OnOwn {
		return
	}
	k.freed = CauseNone
	if m.entombs() && (!m.rules.OrMine || !g.retry) {
		k.value, k.expires = simValue{tombStamp, -1}, never
		return
	}
	if until := m.doneUntil(g); until > 0 && !m.entombs() {
		k.value, k.expires = simValue{m.rules.stamp(g.taken), c.name}, until
		return
	}
	k.present, k.expires = false, never
}

// lostGetset is called before an old client's GETSET writes.
func (m *Simulator) lostGetset(c *simClient, outcome dialect.Outcome) {
	if m.token.owner >= 0 {
		m.struck(m.lossBy(c, outcome))
	}
}
