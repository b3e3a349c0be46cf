// SPDX-License-Identifier: Apache-2.0

package census

import (
	"cmp"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
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

// stillLive returns what old clients read and did not take over, and whether
// the key still has it: a client that finds a value ended reads it too, and
// then replaces it.
func (k *keyState) stillLive() Found {
	f := k.live
	switch {
	case f.Times == 0:
	case k.known:
		f.Still = k.exists && k.value == f.Value
	default:
		f.Still = k.polled.exists && k.polled.value == f.Value
	}
	return f
}

// ofRun records which server answers. Comparisons with another server's clock
// become void.
func (c *Census) ofRun(id string, at time.Time) {
	s := &c.server
	if id == s.run && !s.since.IsZero() {
		return
	}
	if !s.since.IsZero() {
		c.anotherServer()
	}
	s.run, s.since = id, at
}

// anotherServer forgets what was compared with the clock of the server before.
// How far the clients' clocks were apart stays true.
func (c *Census) anotherServer() {
	if gap, claimed := dialect.Claimed(c.cfg.Gap); claimed && c.cfg.Lease > 0 {
		if all, _ := c.allSeen(nil); all.writes > 0 {
			c.near.earlier = max(c.near.earlier, all.around(gap, true).Width())
		}
	}
	c.near.drop()
	for _, w := range c.writers {
		w.bounds, w.stood, w.clock = seenBounds{}, nil, offset.Clock{}
	}
	c.gone.seen = seenBounds{}
}

// shiftBounds applies a step of the server's clock: the clients may be further
// behind by what the clock gained, or further ahead by what it lost.
func (c *Census) shiftBounds(by time.Duration) {
	c.near.drop()
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

// againstServer computes how far the clocks are off the server's at least.
func (c *Census) againstServer(e *Evidence, leases map[*writer]Span) {
	all, guessed := c.allSeen(leases)
	e.LongestPause, e.Run = c.longPause, c.server.run
	unknown := Bound{AtLeast: offset.NoLow, Writes: all.writes, Lead: offset.NoLow}
	e.Behind, e.Ahead = unknown, unknown
	if all.writes > 0 {
		// The first bound rests on the smallest lease and the gap, the second
		// one on the greatest lease.
		e.Behind.AtLeast = max(0, -(all.high.Low + c.gapForPeople()))
		e.Ahead.AtLeast = max(0, all.low.High)
		e.Behind.Guessed, e.Ahead.Guessed = guessed, guessed && c.cfg.Greatest == 0
		c.leads(e)
	}
	if s := e.LeaseLooks; s.Known() {
		e.Behind.Unless = fmt.Sprintf("unless a lease is %v", s.Value)
	} else if _, claimed := dialect.Claimed(c.cfg.Gap); !claimed {
		e.Behind.Unless = fmt.Sprintf("unless an attempt takes longer than %v", c.gapForPeople())
	}
	e.Behind.hold(c.cfg.Behind)
	e.Ahead.hold(c.cfg.Ahead)
}

// leads computes what stamps show without any lease. It is known where all
// writers are assumed to have the same leases: by the configuration, or by its
// only dialect.
func (c *Census) leads(e *Evidence) {
	smallest, greatest := c.cfg.Lease, max(c.cfg.Greatest, c.cfg.Lease)
	if smallest == 0 && (len(c.cfg.Dialects) != 1 || c.cfg.Greatest > 0) {
		return
	} else if smallest == 0 {
		smallest = cmp.Or(c.cfg.Dialects[0].Lease, unknownLease)
		greatest = smallest
	}
	all, _ := c.allSeen(nil)
	e.Behind.Lead, e.Ahead.Lead = all.high.Low+smallest, all.low.High+greatest
	if c.near.apart > 0 {
		e.Spread.Leads = c.near.apart + greatest - smallest
	}
}

// hold sets Span to the claim if nothing refutes it.
func (b *Bound) hold(claim time.Duration) {
	if value, claimed := dialect.Claimed(claim); claimed && b.Proved() <= value {
		b.Span = Span{Value: value, Basis: Claimed}
	}
}
