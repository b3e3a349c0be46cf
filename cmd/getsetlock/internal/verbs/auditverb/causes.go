// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/operator/census"
)

// cause is something to mend, with the findings that it likely explains. Every
// finding of an audit belongs to exactly one cause.
type cause struct {
	culprit  string           // name of the client, key or server that it is about
	own      []census.Finding // findings that say what is to be mended
	explains []census.Finding // findings that follow from it
}

// The kinds of findings that a cause elsewhere may explain.
var symptoms = []string{"overlap", "overrun", "job_too_long"}

// The kinds of findings about one writer's clock, or its address.
var clockKinds = []string{"clock_off", "shared_address", "step"}

// grouping sorts findings under their causes.
type grouping struct {
	evidence *census.Evidence
	order    []*cause
	by       map[string]*cause
	clocks   map[string]time.Duration // wrong clocks, by the writer's address: at least how far off
}

// causes returns the causes, the worst first. A finding is explained only by a
// cause on the same key; the explanation is likely and not proved.
func (a *auditAnswer) causes() []*cause {
	g := &grouping{evidence: &a.result.Evidence, by: map[string]*cause{}, clocks: map[string]time.Duration{}}
	var later []census.Finding
	for _, f := range a.all {
		w := g.writer(f.Writer)
		switch {
		case slices.Contains(symptoms, f.Kind) && (w == nil || !outlives(w)):
			later = append(later, f)
		case slices.Contains(symptoms, f.Kind):
			g.add("jobs "+w.Addr, shortName(w), f)
		case f.Writer != "" && slices.Contains(clockKinds, f.Kind):
			g.clocks[f.Writer] = max(g.clocks[f.Writer], f.Off.Abs())
			g.add("clock "+f.Writer, g.nameOf(f), f)
		case f.Kind == "clobber" || f.Kind == "ghost":
			g.add("protocol", "the old protocol", f)
		default:
			g.add(strings.Join([]string{f.Kind, f.Key, f.Writer}, " "), g.nameOf(f), f)
		}
	}
	for _, f := range later {
		if c := g.explains(f); c != nil {
			c.explains = append(c.explains, f)
		} else {
			g.add("unknown", "cause not seen", f)
		}
	}
	slices.SortStableFunc(g.order, func(a, b *cause) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(len(b.explains), len(a.explains)))
	})
	return g.order
}

// rank orders causes by their worst finding.
func (c *cause) rank() int {
	rank := len(severities)
	for _, f := range slices.Concat(c.own, c.explains) {
		rank = min(rank, slices.Index(severities, f.Severity))
	}
	return rank
}

var severities = []census.Severity{census.SeverityError, census.SeverityWarning, census.SeverityNote}

func (g *grouping) add(id, culprit string, f census.Finding) {
	c := g.by[id]
	if c == nil {
		c = &cause{culprit: culprit}
		g.by[id] = c
		g.order = append(g.order, c)
	}
	c.own = append(c.own, f)
}

// explains returns the likely cause of a symptom, and nil if none was seen: two
// dialects on its key, else the clock on its key that is off furthest, else
// another client on its key whose jobs outlive the lease.
func (g *grouping) explains(f census.Finding) *cause {
	keys := []string{f.Key}
	if w := g.writer(f.Writer); w != nil {
		keys = append(keys, w.Keys...)
	}
	for _, key := range keys {
		if c := g.by[strings.Join([]string{"mixture", key, ""}, " ")]; c != nil && key != "" {
			return c
		}
	}
	var clock, jobs *cause
	furthest := time.Duration(-1)
	for i := range g.evidence.Writers {
		w := &g.evidence.Writers[i]
		shares := slices.ContainsFunc(w.Keys, func(key string) bool { return slices.Contains(keys, key) })
		if !shares {
			continue
		}
		if off, wrong := g.clocks[w.Addr]; wrong && off > furthest {
			clock, furthest = g.by["clock "+w.Addr], off
		}
		if c := g.by["jobs "+w.Addr]; c != nil && jobs == nil {
			jobs = c
		}
	}
	if clock == nil {
		return jobs
	}
	return clock
}

// outlives reports whether a writer's own jobs are longer than its lease.
func outlives(w *census.Writer) bool {
	return w.Lease.Known() && w.Holds.Longest > w.Lease.Value
}

func (g *grouping) writer(addr string) *census.Writer {
	for i := range g.evidence.Writers {
		if w := &g.evidence.Writers[i]; w.Addr == addr && addr != "" {
			return w
		}
	}
	return nil
}

// nameOf returns the name of what a finding is about.
func (g *grouping) nameOf(f census.Finding) string {
	w := g.writer(f.Writer)
	switch {
	case w != nil:
		return shortName(w)
	case f.Writer != "":
		return f.Writer
	case f.Key != "":
		return out.Shortened(out.Escaped(f.Key), 60)
	case strings.HasPrefix(f.Kind, "server"):
		return "the server"
	}
	return strings.ReplaceAll(f.Kind, "_", " ")
}

func shortName(w *census.Writer) string {
	if w.Name == "" {
		return w.Addr
	}
	return out.Shortened(out.OneLine(out.Escaped(w.Name)), 40) + " (" + w.Addr + ")"
}

// words says how many findings a cause explains, and on which keys.
func (c *cause) words(e *census.Evidence) string {
	return "it likely explains " + out.Count(len(c.explains), "finding") + keysWords(e, c.explains)
}

// keysWords names the keys of findings, if they are few.
func keysWords(e *census.Evidence, all []census.Finding) string {
	var keys []string
	for _, f := range all {
		if f.Key != "" {
			keys = append(keys, out.Shortened(out.Escaped(f.Key), 60))
		}
		for _, w := range e.Writers {
			if w.Addr == f.Writer && w.Addr != "" && len(w.Keys) == 1 {
				keys = append(keys, out.Shortened(out.Escaped(w.Keys[0]), 60))
			}
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) == 0 || len(keys) > 3 {
		return ""
	}
	return " on " + strings.Join(keys, ", ")
}
