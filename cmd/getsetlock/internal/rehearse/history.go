// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"cmp"
	"slices"
	"time"
)

// AnyProduct asks for the history of the product of which most was oversold, or
// else most was ordered.
const AnyProduct = "*"

// History is a part of what happened to one product: who read the stock, who
// sold, and which sales another program's write has undone.
type History struct {
	SKU      string
	Stock    int // at the beginning of the rehearsal
	Left     int // at its end
	Sold     int
	Oversold int   // units sold that never left the stock
	Jobs     int   // number of jobs in the whole rehearsal
	First    int   // number of the first one in Shown, from 1
	Shown    []Job // sorted by the time of reading
}

// Job is one program's work on the product.
type Job struct {
	Who      string
	ReadMS   float64 // since the beginning of the rehearsal
	Read     int     // the stock that it read
	EndMS    float64
	WroteMS  *float64 // null: it wrote nothing
	Wrote    int      // the stock that it wrote
	Units    int      // sold
	Undone   bool     // another program's write put these units back
	UndoneBy string
	Died     bool
}

// mostShown is the number of jobs that a drawing can show legibly.
const mostShown = 12

// history returns the history of a product. left is the stock at the end. The
// caller has ended all work.
func (b *book) history(sku string, stock, left map[string]int, orders map[string]int) *History {
	b.mu.Lock()
	defer b.mu.Unlock()
	over := func(sku string) int { return max(b.sold[sku]-(stock[sku]-left[sku]), 0) }
	if sku == AnyProduct {
		var all []string
		for name := range stock {
			all = append(all, name)
		}
		slices.SortFunc(all, func(a, b string) int {
			return cmp.Or(over(b)-over(a), orders[b]-orders[a], cmp.Compare(a, b))
		})
		sku = all[0]
	}
	var jobs []*hold
	for _, h := range b.holds[sku] {
		if h.job.readAt > 0 {
			jobs = append(jobs, h)
		}
	}
	slices.SortStableFunc(jobs, func(a, b *hold) int { return cmp.Compare(a.job.readAt, b.job.readAt) })
	f := &History{SKU: sku, Stock: stock[sku], Left: left[sku], Sold: b.sold[sku], Oversold: over(sku),
		Jobs: len(jobs), Shown: []Job{}}
	kept := standing(jobs, left[sku])
	lost := slices.IndexFunc(jobs, func(h *hold) bool { return h.job.wroteAt > 0 && !kept[h] })
	from := max(0, lost-2)
	if lost < 0 {
		from = dense(jobs)
	}
	f.First = from + 1
	for _, h := range jobs[from:min(len(jobs), from+mostShown)] {
		j := Job{Who: h.job.who, ReadMS: millis(h.job.readAt), Read: h.job.read,
			EndMS: millis(max(h.stop, h.job.wroteAt)), Units: h.units, Died: h.job.died}
		if h.job.wroteAt > 0 {
			j.WroteMS, j.Wrote, j.Undone = new(millis(h.job.wroteAt)), h.job.wrote, !kept[h]
		}
		if j.Undone {
			j.UndoneBy = undoes(jobs, h)
		}
		f.Shown = append(f.Shown, j)
	}
	return f
}

// dense returns the first of the earliest jobs that a drawing shows legibly:
// without the long pause after a holder that died.
func dense(jobs []*hold) int {
	last := len(jobs) - mostShown
	if last <= 0 {
		return 0
	}
	span := func(n int) time.Duration { return jobs[n+mostShown-1].job.readAt - jobs[n].job.readAt }
	shortest := span(0)
	for n := range last {
		shortest = min(shortest, span(n))
	}
	for n := range last {
		if span(n) <= 3*shortest {
			return n
		}
	}
	return 0
}

// standing returns the jobs whose deductions are in the stock at the end. From
// the last write it goes back to the write that its program had read, and so
// on. All other deductions were overwritten.
//
// Two writes of one value look alike to a reader. Whichever is taken, the
// deductions that stand add up to what left the stock.
func standing(jobs []*hold, left int) map[*hold]bool {
	kept, wrote := make(map[*hold]bool), make(map[int][]*hold)
	for _, h := range jobs {
		if h.job.wroteAt > 0 {
			wrote[h.job.wrote] = append(wrote[h.job.wrote], h)
		}
	}
	value, before := left, time.Duration(-1)
	for {
		var last *hold
		for _, h := range wrote[value] {
			if s := h.job; (before < 0 || s.sent < before) &&
				(last == nil || s.wroteAt > last.job.wroteAt) {
				last = h
			}
		}
		if last == nil {
			return kept
		}
		kept[last] = true
		value, before = last.job.read, last.job.readAt
	}
}

// undoes names the program that overwrote a job's deduction: it had read the
// stock before, and wrote afterwards.
func undoes(jobs []*hold, lost *hold) string {
	var first *hold
	for _, h := range jobs {
		s := h.job
		if h != lost && s.wroteAt > lost.job.sent && s.readAt < lost.job.wroteAt &&
			(first == nil || s.wroteAt < first.job.wroteAt) {
			first = h
		}
	}
	if first == nil {
		return ""
	}
	return first.job.who
}
