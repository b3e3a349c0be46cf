// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"cmp"
	"slices"
	"time"
)

// rules are a protocol's guarantees, as far as the verdict needs them.
type rules struct {
	// Reason why overlapping holds do no harm, or "".
	free string

	// Longest time until a new client has stopped after another client entered.
	told time.Duration

	// Longest time that an old client may hold, from its winning write until
	// its release is executed. Zero: unbounded.
	honest time.Duration

	// What the new clients knew, and what they can bear. Zero: it does not
	// matter.

	lease  time.Duration // lease of the old clients
	spread time.Duration // clock spread of the old clients, the server's clock included
	gap    time.Duration // time from an old client's clock reading to the write that carries it
	margin time.Duration // a new client that pauses for longer may work past its lease

	// Returns the least and the greatest offset of the old clients' clocks
	// within a span.
	clocks func(from, to time.Duration) (low, high time.Duration)

	// Reports that the dialect's own clients do not exclude each other.
	sharing bool
}

const (
	causeOverrun = "an old client held longer than its lease allows"
	causeSharing = "the dialect's own clients do not exclude each other"
	causeClocks  = "the old clients' clocks were further apart, or from the server's, than the new ones were told"
	causeStall   = "an old client's command came later after its clock reading than the new ones were told"
	causeStill   = "a new client stood still for longer than its margin, while it held"
)

// episode is a longest stretch of time in which two or more clients hold one
// key.
type episode struct {
	stretch
	cause string  // excuse, or "" without one
	holds []*hold // holds that took part
	new   bool    // one of the holds is a new client's
}

// episodes finds where holds of one product overlapped, and what excuses that.
//
// It takes holds in clusters that touch in time, releases included. Each hold
// that began while another client held needs a reason of its own, see excuses.
// Nothing excuses two new clients together, nor a new client that went on for
// too long after another client had entered.
func (r rules) episodes(holds []*hold, late []write) []episode {
	slices.SortStableFunc(holds, func(a, b *hold) int { return cmp.Compare(a.start, b.start) })
	var all []episode
	for begin := 0; begin < len(holds); {
		end, until := begin+1, holds[begin].freed
		for end < len(holds) && holds[end].start <= until {
			until = max(until, holds[end].freed)
			end++
		}
		if end-begin > 1 {
			all = append(all, r.cluster(holds[begin:end], late)...)
		}
		begin = end
	}
	return all
}

func (r rules) cluster(holds []*hold, late []write) []episode {
	c := &excuses{rules: r, holds: holds, late: late, guilt: make(map[*hold]string)}
	var all []episode
	for _, s := range stretches(holds) {
		all = append(all, c.episode(s))
	}
	if r.free != "" || len(all) == 0 {
		return all
	}
	for _, never := range r.inexcusable(holds) {
		for i := range all {
			if never.start < all[i].end && all[i].start < never.end {
				all[i].cause = ""
			}
		}
	}
	return all
}

// inexcusable returns the stretches that other clients' faults do not explain.
func (r rules) inexcusable(holds []*hold) []stretch {
	var ours []*hold
	for _, h := range holds {
		if h.kind == newClient {
			ours = append(ours, r.moving(h))
		}
	}
	all := stretches(ours)
	for _, h := range ours {
		for _, o := range holds {
			if o.start > h.start && h.stop-o.start > r.told && o.stop > o.start {
				all = append(all, stretch{o.start, h.stop})
			}
		}
	}
	return all
}

// moving returns a new client's hold up to the pause from which on it could not
// know that it was lost.
func (r rules) moving(h *hold) *hold {
	if still, long := r.stoodStill(h); long {
		cut := *h
		cut.stop = still
		return &cut
	}
	return h
}

func (r rules) stoodStill(h *hold) (time.Duration, bool) {
	if r.margin == 0 || h.host == nil {
		return 0, false
	}
	return h.host.firstStop(h.start, h.freed, r.margin)
}

// misled names what was different, within a span, from what the new clients
// knew.
func (r rules) misled(from, to time.Duration, late []write) string {
	for _, w := range late {
		if r.gap > 0 && w.age > r.gap && w.at >= from && w.at <= to {
			return causeStall
		}
	}
	if r.clocks != nil && r.spread > 0 {
		if low, high := r.clocks(from, to); high-low > r.spread {
			return causeClocks
		}
	}
	return ""
}

type stretch struct{ start, end time.Duration }

// stretches returns the longest spans of time in which at least two holds were
// open. It leaves out spans of no length: a hold that ends when the next
// one begins does not overlap it.
func stretches(holds []*hold) []stretch {
	type edge struct {
		at time.Duration
		by int
	}
	var edges []edge
	for _, h := range holds {
		if h.stop > h.start {
			edges = append(edges, edge{h.start, 1}, edge{h.stop, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) // ends before beginnings
	})
	var all []stretch
	var open int
	var since time.Duration
	for _, e := range edges {
		open += e.by
		switch {
		case e.by > 0 && open == 2:
			since = e.at
		case e.by < 0 && open == 1:
			all = append(all, stretch{since, e.at})
		}
	}
	return all
}

// judge turns the book into the verdict on overlaps and overselling. It leaves
// the episodes of each product in the book.
func (r rules) judge(b *book) Judgement {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := Judgement{Causes: []Cause{}}
	excused := make(map[string]Cause)
	for _, p := range b.products {
		var bad int
		var cause string
		blamed := make(map[*hold]bool)
		p.episodes = r.episodes(p.holds, p.writes)
		for _, e := range p.episodes {
			j.LongestMS = max(j.LongestMS, millis(e.end-e.start))
			j.count(e)
			if e.cause == "" {
				bad++
				continue
			}
			cause = e.cause
			for _, h := range e.holds {
				blamed[h] = true
			}
			c := excused[e.cause]
			c.Overlaps++
			excused[e.cause] = c
		}
		over := p.oversold()
		j.Oversold += over
		// An excused overlap can have undone only what its clients sold.
		var explained int
		for h := range blamed {
			explained += h.units
		}
		if explained = min(explained, over); explained > 0 && bad == 0 {
			j.OversoldExcused += explained
			c := excused[cause]
			c.Oversold += explained
			excused[cause] = c
		}
		j.Unserved += p.unserved
	}
	for name, c := range excused {
		c.Cause = name
		j.Causes = append(j.Causes, c)
	}
	slices.SortFunc(j.Causes, func(a, b Cause) int { return cmp.Compare(a.Cause, b.Cause) })
	return j
}

// count adds an episode.
func (n *Episodes) count(e episode) {
	excused := 0
	if e.cause != "" {
		excused = 1
	}
	n.Overlaps++
	n.OverlapsExcused += excused
	if e.new {
		n.WithNew++
		n.WithNewExcused += excused
	}
}
