package census

import (
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
	"github.com/getsetlock/getsetlock/skew/offset"
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
		if w.addr == "" && i.Low != offset.NoLow {
			// A look comes after the write by up to the time between two looks.
			i.High = i.Low + max(c.cfg.PollEvery, 10*time.Millisecond)
		}
		if lease, warning, ok := offset.SnapLease(w.assumed, i); ok {
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
	out := Gap{At: g.at, Addr: g.addr, Key: g.key, AtMost: offset.NoHigh}
	if i.Low != offset.NoLow {
		out.AtLeast = max(0, g.length(i.Low)-w.wide)
	}
	if i.High != offset.NoHigh {
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
		if g.AtMost == offset.NoHigh {
			seen.Value, seen.Note = g.AtLeast, "at least so long: nothing bounds that client's clock from above"
		}
	}
	e.LongestGap = claimOver(seen, c.cfg.Gap)
}

// explained reports that whoever polls saw write may be one of those that MONITOR named: no named
// clock can be as far ahead as a nameless one is proved to be.
func explained(nameless offset.Interval, named []offset.Interval) bool {
	for _, i := range named {
		if i.High >= nameless.Low {
			return true
		}
	}
	return false
}

// named are the offsets of those that have addresses.
func (e *Evidence) named() []offset.Interval {
	var out []offset.Interval
	for _, w := range e.Writers {
		if w.Addr != "" && w.Offset.Writes > 0 {
			out = append(out, w.Offset.Interval)
		}
	}
	return out
}

// spread is offset.Fleet's, with each writer's own lease. A nameless writer of the polls has no upper
// end, ever; where its stamps may be a named one's it is left out, since the spread speaks of writers that were
// seen and of nobody else.
func (c *Census) spread(leases map[*writer]Span, named []offset.Interval) offset.Spread {
	s := offset.Spread{Guaranteed: offset.NoHigh}
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
		wide := time.Duration(float64(c.until.Sub(g.at)) * offset.DefaultRate / 1e6)
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
	if top, bottom := slices.Max(lows), slices.Min(highs); top != offset.NoLow && bottom != offset.NoHigh && top > bottom {
		s.Proved = top - bottom
	}
	if top, bottom := slices.Max(highs), slices.Min(lows); top != offset.NoHigh && bottom != offset.NoLow {
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
	spread := c.spreadToFear(e.Spread)
	if e.LongestGap.Basis == Claimed {
		spread.Basis = Claimed
	}
	for _, w := range c.writers {
		s, ok := w.longestJob(leases[w], spread, e.LongestGap.Value)
		if !ok {
			continue
		}
		old := e.LongestSafeJob
		if !old.Known() || s.Value < old.Value || s.Value == old.Value && s.Addr < old.Addr {
			e.LongestSafeJob = s
		}
	}
}

// spreadToFear is the greatest spread that is claimed, guaranteed or, where
// nothing is guaranteed, proved. Its basis and note are those of what follows
// from it.
func (c *Census) spreadToFear(seen offset.Spread) Span {
	if claim, ok := dialect.Claimed(c.cfg.Spread); ok && (!seen.Sound() || claim >= seen.Guaranteed) && claim >= seen.Proved {
		return Span{Value: claim, Basis: Claimed}
	}
	if seen.Sound() {
		return Span{Value: seen.Guaranteed, Basis: Measured}
	}
	return Span{Value: seen.Proved, Basis: Inferred, Note: "at most: only the proved spread is known"}
}

// longestJob is what the law says of a writer's dialect and lease, where it says
// anything.
func (w *writer) longestJob(lease, spread Span, gap time.Duration) (s Span, ok bool) {
	if !lease.Known() {
		return s, false
	}
	v, err := skew.Law{Dialect: *w.dialect(), Lease: lease.Value, Spread: spread.Value, Delay: gap}.Verdict()
	if err != nil || !v.LongestJob.Bounded {
		return s, false
	}
	s = Span{Value: v.LongestJob.Bound, Basis: spread.Basis, Addr: w.addr, Note: spread.Note}
	if lease.Basis == Inferred || lease.Basis == Default {
		s.Note = join(s.Note, "by a guessed lease")
		if s.Basis == Measured {
			s.Basis = Inferred
		}
	}
	return s, true
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
