package rehearse

import (
	"cmp"
	"slices"
	"time"
)

// rules are what a protocol promises, as far as the verdict needs it.
type rules struct {
	// free is why overlapping holds harm nobody, where that is so.
	free string

	// ours tells the groups of which two must never hold together, whatever the others do.
	ours func(group int) bool

	// told is how long after somebody else entered beside one of ours it has stopped at the latest.
	told time.Duration

	// old tells the groups of old clients.
	old func(group int) bool

	// honest is the longest that an old client may hold, from its winning write to its release
	// being executed. Zero: there is no bound.
	honest time.Duration

	// The rest is what the new clients were told, and what they can bear. Zero: nothing hangs on it.

	lease  time.Duration // of the old clients
	spread time.Duration // of the old clients' clocks, the server's among them
	gap    time.Duration // from an old client's clock reading to the write that carries it
	margin time.Duration // one of ours that stands still for longer may go on past its lease

	// clocks are the least and the greatest offset of the old clients' clocks within a span.
	clocks func(from, to time.Duration) (low, high time.Duration)

	// sharing says that the dialect's own clients do not exclude each other.
	sharing bool
}

const (
	causeOverrun = "an old client held longer than its lease allows"
	causeSharing = "the dialect's own clients do not exclude each other"
	causeClocks  = "the old clients' clocks were further apart, or from the server's, than the new ones were told"
	causeStall   = "an old client's command came later after its clock reading than the new ones were told"
	causeStill   = "a new client stood still for longer than its margin, while it held"
)

// episode is a longest stretch of time in which two or more hold one key.
type episode struct {
	start, end time.Duration
	cause      string // what excuses it, empty if nothing does
}

// episodes finds where holds of one product overlapped, and what excuses that.
//
// Overlaps come in chains: the late release of one that overran deletes the key of the next, whom a
// third joins, whose neighbour releases in good faith and deletes the third's. So holds are taken
// in clusters that touch in time, releases included, and what excuses one overlap of a cluster
// excuses all; but nothing excuses two of ours together, nor one of ours that went on for too long
// after somebody had entered beside it.
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
	cause := r.excuse(holds, late)
	var all []episode
	for _, s := range stretches(holds, 2) {
		all = append(all, episode{start: s.start, end: s.end, cause: cause})
	}
	if cause == "" || r.free != "" {
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

// inexcusable are the stretches that the others' faults don't explain.
func (r rules) inexcusable(holds []*hold) []stretch {
	var ours []*hold
	for _, h := range holds {
		if r.ours(h.group) {
			ours = append(ours, r.moving(h))
		}
	}
	all := stretches(ours, 2)
	for _, h := range ours {
		for _, o := range holds {
			if o.start > h.start && h.stop-o.start > r.told && o.stop > o.start {
				all = append(all, stretch{o.start, h.stop})
			}
		}
	}
	return all
}

// moving is a hold of ours up to the moment from which on it stood still for too long to know.
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

func (r rules) excuse(holds []*hold, late []write) string {
	if r.free != "" {
		return r.free
	}
	var old []*hold
	for _, h := range holds {
		if !r.old(h.group) {
			continue
		}
		if r.honest > 0 && h.freed-h.start > r.honest {
			return causeOverrun
		}
		old = append(old, h)
	}
	if r.sharing && len(stretches(old, 2)) > 0 {
		return causeSharing
	}
	return r.misled(holds, late)
}

// misled names what was otherwise than the new clients were told, or than anybody could know. A stamp
// counts for a lease, so what was wrong when it was written is wrong until then.
func (r rules) misled(holds []*hold, late []write) string {
	from, to := holds[0].start-r.lease, holds[0].freed
	for _, h := range holds {
		to = max(to, h.freed)
	}
	for _, w := range late {
		if r.gap > 0 && w.age > r.gap && w.at >= from && w.at <= to {
			return causeStall
		}
	}
	for _, h := range holds {
		if _, long := r.stoodStill(h); long && r.ours(h.group) {
			return causeStill
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

// stretches are the longest spans of time in which at least depth holds were open, those of no length
// left out: one that ends where the next begins does not overlap it.
func stretches(holds []*hold, depth int) []stretch {
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
		was := open
		open += e.by
		switch {
		case was < depth && open >= depth:
			since = e.at
		case was >= depth && open < depth:
			all = append(all, stretch{since, e.at})
		}
	}
	return all
}

// judge turns the book into what is reported of overlaps and of goods sold twice. left is the stock
// at the end.
func (r rules) judge(b *book, stock, left map[string]int) Judgement {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := Judgement{Causes: []Cause{}}
	excused := make(map[string]Cause)
	for sku, first := range stock {
		var blame, bad int
		var cause string
		for _, e := range r.episodes(b.holds[sku], b.writes[sku]) {
			j.Overlaps++
			j.LongestMS = max(j.LongestMS, millis(e.end-e.start))
			if e.cause == "" {
				bad++
				continue
			}
			blame++
			cause = e.cause
			j.OverlapsExcused++
			c := excused[e.cause]
			c.Overlaps++
			excused[e.cause] = c
		}
		// Units sold less units that left the stock: exactly the deductions that another client's
		// write has undone, whether or not the goods ran out later.
		over := max(b.sold[sku]-(first-left[sku]), 0)
		j.Oversold += over
		if over > 0 && blame > 0 && bad == 0 {
			j.OversoldExcused += over
			c := excused[cause]
			c.Oversold += over
			excused[cause] = c
		}
		j.Unserved += b.unserved[sku]
	}
	for name, c := range excused {
		c.Cause = name
		j.Causes = append(j.Causes, c)
	}
	slices.SortFunc(j.Causes, func(a, b Cause) int { return cmp.Compare(a.Cause, b.Cause) })
	return j
}
