package census

import (
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/offset"
)

// paused records how long no client tried for a key.
func (c *Census) paused(k *keyState, at time.Time) {
	if pause := at.Sub(k.attempt); !k.attempt.IsZero() && pause > c.longPause.Value {
		c.longPause = Span{Value: pause, Basis: Measured, At: at, Key: k.id.name}
	}
	k.attempt = latest(k.attempt, at)
}

// foundLive records that an old client read a value. If the client does not
// take the value over, which would replace it, its clock found the value live.
func (k *keyState) foundLive(q order, r dialect.Reply, known bool) {
	switch {
	case !known:
		k.asked, k.askedBy = q.at, q.addr
	case r.Nil:
	case k.live.Value == r.Value:
		k.live.Times, k.live.Last, k.live.Addr = k.live.Times+1, q.at, q.addr
	default:
		k.live = Found{Value: r.Value, Times: 1, Last: q.at, Addr: q.addr}
	}
}

// ofRun records which server answers. Comparisons with another server's clock
// become void.
func (c *Census) ofRun(id string, at time.Time) {
	if id == c.run && !c.runSince.IsZero() {
		return
	}
	if !c.runSince.IsZero() {
		c.anotherServer()
	}
	c.run, c.runSince = id, at
}

// anotherServer forgets what was compared with the clock of the server before.
// How far the clients' clocks were apart stays true.
func (c *Census) anotherServer() {
	if gap, claimed := dialect.Claimed(c.cfg.Gap); claimed && c.cfg.Lease > 0 {
		if all, _ := c.allSeen(nil); all.writes > 0 {
			c.spreadBefore = max(c.spreadBefore, all.around(gap, true).Width())
		}
	}
	c.dropNear()
	for name, w := range c.writers {
		w.bounds, w.stood = seenBounds{}, nil
		w.clock = c.anotherClock(name)
	}
	c.gone.seen = seenBounds{}
}

// shiftBounds applies a step of the server's clock: the clients may be further
// behind by what the clock gained, or further ahead by what it lost.
func (c *Census) shiftBounds(by time.Duration) {
	c.dropNear()
	for _, w := range c.writers {
		w.bounds.stepped(by, w.addr == "")
	}
	c.gone.seen.stepped(by, true)
	for _, k := range c.keys {
		k.polled.moved += by.Abs()
		if by < 0 {
			// Events after the step carry earlier instants than these.
			k.polled.at, k.commanded, k.learnt = moved(k.polled.at, by), moved(k.commanded, by),
				moved(k.learnt, by)
		}
	}
}

// stepped moves the end of the bounds that the step affects. With polls it is
// unknown which writes were before the step, so both ends move.
func (b *seenBounds) stepped(by time.Duration, polled bool) {
	if b.writes == 0 {
		return
	}
	if by > 0 || polled {
		b.low.Low -= by.Abs()
	}
	if by < 0 || polled {
		b.high.High += by.Abs()
	}
}

func moved(at time.Time, by time.Duration) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(by)
}

// window returns how long the server was watched without a hole, by polls or by
// MONITOR. A step of the server's clock is no hole here, since the bounds moved
// with it.
func (c *Census) window(e *Evidence) time.Duration {
	var longest time.Duration
	for _, s := range []Source{SourceMonitor, SourcePoll} {
		v := e.Covered(s)
		if v.From.IsZero() || v.Missing != "" {
			continue
		}
		from := latest(v.From, c.runSince)
		for _, h := range v.Holes {
			if h.Reason != HoleStep {
				from = latest(from, h.Until)
			}
		}
		longest = max(longest, v.Until.Sub(from))
	}
	return longest
}

// againstServer computes how far the clocks are off the server's.
func (c *Census) againstServer(e *Evidence, leases map[*writer]Span) {
	all, guessed := c.allSeen(leases)
	doubted := e.LeaseLooks.Known()
	e.LongestPause = c.longPause
	e.Run, e.Window = c.run, c.window(e)
	if c.cfg.Idle > 0 {
		e.Idle = max(c.cfg.Idle, c.longPause.Value, e.GreatestLease.Value)
	}
	unknown := Bound{AtLeast: offset.NoLow, AtMost: offset.NoHigh, Writes: all.writes}
	e.Behind, e.Ahead = unknown, unknown
	if all.writes > 0 {
		e.Behind.AtMost, e.Ahead.AtLeast = max(0, -all.low.Low), max(0, all.low.High)
		e.Behind.Guessed = guessed && c.cfg.Greatest == 0
		e.Ahead.Guessed = guessed || doubted
	}
	if gap, claimed := dialect.Claimed(c.cfg.Gap); claimed && all.writes > 0 {
		e.Ahead.AtMost = max(0, all.high.High+gap)
		if !guessed && !doubted || e.Behind.Guessed {
			e.Behind.AtLeast = max(0, -(all.high.Low + gap)) // this bound rests on the smallest lease
		}
	}
	c.rely(&e.Behind, e, c.cfg.Behind)
	c.rely(&e.Ahead, e, c.cfg.Ahead)
}

// rely sets what may be relied on: the measurement of a whole window, or a
// greater claim, or a claim alone if nothing refutes it.
func (c *Census) rely(b *Bound, e *Evidence, claim time.Duration) {
	var seen Span
	if b.AtMost != offset.NoHigh && !b.Guessed && e.Run != "" && e.Idle > 0 && e.Window >= e.Idle {
		seen = Span{Value: b.AtMost, Basis: Measured, At: e.Until}
	}
	if value, claimed := dialect.Claimed(claim); claimed && !seen.Known() && b.Proved() > value {
		return // refuted, and nothing replaces it
	}
	b.Span = claimOver(seen, claim)
}
