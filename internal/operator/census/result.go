// SPDX-License-Identifier: Apache-2.0

package census

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Evidence returns what was seen so far, sorted, and the findings that a person
// should know. The result shares no memory with the census.
func (c *Census) Evidence() (Evidence, []Finding) {
	e := Evidence{
		From: c.from, Until: c.until, Counts: c.counts, Waits: c.waits.summary(),
		ForgottenWriters: c.gone.writers, ForgottenKeys: c.gone.keys,
		Acts: c.last(&c.story), LastCall: c.named(c.lastCall),
	}
	e.Holds, e.ServerSteps = slices.Clone(c.jobs.holds), slices.Clone(c.server.steps)
	for _, s := range []Source{SourceMonitor, SourcePoll, SourceTracking, SourceStats, SourceClients} {
		if v := c.sources[s]; v != nil {
			e.Coverage = append(e.Coverage, v.evidence(s, c.until))
		}
	}
	e.Counted, e.LastMoved = len(c.server.counts) > 0, c.server.moved
	leases := c.leases()
	e.Writers = c.writersFound(leases)
	e.Keys = c.keysFound()
	c.sums(&e, leases)
	findings := c.findings(&e) // also sets each writer's findings
	return e, findings
}

// sums computes what concerns the whole fleet.
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
	if c.cfg.Greatest > 0 {
		e.GreatestLease = Span{Value: c.cfg.Greatest, Basis: Given}
	}
	e.LongestHold = c.longestHold()
	c.gapFound(e)
	e.LeaseLooks = c.leaseLooks()
	e.Spread = c.spread(e, leases)
	c.againstServer(e, leases)
	c.safeJob(e, leases)
}

// longestHold returns the longest job: the longest whose release was seen, or
// the claim if that is greater. What polls saw neither refutes nor replaces a
// claim.
func (c *Census) longestHold() Span {
	var seen Span
	if h := c.jobs.longest; h != nil {
		seen = Span{Value: h.For, Basis: Measured, Source: h.Source, At: h.At, Addr: h.Addr, Key: h.Key}
	}
	seen = claimOver(seen, c.cfg.Job)
	if h := c.jobs.polled; h != nil && !seen.Known() {
		seen = Span{Value: h.For, Basis: Inferred, Source: h.Source, At: h.At, Key: h.Key,
			Note: "an upper bound, from looks: a killed client's stamp looks like a long job"}
	}
	return seen
}

// claimOver returns the claim if nothing was measured or less was; otherwise
// the measurement.
func claimOver(seen Span, claim time.Duration) Span {
	value, claimed := dialect.Claimed(claim)
	if !claimed || seen.Known() && seen.Value > value {
		return seen
	}
	return Span{Value: value, Basis: Claimed}
}

func (c *Census) leaseOf(h Hold, leases map[*writer]Span) time.Duration {
	if w := c.writers[h.Addr]; w != nil && leases[w].Known() {
		return leases[w].Value
	}
	return c.cfg.Lease
}

func (c *Census) writersFound(leases map[*writer]Span) []Writer {
	var out []Writer
	for _, w := range c.writers {
		v := Writer{
			Client: Client{Addr: w.addr}, Dialect: w.dialect().Name, Also: names(w.fits[1:]),
			Lease:  leases[w],
			Offset: c.offset(w, leases[w]), Steps: slices.Clone(w.steps), Shared: w.shared, Counts: w.counts,
			Holds: w.holds.summary(),
			Waits: w.waits.summary(), Keys: slices.Clone(w.keys), Last: w.last,
			Acts: c.last(&w.story),
		}
		v.Starts = w.starts(c.cfg.Lease)
		if who, ok := c.clients[w.addr]; ok {
			v.Name, v.Library = who.Name, who.Library
		}
		if w.gap != nil {
			v.Gap = w.gap.found()
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
	for _, k := range c.inOrder() {
		if k.counts == (Counts{}) && len(k.timeline) == 0 && k.lastFailed == nil {
			continue
		}
		v := KeyEvidence{
			DB: k.id.db, Key: k.id.name, Counts: k.counts, Acts: c.last(&k.story),
			Dialects: slices.Sorted(slices.Values(k.dialects)), Timeline: slices.Clone(k.timeline),
			NoTTL: k.noTTL, FoundLive: k.stillLive(),
		}
		for i := range v.Timeline {
			c.name(&v.Timeline[i])
		}
		out = append(out, v)
	}
	return out
}

// inOrder returns all keys in the order of results.
func (c *Census) inOrder() []*keyState {
	return slices.SortedFunc(maps.Values(c.keys), func(a, b *keyState) int {
		return cmp.Or(a.id.db-b.id.db, strings.Compare(a.id.name, b.id.name))
	})
}

// last returns copies of the last acts.
func (c *Census) last(s *story) Acts { return Acts{c.named(s.lastWrite), c.named(s.lastFailed)} }

// named returns a copy of an act, with the name that its address has by now.
func (c *Census) named(a *Act) *Act {
	if a == nil {
		return nil
	}
	b := *a
	c.name(&b)
	return &b
}

func (c *Census) name(a *Act) {
	if a.Addr == "" || a.Name != "" || a.Library != "" {
		return
	}
	if who, ok := c.clients[a.Addr]; ok {
		a.Name, a.Library = who.Name, who.Library
	}
}

func names(ds []*dialect.Dialect) []string {
	out := make([]string, 0, len(ds))
	for _, d := range ds {
		out = append(out, d.Name)
	}
	return out
}
