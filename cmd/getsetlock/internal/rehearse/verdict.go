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
	cause      string  // what excuses it, empty if nothing does
	holds      []*hold // those that took part
	new        bool    // one of them is a new client's
}

// episodes finds where holds of one product overlapped, and what excuses that.
//
// Holds are taken in clusters that touch in time, releases included. Each hold
// that began beside another needs a reason of its own, see chain; nothing
// excuses two of ours together, nor one of ours that went on for too long after
// somebody had entered beside it.
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
	c := r.chain(holds, late)
	var all []episode
	for _, s := range stretches(holds, 2) {
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

// misled names what was otherwise, within a span, than the new clients were
// told, or than anybody could know.
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
		var bad int
		var cause string
		blamed := make(map[*hold]bool)
		for _, e := range r.episodes(b.holds[sku], b.writes[sku]) {
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
		// Units sold less units that left the stock: exactly the deductions that another client's
		// write has undone, whether or not the goods ran out later.
		over := max(b.sold[sku]-(first-left[sku]), 0)
		j.Oversold += over
		// Only what clients of an excused overlap sold can have been undone by it.
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
		j.Unserved += b.unserved[sku]
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
