// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Shrink returns a plan with fewer operations and faults about which the same
// judge still complains, and its history. It drops halves first, then smaller
// parts, until no single part can go.
func Shrink(t *testing.T, p *Plan, judge string) (*Plan, *History) {
	t.Helper()
	best, bad := p, fails(t, p, judge)
	if bad == nil {
		return p, Play(t, p) // it does not fail again: the history is not repeatable
	}
	for size := len(p.Ops) + len(p.Faults); size > 0; size /= 2 {
		for from := 0; from < len(best.Ops)+len(best.Faults); {
			less := best.without(from, size)
			if h := fails(t, less, judge); h != nil {
				best, bad = less, h
			} else {
				from += size
			}
		}
	}
	return best, bad
}

// fails returns the plan's history if that judge complains about it.
func fails(t *testing.T, p *Plan, judge string) *History {
	t.Helper()
	h := Play(t, p)
	if slices.ContainsFunc(Judge(h), func(c Complaint) bool { return c.Judge == judge }) {
		return h
	}
	return nil
}

// without returns the plan without some of its faults and operations, which
// count in this order.
func (p *Plan) without(from, size int) *Plan {
	less := *p
	less.Faults = rest(p.Faults, from, size)
	less.Ops = rest(p.Ops, from-len(p.Faults), size)
	return &less
}

// rest returns what is left without some elements from one on.
func rest[T any](all []T, from, size int) []T {
	within := func(n int) int { return min(max(n, 0), len(all)) }
	return slices.Delete(slices.Clone(all), within(from), within(from+size))
}

// Case describes a plan and its history for a person: what is configured, and a
// drawing with a line an event and a column a process.
func Case(h *History) string {
	var b strings.Builder
	p := h.Plan
	fmt.Fprintf(&b, "form %s, %d operations, %d faults\n", p.Form, len(p.Ops), len(p.Faults))
	for id, c := range p.Procs {
		used := slices.ContainsFunc(p.Ops, func(o Op) bool { return o.Proc == id })
		if used {
			fmt.Fprintf(&b, "p%d: TTL %v, margin %v, renews every %v, waits %v, hand-overs %d, called %t\n", id,
				c.TTL, c.Margin, c.RenewEvery, c.Wait, c.HandOvers, !c.Deaf)
		}
	}
	b.WriteString(drawing(h))
	for _, c := range Judge(h) {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

// drawing has a line an event and a column a process, the server's first. A bar
// stands where a process has a lease.
func drawing(h *History) string {
	var b strings.Builder
	const wide = 12
	columns, holds := []int{Server}, map[int]bool{}
	fmt.Fprintf(&b, "%14s  %-*s", "", wide, "server")
	for id := range h.Plan.Procs {
		columns = append(columns, id)
		fmt.Fprintf(&b, "%-*s", wide, fmt.Sprintf("p%d", id))
	}
	b.WriteString("\n")
	for _, e := range h.Events {
		switch e.Kind {
		case Ran:
			continue
		case Acquired:
			holds[e.Proc] = true
		case Releasing, Ended, Died:
			holds[e.Proc] = false
		}
		fmt.Fprintf(&b, "%13.9fs  ", e.At.Seconds())
		for _, c := range columns {
			fmt.Fprintf(&b, "%-*s", wide, mark(e, c, holds[c]))
		}
		b.WriteString(strings.TrimLeft(e.String()[15:], " ") + "\n")
	}
	return b.String()
}

func mark(e Event, column int, holds bool) string {
	switch {
	case e.Proc == column || e.Kind == Happened && e.Proc == All:
		return string(e.Kind)
	case holds:
		return "█"
	case column == Server:
		return "·"
	}
	return "│"
}
