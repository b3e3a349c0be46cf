package simulate

import (
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/internal/model"
)

// A getsetlock lease in a simulation: reported as held, renewed, stopped or
// lost, released.

// ourWon receives the reply "taken".
func (m *Simulator) ourWon(c *simClient, g *simMember) {
	every := m.Ours.SettleAlways || m.rules.NeedsSettleEvery()
	switch {
	case m.now >= g.trust:
		m.ourRelease(c, g, true)
	case m.Ours.Settle > 0 && m.rules.takeover && g.on == model.OnOwn && (g.took || every):
		g.asked = m.idle(c, m.now+int64(m.Ours.Settle))
		c.pc, c.next = simOurCheck, g.asked+m.way()
	default:
		m.ourBegin(c, g)
	}
}

// ourChecks executes the look that ends a settle. The client trusts what the
// server keeps of L, and no more (rule 9): an old client's EXPIRE may have
// shortened it.
func (m *Simulator) ourChecks(c *simClient, g *simMember) {
	m.tally.commands++
	g.stands = m.hasM(c) && m.stands(g)
	if end := m.key.expires; g.stands && g.on != model.OnNothing && end != never {
		m.trusts(g, min(g.trust, g.asked+end-m.server.time-int64(m.Ours.Margin)))
	}
	c.pc, c.next = simOurChecked, m.idle(c, m.now+m.way())
}

// trusts sets the end of a client's trust in its lease.
func (m *Simulator) trusts(g *simMember, end int64) {
	if m.tick > 0 {
		end -= (end - simulationStart) % m.tick
	}
	g.trust, g.until = end, end
}

// ourBegin makes a client hold.
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
		g.told = m.now // its watch begins with a look
	}
	c.pc = simOurHolds
	m.plan(c, g)
}

func (m *Simulator) plan(c *simClient, g *simMember) {
	c.next = min(g.job, g.crash, g.trust, g.renew, g.told, g.stop, g.turn, g.reply)
}

// ourHolds executes the next event of a holder. What happens at the client
// waits while its machine is paused. If a renewal reaches the server in the
// instant in which trust ends, trust ends first.
func (m *Simulator) ourHolds(c *simClient, g *simMember) {
	defer func() {
		if c.pc == simOurHolds {
			m.plan(c, g)
		}
	}()
	if g.turn == m.now && m.now < g.trust {
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

// ourPause delays everything at the client to the end of a pause, and prolongs
// the job by it.
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

// ourRenewal executes the renew script.
func (m *Simulator) ourRenewal(c *simClient, g *simMember) {
	m.tally.commands++
	m.hears(g)
	g.renewed = m.hasM(c) && m.stands(g)
	if !m.hasM(c) && m.now < g.trust && g.loss == lossOwn {
		g.loss = lossExpire // the server's clock has stepped beyond the TTL
	}
	if g.renewed {
		m.mark(c, g)
	}
	g.turn, g.reply = never, m.now+m.way()
}

// ourRenewed receives its reply. Trust counts from before the renewal was sent.
func (m *Simulator) ourRenewed(c *simClient, g *simMember) {
	g.reply = never
	if !g.renewed {
		m.ourLost(c, g)
		return
	}
	m.trusts(g, max(g.trust, g.asked+int64(m.Ours.TTL-m.Ours.Margin)))
	g.renew = max(m.now, g.asked+int64(m.Ours.RenewEvery))
}

// ourLost tells a holder that its lease is lost. Its job stops, and M stays
// until then.
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

// ourReleased executes the release script: it deletes L only if L still has the
// mark, and M in any case.
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
		rest = max(rest, int64(m.Poll)) // politeness: a client that polls gets a turn
	}
	c.pc, c.next = simBack, m.idle(c, m.now+rest)
}

// entombs reports whether releases leave tombstones on L in this phase.
func (m *Simulator) entombs() bool { return m.phase >= model.Sealed && m.phase < model.Clean }

// doneUntil returns until when, by the server's clock, a lease's release says
// that its tick is done. In dialects that never release that is as long as the
// stamp would last of an old client that had taken the key instead (rule 10).
// It is 0 in all other dialects, where that time is over, and where no client
// held.
func (m *Simulator) doneUntil(g *simMember) int64 {
	until := g.taken + m.rules.lease + int64(m.rules.Slack)
	if m.rules.Release != dialect.ReleaseNever || !m.rules.stamps || g.retry || until <= m.server.time {
		return 0
	}
	return until
}

// ourGiveM returns what a release leaves on M. Where a tombstone tells
// getsetlock clients that L is free, M says that the tick is done.
func (m *Simulator) ourGiveM(g *simMember) simToken {
	if until := m.doneUntil(g); until > 0 && m.entombs() {
		return simToken{doneToken, until}
	}
	return simToken{noToken, never}
}

// ourGiveL deletes the mark or replaces it: by the tombstone, or in earlier
// phases by the old stamp of a dialect that never releases. In or-mine dialects
// it deletes an unsettled mark.
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

// lostGetset is called before an old client's GETSET writes; it charges a loss
// to it.
func (m *Simulator) lostGetset(c *simClient, outcome dialect.Outcome) {
	if m.token.owner >= 0 {
		m.struck(m.lossBy(c, outcome))
	}
}
