// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/probe"

	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
)

// AuditDocument is the answer of audit as --json prints it. Unknown values are
// null.
type AuditDocument struct {
	Schema string    `json:"schema"`
	From   time.Time `json:"from"`  // beginning of the watch, by the server's clock
	Until  time.Time `json:"until"` // end of the watch
	// number of keys that the probe read; null: it read none
	Keys     *int64               `json:"keys"`
	Dialects []string             `json:"dialects"` // names of those seen
	Prefixes []probe.PrefixResult `json:"prefixes"`
	Sources  []census.Coverage    `json:"sources"`
	Writers  []census.Writer      `json:"writers"`
	Counts   census.Counts        `json:"counts"`
	Waits    census.Durations     `json:"waits"` // of all writers together
	auditBounds
	Cost     *auditCost       `json:"cost"`     // null in a replay
	Findings []census.Finding `json:"findings"` // the worst first
}

// auditBounds says what was seen of clocks, leases and jobs.
type auditBounds struct {
	Spread census.Spread `json:"spread"`
	// claim: how far the slowest old client's clock is at most behind the
	// server's; null without a claim, and where what was seen refutes it
	Behind census.Span `json:"behind_ms"`
	// claim: how far the fastest one's is ahead of it, likewise
	Ahead         census.Span `json:"ahead_ms"`
	Server        auditServer `json:"server_clock"`
	SmallestLease census.Span `json:"smallest_lease_ms"` // of all writers
	GreatestLease census.Span `json:"greatest_lease_ms"` // of all writers
	// from a clock reading to the write that carries it
	LongestGap census.Span `json:"longest_gap_ms"`
	// the longest job that keeps this fleet's locks safe
	LongestSafeJob census.Span `json:"longest_safe_job_ms"`
	LongestHold    census.Span `json:"longest_hold_ms"` // for which a client held a key
	// how each of the seven above was found: given, inferred, measured, claimed
	// or default
	Bases map[string]census.Basis `json:"bases" answer:"null"`
}

// auditServer has the evidence for behind_ms and ahead_ms.
type auditServer struct {
	Behind census.Bound `json:"behind"`               // what was seen of the slowest clock
	Ahead  census.Bound `json:"ahead"`                // what was seen of the fastest clock
	Writes int64        `json:"writes"`               // number of writes that they rest on
	Run    string       `json:"run_id" answer:"null"` // run id of the server; null: it names none
}

type auditCost struct {
	Probed int64         `json:"keys_probed"`            // number of keys that the probe read
	Probe  time.Duration `json:"probe_ms" answer:"null"` // time that it took
	audit.Cost
}

func (a *auditAnswer) document() AuditDocument {
	e := &a.result.Evidence
	doc := AuditDocument{
		Schema: "getsetlock.audit/1", From: e.From, Until: e.Until, Dialects: a.dialects(),
		Sources: e.Coverage, Writers: e.Writers, Counts: e.Counts, Waits: e.Waits, auditBounds: boundsOf(e),
		Findings: a.all,
	}
	if !a.replayed && (a.probe != nil || a.result.Cost.Elapsed > 0) { // a replay costs no server anything
		doc.Cost = &auditCost{Cost: a.result.Cost}
	}
	if a.probe == nil {
		return doc
	}
	doc.Keys, doc.Prefixes = &a.probe.Keys, a.probe.Prefixes
	if doc.Cost != nil {
		doc.Cost.Probed, doc.Cost.Probe = a.probe.Keys, a.probe.Cost.Work
	}
	return doc
}

func boundsOf(e *census.Evidence) auditBounds {
	return auditBounds{
		Spread: e.Spread, Behind: e.Behind.Span, Ahead: e.Ahead.Span,
		Server:        auditServer{e.Behind, e.Ahead, e.Behind.Writes, e.Run},
		SmallestLease: e.SmallestLease, GreatestLease: e.GreatestLease, LongestGap: e.LongestGap,
		LongestSafeJob: e.LongestSafeJob, LongestHold: e.LongestHold,
		Bases: map[string]census.Basis{
			"behind": e.Behind.Span.Basis, "ahead": e.Ahead.Span.Basis,
			"smallest_lease": e.SmallestLease.Basis, "greatest_lease": e.GreatestLease.Basis,
			"longest_gap": e.LongestGap.Basis, "longest_safe_job": e.LongestSafeJob.Basis,
			"longest_hold": e.LongestHold.Basis,
		},
	}
}

// dialects returns the dialects that the census saw, and the likeliest dialect
// of each form that carries a time.
func (a *auditAnswer) dialects() []string {
	doc := append([]string{}, a.result.Evidence.Dialects...)
	if a.probe != nil {
		for _, p := range a.probe.Prefixes {
			for _, f := range p.Forms {
				seen := slices.ContainsFunc(f.Dialects,
					func(name string) bool { return slices.Contains(doc, name) })
				if f.Unit != "none" && f.Unit != "" && len(f.Dialects) > 0 && !seen {
					doc = append(doc, f.Dialects[0])
				}
			}
		}
	}
	slices.Sort(doc)
	return slices.Compact(doc)
}
