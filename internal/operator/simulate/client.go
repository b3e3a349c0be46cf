// SPDX-License-Identifier: Apache-2.0

package simulate

import "github.com/getsetlock/getsetlock/internal/dialect"

// simPC is a client's next event. All but the last two happen at the server.
type simPC uint8

const (
	simSetnx      simPC = iota
	simGet              // after a lost SETNX
	simGetset           //
	simLastSetnx        // one more, after a held or missing value
	simExpireLost       // EXPIRE of a waiter
	simExpireWon        // EXPIRE of a winner, whose job begins with its reply
	simReleaseGet       // GET of a release
	simDel
	simLeave // at the client: it stops holding without a DEL
	simBack  // at the client: it returns for its next acquire
)

type simClient struct {
	name    int32 // its number, and the uuid in its stamps, if they have one
	pc      simPC
	next    int64 // true time of the next event, ns since 1970
	holding bool
	waiting bool

	value, seen simValue
	present     bool  // seen was on the key
	clockRead   int64 // what its clock showed when it made the stamp
	truth       int64 // true time of that reading
	first       int64 // true time of the attempt's first reading
	judged      int64 // what its clock showed when it judged; judgedAt is the true time of that
	judgedAt    int64
	began       int64 // true time at which the acquire began
	tries       int
	robbed      Cause // why another client took over while this one held

	clock   Clock
	pauseAt int64
	pauses  [mostPauses]int64
}

// simKey is the key on the server, with what the value alone does not show.
type simKey struct {
	value   simValue
	present bool
	expires int64 // by the server's clock; never without a TTL
	owner   int32 // client whose grant the key protects; −1 if none
	truth   int64 // true time of the clock reading in the stamp; theta is that clock's offset
	theta   int64
	freed   Cause // why the key is missing, if it should not be
}

func (m *Simulator) way() int64 { return m.Latency.draw(m.random) }

// acquire begins a new acquire at an instant of true time.
func (m *Simulator) acquire(c *simClient, at int64) {
	c.began, c.tries = at, 0
	m.attempt(c, at)
}

// attempt reads the clock and sends SETNX.
func (m *Simulator) attempt(c *simClient, at int64) {
	c.tries++
	c.first = at
	m.restamp(c, at)
	c.pc, c.next = simSetnx, at+m.way()
}

func (m *Simulator) restamp(c *simClient, at int64) {
	c.clockRead, c.truth = m.read(c, at), at
	if m.rules.stamps {
		c.value = simValue{m.rules.stamp(c.clockRead), c.name}
		return
	}
	m.serial++
	c.value = simValue{m.serial, c.name}
}

// act executes one event of a client.
func (m *Simulator) act(c *simClient) {
	switch c.pc {
	case simSetnx, simLastSetnx:
		m.setnx(c)
	case simGet:
		m.get(c)
	case simGetset:
		m.getset(c)
	case simExpireLost, simExpireWon:
		m.expireCommand(c)
	case simReleaseGet:
		m.releaseGet(c)
	case simDel:
		m.del(c)
	case simLeave:
		m.rest(c, m.now)
	case simBack:
		m.acquire(c, m.idle(c, m.now))
	}
}

func (m *Simulator) setnx(c *simClient) {
	m.tally.commands++
	if !c.waiting {
		c.waiting = true
		m.tally.waiting++
	}
	last := c.pc == simLastSetnx
	reply := m.idle(c, m.now+m.way())
	everybody := m.rules.KeyTTL == dialect.TTLEverybody
	switch {
	case !m.key.present:
		m.put(c)
		m.key.expires = never
		if m.rules.ttl != never {
			m.key.expires = m.ending(m.rules.ttl)
		}
		cause := m.key.freed
		m.wins(c, cause)
		if everybody || m.rules.KeyTTL == dialect.TTLWinExpire || m.rules.KeyTTL == dialect.TTLAfterSetnx {
			c.pc, c.next = simExpireWon, reply+m.way()
			return
		}
		m.work(c, reply)
	case everybody:
		c.pc, c.next = simExpireLost, reply+m.way()
	case last || !m.rules.takeover:
		m.again(c, reply)
	default:
		c.pc, c.next = simGet, reply+m.way()
	}
}

func (m *Simulator) put(c *simClient) {
	k := &m.key
	k.value, k.present, k.truth, k.theta = c.value, true, c.truth, c.clockRead-c.truth
}

func (m *Simulator) get(c *simClient) {
	m.tally.commands++
	c.seen, c.present = m.key.value, m.key.present
	reply := m.idle(c, m.now+m.way())
	c.judged, c.judgedAt = c.clockRead, c.truth
	if m.rules.JudgesAnew {
		c.judged, c.judgedAt = m.read(c, reply), reply
	}
	switch m.rules.next(c.seen, c.present, c.name, c.judged) {
	case dialect.StepGetset:
		if m.rules.Restamp {
			m.restamp(c, reply)
		}
		c.pc, c.next = simGetset, reply+m.way()
	case dialect.StepSetnxOnce:
		c.pc, c.next = simLastSetnx, reply+m.way()
	case dialect.StepAgain:
		m.attempt(c, reply)
	case dialect.StepGiveUp, dialect.StepFail:
		m.givesUp(c, reply)
	default:
		m.again(c, reply)
	}
}

func (m *Simulator) getset(c *simClient) {
	m.tally.commands++
	old, present := m.key.value, m.key.present
	reply := m.idle(c, m.now+m.way())
	now := c.clockRead
	if m.rules.JudgesAnew {
		now = m.read(c, reply)
	}
	outcome := m.rules.wins(old, c.seen, present, c.present, now)
	cause := m.causeOf(c, present)
	if !present {
		cause = m.key.freed
		m.key.owner = -1
	}
	m.key.expires = never
	m.put(c)
	switch outcome {
	case dialect.Won:
		m.tally.takeovers++
		m.wins(c, cause)
		if t := m.rules.KeyTTL; t == dialect.TTLGetsetExpire || t == dialect.TTLWinExpire {
			c.pc, c.next = simExpireWon, reply+m.way()
			return
		}
		m.work(c, reply)
	case dialect.Threw:
		m.tally.clobbers++
		m.givesUp(c, reply)
	default:
		m.tally.clobbers++
		m.again(c, reply)
	}
}

func (m *Simulator) expireCommand(c *simClient) {
	m.tally.commands++
	if m.key.present {
		m.key.expires = m.ending(m.rules.lease)
	}
	reply := m.idle(c, m.now+m.way())
	if c.pc == simExpireWon {
		m.work(c, reply)
		return
	}
	m.again(c, reply)
}

// again sleeps and tries once more, if the dialect still waits.
func (m *Simulator) again(c *simClient, at int64) {
	if m.rules.attempts > 0 && c.tries >= m.rules.attempts ||
		m.rules.attempts == 0 && !m.rules.WaitsForever && at-c.began >= int64(m.rules.Wait) {
		m.givesUp(c, at)
		return
	}
	m.attempt(c, m.idle(c, at+int64(m.Poll)))
}

func (m *Simulator) givesUp(c *simClient, at int64) {
	m.tally.gaveUp++
	c.waiting = false
	m.tally.waiting--
	// A client that gives up returns no sooner than it would have polled, like
	// a caller that asks in a loop.
	c.pc, c.next = simBack, m.idle(c, at+max(m.Rest.draw(m.random), int64(m.Poll)))
}

// work draws the job's length.
func (m *Simulator) work(c *simClient, from int64) {
	end := m.busy(c, from, m.Job.draw(m.random))
	switch {
	case m.rules.ReleaseGets():
		c.pc, c.next = simReleaseGet, end+m.way()
	case m.rules.Release == dialect.ReleaseNever:
		c.pc, c.next = simLeave, end
	default:
		m.release(c, end)
	}
}

// release decides at a client's instant, and sends DEL or not.
func (m *Simulator) release(c *simClient, at int64) {
	now := int64(0)
	if m.rules.stamps {
		now = m.read(c, at)
	}
	switch m.rules.releases(c.value, c.seen, c.present, now) {
	case dialect.ReleaseDeletes, dialect.ReleaseCompares:
		c.pc, c.next = simDel, at+m.way()
	default:
		c.pc, c.next = simLeave, at
	}
}

func (m *Simulator) releaseGet(c *simClient) {
	m.tally.commands++
	c.seen, c.present = m.key.value, m.key.present
	m.release(c, m.idle(c, m.now+m.way()))
}

func (m *Simulator) del(c *simClient) {
	m.tally.commands++
	k := &m.key
	compares := m.rules.Release == dialect.ReleaseCompare
	if k.present && (!compares || m.rules.same(k.value, c.value)) {
		k.freed = CauseNone
		if k.owner != c.name {
			// The DEL also ends another client's grant. The client that enters
			// next is charged to the cause that admitted that other client, and
			// so is the client that the other one's own DEL lets in.
			k.freed = c.robbed
			if k.owner >= 0 && m.clients[k.owner].holding {
				m.clients[k.owner].robbed = c.robbed
			}
		}
		k.present, k.owner, k.expires = false, -1, never
	}
	m.rest(c, m.idle(c, m.now+m.way()))
}

// rest ends the hold now. The client returns after a rest.
func (m *Simulator) rest(c *simClient, from int64) {
	m.ends(c)
	c.pc, c.next = simBack, m.idle(c, from+m.Rest.draw(m.random))
}

// expire is the end of the key's TTL. If its owner still works, the job was too
// long.
func (m *Simulator) expire() {
	k := &m.key
	k.freed = CauseNone
	if k.owner >= 0 && m.clients[k.owner].holding {
		k.freed = CauseJob
		m.clients[k.owner].robbed = CauseJob
	}
	k.present, k.owner, k.expires = false, -1, never
}
