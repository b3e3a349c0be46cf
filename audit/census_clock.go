package audit

import (
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// leases finds what each writer adds to its clock: what was given; else the round number nearest to
// what it wrote; else what most of the others of its dialect add, since a clock may be off by so
// much that its sum is near no round number.
func (c *Census) leases() map[*writer]Span {
	out := map[*writer]Span{}
	votes := map[string]map[time.Duration]int{}
	for _, w := range c.writers {
		d := w.dialect()
		if !d.HasStamp() {
			continue
		}
		if c.cfg.Lease > 0 {
			out[w] = Span{Value: c.cfg.Lease, Basis: Given, Addr: w.addr}
			continue
		}
		i := w.clock.Offset(c.until)
		if w.addr == "" && i.Low != skew.NoLow {
			// A look comes after the write by up to the time between two looks.
			i.High = i.Low + max(c.cfg.PollEvery, 10*time.Millisecond)
		}
		if lease, warning, ok := skew.SnapLease(w.assumed, i); ok {
			out[w] = Span{Value: lease, Basis: Inferred, Addr: w.addr, Note: warning}
			if votes[d.Name] == nil {
				votes[d.Name] = map[time.Duration]int{}
			}
			votes[d.Name][lease]++
		}
	}
	for _, w := range c.writers {
		if _, ok := out[w]; ok || !w.dialect().HasStamp() {
			continue
		}
		if lease, ok := most(votes[w.dialect().Name]); ok {
			out[w] = Span{Value: lease, Basis: Inferred, Addr: w.addr, Note: "taken from the other clients of its dialect"}
		} else if d := w.dialect(); d.Lease > 0 {
			out[w] = Span{Value: d.Lease, Basis: Default, Addr: w.addr, Note: "what it wrote is near no round number; this is what the library ships"}
		}
	}
	return out
}

// most is the lease with most votes, the least of equals.
func most(votes map[time.Duration]int) (lease time.Duration, ok bool) {
	for l, n := range votes {
		if !ok || n > votes[lease] || n == votes[lease] && l < lease {
			lease, ok = l, true
		}
	}
	return lease, ok
}

// shift is what a writer's offsets move by when its lease is not the one its samples were taken with.
func (w *writer) shift(lease Span) time.Duration {
	if !lease.Known() || lease.Basis == Given {
		return 0 // a given lease is what they were taken with
	}
	return w.assumed - lease.Value
}

func (c *Census) offset(w *writer, lease Span) Offset {
	o := Offset{
		Interval: w.clock.Offset(c.until).Shift(w.shift(lease)), At: c.until, Writes: w.clock.Writes(),
		LeaseGuessed: lease.Basis != Given,
	}
	if line, ok := w.clock.Line(c.until); ok {
		o.LowPPM, o.HighPPM, o.HasRate = line.LowPPM, line.HighPPM, true
	}
	return o
}

// gapAt counts from the clock reading to the GETSET by both ends of the offset.
func (c *Census) gapAt(w *writer, g gapSample, lease Span) Gap {
	i := w.clock.Offset(g.at)
	out := Gap{At: g.at, Addr: g.addr, Key: g.key, AtMost: skew.NoHigh}
	if i.Low != skew.NoLow {
		out.AtLeast = max(0, g.length(i.Low)-w.wide)
	}
	if i.High != skew.NoHigh {
		out.AtMost = max(0, g.length(i.High))
	}
	return out
}

func (c *Census) gapFound(e *Evidence) {
	for _, w := range e.Writers {
		if w.Gap != nil && (e.Gaps == nil || w.Gap.AtMost > e.Gaps.AtMost) {
			g := *w.Gap
			e.Gaps = &g
		}
	}
	var seen Span
	if g := e.Gaps; g != nil {
		seen = Span{Value: g.AtMost, Basis: Measured, Source: SourceMonitor, At: g.At, Addr: g.Addr, Key: g.Key}
		if g.AtMost == skew.NoHigh {
			seen.Value, seen.Note = g.AtLeast, "at least so long: nothing bounds that client's clock from above"
		}
	}
	e.LongestGap = claimOver(seen, c.cfg.Gap)
}

// explained reports that whoever polls saw write may be one of those that MONITOR named: no named
// clock can be as far ahead as a nameless one is proved to be.
func explained(nameless skew.Interval, named []skew.Interval) bool {
	for _, i := range named {
		if i.High >= nameless.Low {
			return true
		}
	}
	return false
}

// named are the offsets of those that have addresses.
func (e *Evidence) named() []skew.Interval {
	var out []skew.Interval
	for _, w := range e.Writers {
		if w.Addr != "" && w.Offset.Writes > 0 {
			out = append(out, w.Offset.Interval)
		}
	}
	return out
}

// spread is skew.Fleet's, with each writer's own lease. A nameless writer of the polls has no upper
// end, ever; where its stamps may be a named one's it is left out, since the spread speaks of writers that were
// seen and of nobody else.
func (c *Census) spread(leases map[*writer]Span, named []skew.Interval) skew.Spread {
	s := skew.Spread{Guaranteed: skew.NoHigh}
	var lows, highs []time.Duration
	for name, w := range c.writers {
		if w.clock.Writes() == 0 {
			continue
		}
		i := w.clock.Offset(c.until).Shift(w.shift(leases[w]))
		if w.addr == "" && explained(i, named) {
			continue
		}
		if len(w.clock.Contradictions()) > 0 {
			s.Contradicted = append(s.Contradicted, w.title(name))
		}
		if !i.Bounded() {
			s.Unbounded = append(s.Unbounded, w.title(name))
		}
		lows, highs = append(lows, i.Low), append(highs, i.High)
	}
	if g := c.gone; !g.at.IsZero() {
		// They widen at the greatest rate since, as everybody's does.
		wide := time.Duration(float64(c.until.Sub(g.at)) * skew.DefaultRate / 1e6)
		highs = append(highs, g.interval.Shift(wide).High)
		lows = append(lows, g.interval.Shift(-wide).Low)
		if g.broken {
			s.Contradicted = append(s.Contradicted, "some that were forgotten")
		}
	}
	slices.Sort(s.Contradicted)
	slices.Sort(s.Unbounded)
	if len(lows) == 0 {
		return s
	}
	if top, bottom := slices.Max(lows), slices.Min(highs); top != skew.NoLow && bottom != skew.NoHigh && top > bottom {
		s.Proved = top - bottom
	}
	if top, bottom := slices.Max(highs), slices.Min(lows); top != skew.NoHigh && bottom != skew.NoLow {
		s.Guaranteed = top - bottom
	}
	return s
}

func (w *writer) title(name string) string {
	if w.addr == "" {
		return "somebody who writes " + w.dialect().Name
	}
	return name
}

// safeJob asks the law, for each dialect seen, and takes the least. It counts with a claimed spread or
// gap where that is more than what was seen.
func (c *Census) safeJob(e *Evidence, leases map[*writer]Span) {
	basis := Measured
	note := ""
	spread := e.Spread.Guaranteed
	if !e.Spread.Sound() {
		spread = e.Spread.Proved
		basis, note = Inferred, "at most: only the proved spread is known"
	}
	if claim, ok := dialect.Claimed(c.cfg.Spread); ok && (!e.Spread.Sound() || claim >= spread) && claim >= e.Spread.Proved {
		spread, basis, note = claim, Claimed, ""
	}
	if e.LongestGap.Basis == Claimed {
		basis = Claimed
	}
	for _, w := range c.writers {
		lease := leases[w]
		if !lease.Known() {
			continue
		}
		v, err := skew.Law{Dialect: *w.dialect(), Lease: lease.Value, Spread: spread, Delay: e.LongestGap.Value}.Verdict()
		if err != nil || !v.LongestJob.Bounded {
			continue
		}
		s := Span{Value: v.LongestJob.Bound, Basis: basis, Addr: w.addr, Note: note}
		if lease.Basis == Inferred || lease.Basis == Default {
			s.Note = join(s.Note, "by a guessed lease")
			if basis == Measured {
				s.Basis = Inferred
			}
		}
		old := e.LongestSafeJob
		if !old.Known() || s.Value < old.Value || s.Value == old.Value && s.Addr < old.Addr {
			e.LongestSafeJob = s
		}
	}
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
