// SPDX-License-Identifier: Apache-2.0

package census

import (
	"fmt"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/skew"
)

// leases finds what each writer adds to its clock. It is the given lease if
// there is one, otherwise the round number nearest to what the writer wrote. If
// that is near no round number, since the clock may be far off, it is what most
// writers of the same dialect add.
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
		if lease, warning, ok := offset.SnapLease(w.assumed, c.promptest(w)); ok {
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
			out[w] = Span{Value: lease, Basis: Inferred, Addr: w.addr,
				Note: "taken from the other clients of its dialect"}
		} else if d := w.dialect(); d.Lease > 0 {
			out[w] = Span{Value: d.Lease, Basis: Default, Addr: w.addr,
				Note: "no round number fits what it wrote; this is the library's default"}
		}
	}
	return out
}

// promptest returns where the clock is by the promptest write, assuming that
// the write was executed at once. A stamp that was there at the first look may
// have been written long before: it is used only if there is nothing else, as
// if it had just been written.
func (c *Census) promptest(w *writer) offset.Interval {
	soon := max(c.cfg.PollEvery, 10*time.Millisecond)
	switch b := w.bounds; {
	case b.writes > 0:
		return offset.Interval{Low: b.low.High, High: max(b.low.High+soon, b.high.Low)}
	case w.stood != nil:
		return offset.Interval{Low: *w.stood, High: *w.stood + soon}
	}
	return offset.Interval{Low: offset.NoLow, High: offset.NoHigh}
}

// leaseLooks returns the smallest lease that is less than the given one and
// explains a client's writes better.
func (c *Census) leaseLooks() (least Span) {
	if c.cfg.Lease == 0 || c.cfg.LeaseChecked {
		return least
	}
	for _, w := range c.writers {
		if w.bounds.writes == 0 {
			continue
		}
		i := c.promptest(w)
		lease, _, ok := offset.SnapLease(w.assumed, i)
		if !ok || lease >= c.cfg.Lease ||
			(w.assumed+i.Low-lease).Abs() >= (w.assumed+i.Low-c.cfg.Lease).Abs() {
			continue
		}
		if !least.Known() || lease < least.Value || lease == least.Value && w.addr < least.Addr {
			least = Span{Value: lease, Basis: Inferred, Addr: w.addr, Note: fmt.Sprintf(
				"otherwise its clock is %v behind the server's", -(i.Low + w.wide).Round(time.Millisecond))}
		}
	}
	return least
}

// most returns the lease with the most votes; of equals, the smallest.
func most(votes map[time.Duration]int) (lease time.Duration, ok bool) {
	for l, n := range votes {
		if !ok || n > votes[lease] || n == votes[lease] && l < lease {
			lease, ok = l, true
		}
	}
	return lease, ok
}

// shift returns by how much a writer's offsets move if its lease is not the one
// that its samples were taken with.
func (w *writer) shift(lease Span) time.Duration {
	if !lease.Known() || lease.Basis == Given {
		return 0 // the samples were taken with a given lease
	}
	return w.assumed - lease.Value
}

func (c *Census) offset(w *writer, lease Span) Offset {
	gap, claimed := dialect.Claimed(c.cfg.Gap)
	seen := c.seenOf(w, lease)
	o := Offset{
		Interval: seen.around(gap, claimed), Writes: seen.writes, LeaseGuessed: lease.Basis != Given,
	}
	if gap = c.gapForPeople(); seen.writes > 0 {
		o.atLeast, o.atMost, o.reach = seen.low.High, seen.high.Low+gap, seen.high.High+gap
	}
	return o
}

func (g gapSample) found() *Gap {
	return &Gap{AtLeast: g.length(), At: g.at, Addr: g.addr, Key: g.key}
}

// gapFound sets the longest gap, including those of forgotten writers.
func (c *Census) gapFound(e *Evidence) {
	if c.gone.gap != nil {
		e.Gaps = c.gone.gap.found()
	}
	for _, w := range e.Writers {
		if w.Gap != nil && (e.Gaps == nil || w.Gap.AtLeast > e.Gaps.AtLeast) {
			g := *w.Gap
			e.Gaps = &g
		}
	}
	var seen Span
	if g := e.Gaps; g != nil {
		seen = Span{
			Value: g.AtLeast, Basis: Measured, Source: SourceMonitor, At: g.At, Addr: g.Addr, Key: g.Key,
			Note: "at least: from a SETNX to the GETSET with the same stamp",
		}
	}
	e.LongestGap = claimOver(seen, c.cfg.Gap)
}

// explained reports whether the unknown writer that polls saw may be one of
// those that MONITOR named: some named clock can be as far ahead as the unknown
// one is proved to be.
func (e *Evidence) explained(nameless Offset) bool {
	return slices.ContainsFunc(e.Writers, func(w Writer) bool {
		return w.Addr != "" && w.Offset.Writes > 0 && w.Offset.reach >= nameless.atLeast
	})
}

// safeJob asks the law for each dialect seen and keeps the shortest job. It
// uses a claimed spread or gap if that is more than what was seen.
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

// spreadToFear returns the claimed spread unless it was refuted, otherwise the
// guaranteed one, otherwise the largest lower bound. Its basis and note apply
// to everything computed from it.
func (c *Census) spreadToFear(seen Spread) Span {
	if claim, ok := dialect.Claimed(c.cfg.Spread); ok && claim >= seen.Proved {
		return Span{Value: claim, Basis: Claimed}
	}
	if seen.Sound() {
		return Span{Value: seen.Guaranteed, Basis: Measured, Note: "at most: by the clocks that were seen"}
	}
	return Span{Value: seen.Apart, Basis: Inferred,
		Note: "at most: only a lower bound of the spread is known"}
}

// longestJob returns what the law says for a writer's dialect and lease, if it
// gives a bound.
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
