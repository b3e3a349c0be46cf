package auditverb

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// AuditDocument is the answer of audit as --json prints it. Unknown values are
// null.
type AuditDocument struct {
	Schema         string             `json:"schema"`
	From           *string            `json:"from"`
	Until          *string            `json:"until"`
	Keys           *int64             `json:"keys"` // number of keys that the probe read
	Dialects       []string           `json:"dialects"`
	Prefixes       []auditPrefix      `json:"prefixes"`
	Sources        []auditSource      `json:"sources"`
	Writers        []auditWriter      `json:"writers"`
	Counts         census.Counts      `json:"counts"`
	Waits          auditWaits         `json:"waits"`
	Spread         auditSpread        `json:"spread"`
	Behind         *json.Number       `json:"behind_ms"`
	Ahead          *json.Number       `json:"ahead_ms"`
	Server         auditServer        `json:"server_clock"`
	SmallestLease  *json.Number       `json:"smallest_lease_ms"`
	GreatestLease  *json.Number       `json:"greatest_lease_ms"`
	LongestGap     *json.Number       `json:"longest_gap_ms"`
	LongestSafeJob *json.Number       `json:"longest_safe_job_ms"`
	LongestHold    *json.Number       `json:"longest_hold_ms"`
	Bases          map[string]*string `json:"bases"` // of the seven above: given, inferred, measured, …
	Cost           *auditCost         `json:"cost"`
	Findings       []auditFinding     `json:"findings"`
}

type auditPrefix struct {
	Prefix string           `json:"prefix"`
	Keys   int64            `json:"keys"`
	Forms  []auditForm      `json:"forms"`
	Types  map[string]int64 `json:"types"`
}

type auditForm struct {
	Form     string   `json:"form"`
	Look     string   `json:"look"`
	Unit     *string  `json:"unit"`
	Encoding string   `json:"encoding"`
	Dialects []string `json:"dialects"`
	Also     []string `json:"also"` // other forms that the same values could have
	Keys     int64    `json:"keys"`
	NoTTL    int64    `json:"no_ttl"`
	Expired  int64    `json:"expired"`
	Far      int64    `json:"far"`
	Examples []string `json:"examples"`
}

type auditSource struct {
	Source  string      `json:"source"`
	From    *string     `json:"from"`
	Until   *string     `json:"until"`
	Events  int64       `json:"events"`
	Missing *string     `json:"missing"`
	Holes   []auditHole `json:"holes"`
}

type auditHole struct {
	From   *string `json:"from"`
	Until  *string `json:"until"`
	Reason string  `json:"reason"`
	Detail *string `json:"detail"`
}

type auditWriter struct {
	Addr     *string        `json:"addr"` // null: an unknown client, seen by polls
	Name     *string        `json:"name"`
	Library  *string        `json:"library"`
	Dialect  *string        `json:"dialect"`
	Also     []string       `json:"also"`
	Lease    *json.Number   `json:"lease_ms"`
	Offset   auditOffset    `json:"offset"`      // interval from single writes
	Steps    []auditStep    `json:"clock_steps"` // latest steps of the clock, an alarm
	Shared   *string        `json:"shared"`      // why clients share the address; null: one client
	Holds    auditHolds     `json:"holds"`
	Waits    auditWaits     `json:"waits"`
	Counts   census.Counts  `json:"counts"`
	Keys     []string       `json:"keys"`
	LastSeen *string        `json:"last_seen"`
	Findings []auditFinding `json:"findings"`
}

// auditOffset is the offset of a clock as single writes show it, whatever the
// clock does between them.
type auditOffset struct {
	Low     *json.Number `json:"low_ms"`
	High    *json.Number `json:"high_ms"` // null without --gap
	Writes  int64        `json:"writes"`
	Guessed bool         `json:"lease_guessed"`
}

// auditStep is a step of a writer's clock: between two writes, at least so far,
// forwards if positive.
type auditStep struct {
	From  *string     `json:"from"`
	Until *string     `json:"until"`
	By    json.Number `json:"by_ms"`
}

type auditHolds struct {
	Count   int64        `json:"count"`
	Longest *json.Number `json:"longest_ms"`
}

type auditWaits struct {
	Count   int64        `json:"count"`
	P50     *json.Number `json:"p50_ms"`
	P99     *json.Number `json:"p99_ms"`
	Longest *json.Number `json:"longest_ms"`
}

type auditSpread struct {
	Proved     *json.Number `json:"proved_ms"`
	Guaranteed *json.Number `json:"guaranteed_ms"`
}

// auditServer has the evidence for behind_ms and ahead_ms.
type auditServer struct {
	Behind auditOff `json:"behind"`
	Ahead  auditOff `json:"ahead"`
	Writes int64    `json:"writes"`
	Run    *string  `json:"run_id"`
}

type auditOff struct {
	AtLeast *json.Number `json:"at_least_ms"`
}

type auditCost struct {
	Probed     int64        `json:"keys_probed"`
	ProbeMS    *json.Number `json:"probe_ms"`
	Looks      int64        `json:"looks"`
	ServerTime *json.Number `json:"server_time_ms"`
	Share      *json.Number `json:"share"` // share of one core of the server
	Bursts     int          `json:"monitor_bursts"`
	Monitor    *json.Number `json:"monitor_ms"`
	Lines      int64        `json:"monitor_lines"`
	PingOff    *json.Number `json:"ping_off_ms"`
	PingOn     *json.Number `json:"ping_on_ms"`
	OpsOff     *json.Number `json:"ops_off"`
	OpsOn      *json.Number `json:"ops_on"`
}

type auditFinding struct {
	Severity string  `json:"severity"`
	Kind     string  `json:"kind"`
	Key      *string `json:"key"`
	Writer   *string `json:"writer"`
	What     string  `json:"what"`
	Advice   string  `json:"advice"`
}

func (a *auditAnswer) document() AuditDocument {
	e := &a.result.Evidence
	doc := AuditDocument{
		Schema: "getsetlock.audit/1", From: out.Instant(e.From), Until: out.Instant(e.Until),
		Dialects: a.dialects(),
		Prefixes: []auditPrefix{}, Sources: []auditSource{}, Writers: []auditWriter{}, Counts: e.Counts,
		Waits:  waitsFound(e.Waits),
		Behind: spanMillis(e.Behind.Span), Ahead: spanMillis(e.Ahead.Span), Server: serverFound(e),
		SmallestLease: spanMillis(e.SmallestLease), GreatestLease: spanMillis(e.GreatestLease),
		LongestGap:     spanMillis(e.LongestGap),
		LongestSafeJob: spanMillis(e.LongestSafeJob), LongestHold: spanMillis(e.LongestHold),
		Bases: map[string]*string{
			"behind": basisOf(e.Behind.Span), "ahead": basisOf(e.Ahead.Span),
			"smallest_lease": basisOf(e.SmallestLease), "greatest_lease": basisOf(e.GreatestLease),
			"longest_gap":      basisOf(e.LongestGap),
			"longest_safe_job": basisOf(e.LongestSafeJob), "longest_hold": basisOf(e.LongestHold),
		},
		Spread: a.spreadFound(), Cost: a.cost(), Findings: findingsFound(a.all),
	}
	if a.probe != nil {
		doc.Keys = &a.probe.Keys
		for _, p := range a.probe.Prefixes {
			doc.Prefixes = append(doc.Prefixes, prefixFound(p))
		}
	}
	for _, c := range e.Coverage {
		doc.Sources = append(doc.Sources, sourceFound(c))
	}
	for _, w := range e.Writers {
		doc.Writers = append(doc.Writers, writerFound(w))
	}
	return doc
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

func prefixFound(p audit.PrefixResult) auditPrefix {
	doc := auditPrefix{Prefix: out.Escaped(p.Prefix), Keys: p.Keys, Forms: []auditForm{}, Types: p.Types}
	for _, f := range p.Forms {
		form := auditForm{
			Form: f.Form.String(), Look: string(f.Look), Encoding: string(f.Encoding),
			Dialects: append([]string{}, f.Dialects...), Also: []string{},
			Keys: f.Keys, NoTTL: f.NoTTL, Expired: f.Expired, Far: f.Far, Examples: []string{},
		}
		if f.Unit != "none" && f.Unit != "" {
			form.Unit = new(string(f.Unit))
		}
		for _, other := range f.Also {
			form.Also = append(form.Also, other.String())
		}
		for _, key := range f.Examples {
			form.Examples = append(form.Examples, out.Escaped(key))
		}
		doc.Forms = append(doc.Forms, form)
	}
	return doc
}

func sourceFound(c census.Coverage) auditSource {
	doc := auditSource{
		Source: string(c.Source), From: out.Instant(c.From), Until: out.Instant(c.Until), Events: c.Events,
		Missing: orNull(c.Missing), Holes: []auditHole{},
	}
	for _, h := range c.Holes {
		doc.Holes = append(doc.Holes,
			auditHole{out.Instant(h.From), out.Instant(h.Until), string(h.Reason), orNull(h.Detail)})
	}
	return doc
}

func writerFound(w census.Writer) auditWriter {
	doc := auditWriter{
		Addr: orNull(w.Addr), Name: orNull(out.Escaped(w.Name)), Library: orNull(out.Escaped(w.Library)),
		Dialect: orNull(w.Dialect), Also: append([]string{}, w.Also...),
		Lease: spanMillis(w.Lease), Offset: offsetFound(w.Offset), Steps: []auditStep{},
		Shared: orNull(w.Offset.Shared),
		Holds:  auditHolds{Count: w.Holds.Count}, Waits: waitsFound(w.Waits), Counts: w.Counts,
		Keys:     []string{},
		LastSeen: out.Instant(w.Last), Findings: findingsFound(w.Findings),
	}
	if w.Holds.Count > 0 {
		doc.Holds.Longest = new(out.Millis(w.Holds.Longest))
	}
	for _, s := range w.Steps {
		doc.Steps = append(doc.Steps, auditStep{out.Instant(s.From), out.Instant(s.Until), out.Millis(s.By)})
	}
	for _, key := range w.Keys {
		doc.Keys = append(doc.Keys, out.Escaped(key))
	}
	return doc
}

func waitsFound(d census.Durations) auditWaits {
	doc := auditWaits{Count: d.Count}
	if d.Count > 0 {
		doc.P50, doc.P99, doc.Longest = new(out.Millis(d.P50)), new(out.Millis(d.P99)),
			new(out.Millis(d.Longest))
	}
	return doc
}

func offsetFound(o census.Offset) auditOffset {
	doc := auditOffset{Writes: o.Writes, Guessed: o.LeaseGuessed}
	doc.Low, doc.High = ends(o.Interval)
	return doc
}

// ends returns the ends of an interval, and nil for an open end.
func ends(i offset.Interval) (low, high *json.Number) {
	if i.Low != offset.NoLow {
		low = new(out.Millis(i.Low))
	}
	if i.High != offset.NoHigh {
		high = new(out.Millis(i.High))
	}
	return low, high
}

func (a *auditAnswer) spreadFound() auditSpread {
	e := &a.result.Evidence
	var doc auditSpread
	if e.Spread.Sound() || e.Spread.Proved > 0 {
		doc.Proved = new(out.Millis(e.Spread.Proved))
	}
	if e.Spread.Sound() {
		doc.Guaranteed = new(out.Millis(e.Spread.Guaranteed))
	}
	return doc
}

// serverFound returns what was seen of the old clients' clocks against the
// server's. It leaves out a bound that depends on a guessed lease.
func serverFound(e *census.Evidence) auditServer {
	off := func(b census.Bound) (doc auditOff) {
		if b.AtLeast != offset.NoLow && !b.Guessed && b.Unless == "" {
			doc.AtLeast = new(out.Millis(b.AtLeast))
		}
		return doc
	}
	return auditServer{Behind: off(e.Behind), Ahead: off(e.Ahead), Writes: e.Behind.Writes,
		Run: orNull(e.Run)}
}

// offsets returns the number of writers whose clock offset is known.
func offsets(e *census.Evidence) int {
	n := 0
	for _, w := range e.Writers {
		if w.Offset.Writes > 0 {
			n++
		}
	}
	return n
}

func (a *auditAnswer) cost() *auditCost {
	c := a.result.Cost
	if a.replayed || a.probe == nil && c.Elapsed == 0 {
		return nil // a replay costs no server anything
	}
	doc := &auditCost{Looks: c.Looks}
	if a.probe != nil {
		doc.Probed, doc.ProbeMS = a.probe.Keys, new(out.Millis(a.probe.Cost.Work))
	}
	if c.HasShare {
		doc.ServerTime, doc.Share = new(out.Millis(c.ServerTime)), decimals(c.Share)
	}
	if m := c.Monitor; m != nil {
		doc.Bursts, doc.Monitor, doc.Lines = m.Bursts, new(out.Millis(m.Time)), m.Lines
		if m.PingOff > 0 {
			doc.PingOff = new(out.Millis(m.PingOff))
		}
		if m.PingOn > 0 {
			doc.PingOn = new(out.Millis(m.PingOn))
		}
		if m.OpsOff > 0 {
			doc.OpsOff = decimals(m.OpsOff)
		}
		if m.OpsOn > 0 {
			doc.OpsOn = decimals(m.OpsOn)
		}
	}
	return doc
}

func findingsFound(all []census.Finding) []auditFinding {
	doc := []auditFinding{}
	for _, f := range all {
		doc = append(doc, auditFinding{
			string(f.Severity), f.Kind, orNull(out.Escaped(f.Key)), orNull(f.Writer), f.What, f.Advice})
	}
	return doc
}

func spanMillis(s census.Span) *json.Number {
	if !s.Known() || s.Value >= offset.NoHigh/2 {
		return nil
	}
	return new(out.Millis(s.Value))
}

func basisOf(s census.Span) *string { return orNull(string(s.Basis)) }

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// decimals returns a number with at most four decimals.
func decimals(v float64) *json.Number {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return new(json.Number(strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64)))
}

// between returns a period of the server's clock in words.
func between(from, until time.Time) string {
	return from.UTC().Format("2006-01-02 15:04:05") + " to " + until.UTC().Format("15:04:05") + " UTC"
}
