// SPDX-License-Identifier: Apache-2.0

package census

import (
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// seenBounds is what the writes of one client say about its clock: the client's
// minus the server's. Each write gives a lower and an upper bound, whatever the
// clock does between two writes. So the bounds of several writes are not
// intersected: the least and the greatest are kept.
type seenBounds struct {
	low, high offset.Interval // least to greatest lower bound, and least to greatest upper bound
	writes    int64
}

// add takes the bounds of one write. The upper bound does not include the gap.
func (b *seenBounds) add(low, high time.Duration) {
	b.join(seenBounds{offset.Interval{Low: low, High: low}, offset.Interval{Low: high, High: high}, 1})
}

func (b *seenBounds) join(o seenBounds) {
	switch {
	case o.writes == 0:
		return
	case b.writes == 0:
		*b = o
		return
	}
	around := func(a, b offset.Interval) offset.Interval {
		return offset.Interval{Low: min(a.Low, b.Low), High: max(a.High, b.High)}
	}
	b.low, b.high, b.writes = around(b.low, o.low), around(b.high, o.high), b.writes+o.writes
}

// shift moves the bounds by the amount by which a lease was assumed too long.
// The lower bounds stay if the greatest lease is known.
func (b seenBounds) shift(by time.Duration, greatestKnown bool) seenBounds {
	if b.writes > 0 && by != 0 {
		if !greatestKnown {
			b.low = b.low.Shift(by)
		}
		b.high = b.high.Shift(by)
	}
	return b
}

// around returns the smallest interval that contains what each write allows:
// the clock was within it at every write. Without a gap the upper end is
// unknown.
func (b seenBounds) around(gap time.Duration, claimed bool) offset.Interval {
	i := offset.Interval{Low: offset.NoLow, High: offset.NoHigh}
	if b.writes == 0 {
		return i
	}
	i.Low = b.low.Low
	if claimed {
		i.High = b.high.High + gap
	}
	return i
}

// nearBounds are the bounds of all writes within a short time, in which no
// client's clock and not the server's either drifts far.
type nearBounds struct {
	from, until time.Time
	seenBounds
}

const (
	// nearTogether is the length of one nearBounds. A clock whose rate is off
	// by a thousandth moves by 60 ms in it.
	nearTogether = time.Minute
	// unseenStep is the largest step of the server's clock that a watch does
	// not recognize as a step.
	unseenStep = 20 * time.Millisecond
)

// apart returns how far the clocks of the writes were apart at least, assuming
// a gap of zero. It subtracts what the server's clock may have moved unnoticed.
func (n nearBounds) apart() time.Duration {
	if n.writes == 0 {
		return 0
	}
	moved := unseenStep + n.until.Sub(n.from)/1000
	return n.low.High - n.high.Low - moved
}

// nearness is how far clocks were proved to be apart at one time.
type nearness struct {
	now, before nearBounds    // bounds of the present minute, and of the one before
	apart       time.Duration // the most that was proved, assuming a gap of zero
	earlier     time.Duration // guaranteed spread while earlier servers answered
}

// add takes the bounds of one write. watched says that the server's clock is
// compared with the observer's; otherwise a minute counts once it is over.
func (n *nearness) add(b seenBounds, at time.Time, watched bool) {
	if b.writes == 0 {
		return
	}
	if n.now.writes > 0 && (at.Sub(n.now.from) > nearTogether || at.Before(n.now.from)) {
		n.before, n.now = n.now, nearBounds{}
		if !watched {
			n.keep()
		}
	}
	if n.now.writes == 0 {
		n.now.from, n.now.until = at, at
	}
	n.now.until = latest(n.now.until, at)
	n.now.join(b)
}

// keep keeps what the last minutes proved. It is called when the server's clock
// is known to have run on without a step, which would look like steps of the
// clients' clocks.
func (n *nearness) keep() { n.apart = max(n.apart, n.now.apart(), n.before.apart()) }

// drop forgets the minutes in which the server's clock stepped.
func (n *nearness) drop() { n.now, n.before = nearBounds{}, nearBounds{} }

// compare takes a stamp of an old client that was executed by the instant at,
// and not before from. If MONITOR shows the write, both are the same. A look
// sees a value later than its write, so the lower bound is lower but still
// true. The previous look gives the upper bound.
func (c *Census) compare(w *writer, r reading.Reading, at, from time.Time) seenBounds {
	one := c.boundsOf(w, r, at, from)
	if one.writes > 0 {
		w.lead = max(w.lead, r.Stamp.Expiry.Sub(from))
	}
	w.bounds.join(one)
	c.near.add(one, at, !c.server.checked.IsZero())
	c.clocked(w, one, at)
	return one
}

// mostSteps bounds how many steps of one clock are remembered.
const mostSteps = 8

// clocked notices that a writer's clock stepped. Clients that share an address
// have several clocks, which look like one that steps all the time.
func (c *Census) clocked(w *writer, one seenBounds, at time.Time) {
	if w.shared != "" || one.writes == 0 {
		return
	}
	if step, stepped := w.clock.Add(at, one.around(c.gapForPeople(), true)); stepped {
		w.steps = append(reading.Bounded(w.steps, mostSteps), step)
	}
}

// unclock forgets what a step of the server's clock moved, and the steps that
// it made clients' clocks seem to take.
func (c *Census) unclock(since time.Time) {
	for _, w := range c.writers {
		w.clock = offset.Clock{}
		w.steps = slices.DeleteFunc(w.steps, func(s offset.Step) bool { return !s.Until.Before(since) })
	}
}

// stood records a stamp that was already there at the first look.
func (c *Census) stood(w *writer, r reading.Reading, at time.Time) {
	one := c.boundsOf(w, r, at, at)
	if low := one.low.High; one.writes > 0 && (w.stood == nil || low > *w.stood) {
		w.stood = &low
	}
}

// boundsOf returns the bounds of one write.
func (c *Census) boundsOf(w *writer, r reading.Reading, at, from time.Time) seenBounds {
	d := w.dialect()
	if !d.HasStamp() {
		return seenBounds{}
	}
	least, most := r.Slacks(d)
	greatest, smallest := w.assumed, w.assumed-w.wide
	if c.cfg.Greatest > 0 {
		greatest = c.cfg.Greatest
	}
	low := offset.StampedBy(*d, greatest, r.Stamp)
	low.Slack, low.At = most, at
	high := offset.StampedBy(*d, smallest, r.Stamp)
	high.Slack, high.At, high.Prev = least, at, from
	var one seenBounds
	one.add(low.Offset().Low, high.Offset().High)
	return one
}

// allSeen joins the bounds of all writers, including forgotten ones. guessed:
// some used lease is a guess.
func (c *Census) allSeen(leases map[*writer]Span) (all seenBounds, guessed bool) {
	all = c.gone.seen
	for _, w := range c.writers {
		all.join(c.seenOf(w, leases[w]))
	}
	return all, c.cfg.Lease == 0 && all.writes > 0
}

// seenOf returns the bounds of one writer, computed with its own lease.
func (c *Census) seenOf(w *writer, lease Span) seenBounds {
	if c.cfg.Lease > 0 {
		return w.bounds
	}
	return w.bounds.shift(w.shift(lease), c.cfg.Greatest > 0)
}

// spread computes how far the clocks of all writes are apart over the whole
// watch. Steps of the clocks count, since a stamp outlives them.
func (c *Census) spread(e *Evidence, leases map[*writer]Span) Spread {
	all, guessed := c.allSeen(leases)
	s := Spread{Guaranteed: offset.NoHigh, Writes: all.writes, Guessed: guessed || e.LeaseLooks.Known()}
	if all.writes == 0 {
		return s
	}
	gap, claimed := dialect.Claimed(c.cfg.Gap)
	if c.server.checked.IsZero() {
		c.near.keep()
	}
	s.Apart = max(0, c.near.apart-c.gapForPeople())
	if claimed && !s.Guessed {
		s.Proved = s.Apart
		i := all.around(gap, true)
		s.Guaranteed = max(i.Width(), c.near.earlier)
	}
	return s
}

// gapForPeople returns the claimed gap, otherwise the usual one. Intervals for
// people are computed with it.
func (c *Census) gapForPeople() time.Duration {
	if gap, claimed := dialect.Claimed(c.cfg.Gap); claimed {
		return gap
	}
	if c.cfg.Lease > 0 {
		return min(time.Second, c.cfg.Lease/20)
	}
	return time.Second
}
