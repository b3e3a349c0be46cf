package audit

import (
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/skew"
)

// Result is what was found so far. It shares nothing with the census.
func (c *Census) Result() *Result {
	e := Evidence{
		From: c.from, Until: c.until, Counts: c.counts, Waits: c.waits.summary(), Holds: slices.Clone(c.holds),
		ForgottenWriters: c.gone.count, ForgottenKeys: c.goneKeys, ServerSteps: slices.Clone(c.steps),
		DoubleGrants: slices.Clone(c.doubles), LastWrite: c.named(c.lastWrite), LastFailed: c.named(c.lastFailed),
	}
	for _, s := range []Source{SourceMonitor, SourcePoll, SourceTracking, SourceStats, SourceClients} {
		if v := c.sources[s]; v != nil {
			e.Coverage = append(e.Coverage, v.evidence(s, c.until))
		}
	}
	if len(c.stats) > 0 {
		e.Stats = &CommandCalls{LastMoved: c.moved}
		if n := c.stats["setnx"]; n != nil {
			e.Stats.Setnx = n.sum
		}
		if n := c.stats["getset"]; n != nil {
			e.Stats.Getset = n.sum
		}
	}
	leases := c.leases()
	e.Writers = c.writersFound(leases)
	e.Keys = c.keysFound()
	c.sums(&e, leases)
	r := &Result{Evidence: e}
	r.Findings = c.findings(&r.Evidence)
	return r
}

// sums are what speaks of the whole fleet.
func (c *Census) sums(e *Evidence, leases map[*writer]Span) {
	for _, w := range e.Writers {
		if !slices.Contains(e.Dialects, w.Dialect) {
			e.Dialects = append(e.Dialects, w.Dialect)
		}
		if w.Counts.GetsetFirst > 0 {
			e.GetsetFirst = append(e.GetsetFirst, w.Addr)
		}
		if w.Lease.Known() && (!e.SmallestLease.Known() || w.Lease.Value < e.SmallestLease.Value) {
			e.SmallestLease = w.Lease
		}
		if w.Lease.Known() && (!e.GreatestLease.Known() || w.Lease.Value > e.GreatestLease.Value) {
			e.GreatestLease = w.Lease
		}
	}
	slices.Sort(e.Dialects)
	for i, h := range e.Holds {
		e.Holds[i].Lease = c.leaseOf(h, leases)
	}
	if h := c.longest; h != nil {
		e.LongestHold = Span{Value: h.For, Basis: Measured, Source: h.Source, At: h.At, Addr: h.Addr, Key: h.Key}
		if h.Source == SourcePoll {
			e.LongestHold.Note = "at most so long: between two looks"
		}
	}
	e.LongestHold = claimOver(e.LongestHold, c.cfg.Job)
	c.gapFound(e, leases)
	e.Spread = c.spread(leases, e.named())
	c.safeJob(e, leases)
}

// claimOver lets a claim stand where what was measured is less, and where nothing was.
func claimOver(seen Span, claim time.Duration) Span {
	if claim == 0 || seen.Known() && seen.Value > claim {
		return seen
	}
	return Span{Value: claim, Basis: Claimed}
}

func (c *Census) leaseOf(h Hold, leases map[*writer]Span) time.Duration {
	if w := c.writers[h.Addr]; w != nil && leases[w].Known() {
		return leases[w].Value
	}
	return c.cfg.Lease
}

func (c *Census) writersFound(leases map[*writer]Span) []Writer {
	broken := map[string][]skew.Contradiction{}
	for _, n := range c.fleet.Contradictions() {
		broken[n.Writer] = append(broken[n.Writer], n.Contradiction)
	}
	var out []Writer
	for name, w := range c.writers {
		v := Writer{
			Addr: w.addr, Dialect: w.dialect().Name, Also: names(w.fits[1:]), Basis: Inferred, Lease: leases[w],
			Offset: c.offset(w, leases[w]), Contradictions: broken[name], Counts: w.counts, Holds: w.holds.summary(),
			Waits: w.waits.summary(), Keys: slices.Clone(w.keys), First: w.first, Last: w.last,
			LastWrite: c.named(w.lastWrite), LastFailed: c.named(w.lastFailed),
		}
		if len(c.cfg.Dialects) == 1 {
			v.Basis = Given
		}
		if who, ok := c.clients[w.addr]; ok {
			v.Name, v.Library, v.User = who.Name, who.Library, who.User
		}
		if w.gap != nil {
			g := c.gapAt(w, *w.gap, leases[w])
			v.Gap = &g
		}
		slices.Sort(v.Keys)
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Writer) int {
		if n := strings.Compare(a.Addr, b.Addr); n != 0 {
			return n
		}
		return strings.Compare(a.Dialect, b.Dialect)
	})
	return out
}

func (c *Census) keysFound() []KeyEvidence {
	var out []KeyEvidence
	for _, k := range c.keys {
		if k.counts == (Counts{}) && len(k.timeline) == 0 {
			continue
		}
		v := KeyEvidence{
			DB: k.id.db, Key: k.id.name, Dialects: slices.Sorted(slices.Values(k.dialects)), Counts: k.counts, LastWrite: c.named(k.lastWrite),
			LastFailed: c.named(k.lastFailed), NoTTL: k.noTTL, Earlier: k.earlier,
		}
		for _, a := range k.timeline {
			v.Timeline = append(v.Timeline, *c.named(&a))
		}
		if k.longest != nil {
			h := *k.longest
			v.Longest = &h
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b KeyEvidence) int {
		if a.DB != b.DB {
			return a.DB - b.DB
		}
		return strings.Compare(a.Key, b.Key)
	})
	return out
}

// named is a copy of an act with the name that its address has by now.
func (c *Census) named(a *Act) *Act {
	if a == nil {
		return nil
	}
	b := *a
	if who, ok := c.clients[b.Addr]; ok && b.Name == "" && b.Library == "" {
		b.Name, b.Library = who.Name, who.Library
	}
	return &b
}
