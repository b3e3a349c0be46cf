// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// answer returns the answer for people: what was watched, the causes,
// then drawings and tables.
func (a *auditAnswer) answer() report.Page {
	p := report.Page{
		Title: "audit of " + a.where, Made: a.made, Verdict: a.verdict(), Bad: bad(a.all),
		Foot: "Made by: " + a.how,
	}
	if a.probe != nil {
		p.Words = append(p.Words, out.Count(a.probe.Keys, "key")+" looked at")
	}
	if e := &a.result.Evidence; !e.From.IsZero() {
		p.Words = append(p.Words, "watched "+between(e.From, e.Until)+", by the server's clock")
	}
	for _, c := range a.causes() {
		p.Causes = append(p.Causes, a.cardOf(c))
	}
	for _, s := range []*report.Section{a.findingsSection(), a.clientsSection(), a.timelineSection(),
		a.formsSection(), a.sumsSection()} {
		if s != nil {
			p.Sections = append(p.Sections, *s)
		}
	}
	return p
}

// verdict returns the answer in a sentence.
func (a *auditAnswer) verdict() string {
	causes := 0
	for _, c := range a.causes() {
		if bad(c.own) || bad(c.explains) {
			causes++
		}
	}
	held := ""
	switch n := a.result.Evidence.Counts.Overlaps; {
	case a.sawNothing() && causes == 0:
		return "UNKNOWN: there was nothing to see."
	case n == 1:
		held = "two clients held a lock at once; "
	case n > 1:
		held = fmt.Sprintf("%d times two clients held a lock at once; ", n)
	}
	return verdictOf(a.all, held, ", from "+out.Count(causes, "cause"))
}

// verdictOf returns what findings amount to. held is why it is broken, and from
// what is wrong.
func verdictOf(all []census.Finding, held, from string) string {
	count := map[census.Severity]int{}
	for _, f := range all {
		count[f.Severity]++
	}
	wrong, doubtful := count[census.SeverityError], out.Count(count[census.SeverityWarning], "warning")
	switch {
	case wrong > 0:
		return "BROKEN: " + held + out.Count(wrong, "error") + ", " + doubtful + from + "."
	case count[census.SeverityWarning] > 0:
		return "NOT OK: " + doubtful + from + "."
	}
	return "OK: nothing wrong was found."
}

// cardOf returns a cause with the findings that it explains, a line for each
// kind.
func (a *auditAnswer) cardOf(c *cause) report.Cause {
	card := report.Cause{Level: level(c.own[0]), Culprit: c.culprit, Bad: bad(c.own) || bad(c.explains)}
	for _, f := range c.own {
		card.Says = append(card.Says, sentenceOf(f, c.culprit))
		if f.Advice != "" && !slices.Contains(card.Do, f.Advice) {
			card.Do = append(card.Do, f.Advice)
		}
	}
	if len(c.explains) > 0 {
		card.Explains = c.words(&a.result.Evidence) + ":"
	}
	var kinds []string
	of := map[string][]string{}
	for _, f := range c.explains {
		if !slices.Contains(kinds, f.Kind) {
			kinds = append(kinds, f.Kind)
		}
		who := a.rowOf(f)
		if n := a.countIn(f); n != "yes" {
			who += " " + n + "×"
		}
		of[f.Kind] = append(of[f.Kind], who)
	}
	for _, kind := range kinds {
		who := of[kind]
		if more := len(who) - mostExplained; more > 0 {
			who = append(who[:mostExplained], fmt.Sprintf("and %d more", more))
		}
		card.Findings = append(card.Findings, kindName(kind)+": "+strings.Join(who, ", "))
	}
	return card
}

// mostExplained is the number of clients of one kind of finding below a cause.
// The table has more.
const mostExplained = 12

func level(f census.Finding) string { return strings.ToUpper(string(f.Severity)) }

// sentenceOf returns a finding below the name of its culprit, which is not said
// again.
func sentenceOf(f census.Finding, culprit string) string {
	text := out.OneLine(f.What)
	before, after, cut := strings.Cut(text, ": ")
	if cut && f.Writer != "" && strings.HasPrefix(before, f.Writer) && strings.Contains(culprit, f.Writer) {
		text = after
	}
	if f.Key != "" && out.Escaped(f.Key) != culprit {
		text = aboutKey(f) + text
	}
	return text
}

// findingsSection lists which client or key has which finding, in the order of
// the causes.
func (a *auditAnswer) findingsSection() *report.Section {
	t := report.Table{Text: 5,
		Columns: []string{"client or key", "finding", "number", "what", "likely cause"}}
	for _, c := range a.causes() {
		for _, f := range slices.Concat(c.own, c.explains) {
			if f.Writer == "" && f.Key == "" || len(t.Rows) == mostFindings {
				continue
			}
			if f.Severity == census.SeverityError {
				t.Bad = append(t.Bad, len(t.Rows))
			}
			t.Rows = append(t.Rows, []string{a.rowOf(f), kindName(f.Kind), a.countIn(f),
				aboutKey(f) + out.OneLine(f.What), c.culprit})
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return &report.Section{Title: "Who has which finding", Table: t, Long: true,
		Legend: "The cause likely explains the finding. A number says how often it happened, or how far a clock is off. “Two at once”: the client was still at work after another one had won. “Wrong release”: it deleted the lock of another client, or after its own stamp was past. Red is an error: it is proved to break exclusion, or has broken it."}
}

// mostFindings bounds the table of findings. --json lists all.
const mostFindings = 500

// kindName returns a kind of finding in a few words, for headings.
func kindName(kind string) string {
	return cmp.Or(kindWords[kind], strings.ReplaceAll(kind, "_", " "))
}

var kindWords = map[string]string{
	"overlap": "two at once", "overrun": "wrong release", "clock_off": "clock off", "step": "clock stepped",
	"shared_address": "shared address", "mixture": "two dialects", "job_too_long": "job too long",
	"clobber": "overwrote a stamp", "ghost": "left a dead lock", "getset_first": "GETSET without SETNX",
}

// rowOf names what has a finding.
func (a *auditAnswer) rowOf(f census.Finding) string {
	for _, w := range a.result.Evidence.Writers {
		if w.Addr == f.Writer && w.Name != "" && w.Addr != "" {
			return out.Shortened(out.OneLine(out.Escaped(w.Name)), 40)
		}
	}
	return cmp.Or(f.Writer, out.Shortened(out.Escaped(f.Key), 40))
}

// countIn returns the number in a finding: how often, or how far off.
func (a *auditAnswer) countIn(f census.Finding) string {
	if f.Off != 0 {
		return signed(f.Off, f.Off, 0)
	}
	for _, w := range a.result.Evidence.Writers {
		n, counted := map[string]int64{
			"overlap": w.Counts.Overlaps, "overrun": w.Counts.Overruns, "clobber": w.Counts.Clobbers,
			"ghost": w.Counts.Ghosts, "double_grant": w.Counts.DoubleGrants,
			"getset_first": w.Counts.GetsetFirst, "foreign_expire": w.Counts.ForeignExpires,
		}[f.Kind]
		if w.Addr == f.Writer && counted {
			return strconv.FormatInt(n, 10)
		}
	}
	return "yes"
}

// clientsSection shows what each client did, and a bar for its clock.
func (a *auditAnswer) clientsSection() *report.Section {
	writers := a.result.Evidence.Writers
	if len(writers) == 0 {
		return nil
	}
	figure := &report.Ranges{Name: "Offset of each client's clock from the server's, as an interval",
		X: "clock offset to the server, ms"}
	s := &report.Section{Title: "Clients and their clocks", Table: report.Table{Columns: []string{"writer",
		"name", "library", "dialect", "clock offset, seen", "acquired", "takeovers", "longest hold",
		"99 % of waits", "longest wait", "findings"}, Text: 5}}
	for n, w := range writers {
		s.Table.Rows = append(s.Table.Rows, []string{cmp.Or(w.Addr, unnamed), out.Dashed(out.Escaped(w.Name)),
			out.Dashed(out.Escaped(w.Library)), firstOf(w.Dialect, len(w.Also)), offsetWords(w.Offset),
			fmt.Sprint(w.Counts.Acquisitions), fmt.Sprint(w.Counts.Takeovers),
			unlessNone(w.Holds.Count, w.Holds.Longest), unlessNone(w.Waits.Count, w.Waits.P99),
			unlessNone(w.Waits.Count, w.Waits.Longest), fmt.Sprint(len(w.Findings))})
		if wrongClock(w) {
			s.Table.Bad = append(s.Table.Bad, n)
		}
		if w.Offset.Writes > 0 {
			figure.Rows = append(figure.Rows, rangeOf(w))
		}
	}
	if n := len(figure.Rows); n > reportRows {
		slices.SortStableFunc(figure.Rows, func(a, b report.Range) int {
			switch {
			case a.Alarm == b.Alarm:
				return 0
			case a.Alarm:
				return -1
			}
			return 1
		})
		figure.Rows = figure.Rows[:reportRows]
		s.Words = fmt.Sprintf("The drawing has %d of %d clients, wrong clocks first; the table has all.",
			reportRows, n)
	}
	if len(figure.Rows) > 0 {
		s.Figure = figure
		s.Legend = "At each write, the client's clock lay within its bar, whatever it did between two writes. That assumes that the leases are right and that no attempt takes longer than --gap. " +
			"A red bar marks a clock that is off by a second or more, or that stepped. " +
			"A pale bar is open at one end: without --gap there is no upper bound."
	}
	return s
}

// rangeOf returns the bar of a client's clock.
func rangeOf(w census.Writer) report.Range {
	r := report.Range{Name: writerName(w), OpenLow: w.Offset.Low == offset.NoLow,
		OpenHigh: w.Offset.High == offset.NoHigh, Alarm: wrongClock(w),
		Says: intervalWords(w.Offset.Interval)}
	if !r.OpenLow {
		r.Low = inMillis(w.Offset.Low)
	}
	if !r.OpenHigh {
		r.High = inMillis(w.Offset.High)
	}
	if !r.OpenLow && !r.OpenHigh && r.Low > r.High {
		r.Low, r.High = r.High, r.Low // a contradiction; the table shows the true ends
	}
	return r
}

// wrongClock reports whether the clock of a writer has a finding above a note.
func wrongClock(w census.Writer) bool {
	return slices.ContainsFunc(w.Findings, func(f census.Finding) bool {
		return slices.Contains(clockKinds, f.Kind) && f.Severity != census.SeverityNote
	})
}

// reportRows is the number of bars of a drawing. The table below has all rows.
const reportRows = 40

func writerName(w census.Writer) string {
	if w.Name != "" {
		return out.OneLine(out.Escaped(w.Name)) + " " + w.Addr
	}
	return cmp.Or(w.Addr, unnamed)
}

func inMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// timelineSection shows the key with the most mishaps, around the first mishap.
func (a *auditAnswer) timelineSection() *report.Section {
	key, from, until := a.busiest()
	if key == nil {
		return nil
	}
	begin, end := key.Timeline[from].At, key.Timeline[until-1].At
	span := max(end.Sub(begin), time.Millisecond)
	begin, end = begin.Add(-span/20), end.Add(span/20)
	seconds := func(t time.Time) float64 { return min(max(t.Sub(begin), 0), end.Sub(begin)).Seconds() }
	t := &report.Timeline{Name: "Timeline of " + out.Escaped(key.Key), X: "time, s"}
	rows := map[string]int{}
	rowOf := func(addr, name string) int {
		if n, known := rows[addr]; known {
			return n
		}
		rows[addr] = len(t.Rows)
		t.Rows = append(t.Rows, report.Row{Name: rowName(name, len(t.Rows))})
		return rows[addr]
	}
	table := report.Table{Columns: []string{"number", "at", "row", "writer", "what", "detail"}, Text: 6}
	for n, act := range key.Timeline[from:until] {
		row := rowOf(act.Addr, act.Name)
		at := act.At.UTC().Format("15:04:05.000000")
		t.Marks = append(t.Marks, report.Mark{
			Row: row, At: seconds(act.At), Number: n + 1,
			Says: fmt.Sprintf("%d. %s %s %s", n+1, cmp.Or(act.Addr, unnamed), act.What, act.Detail)})
		table.Rows = append(table.Rows,
			[]string{strconv.Itoa(n + 1), at, t.Rows[row].Name, cmp.Or(act.Addr, unnamed),
				strings.ReplaceAll(string(act.What), "_", " "), out.OneLine(act.Detail)})
	}
	for _, h := range a.result.Evidence.Holds {
		row, known := rows[h.Addr]
		if over := h.At.Add(h.For); known && h.Key == key.Key && h.DB == key.DB && h.At.Before(end) &&
			over.After(begin) {
			t.Rows[row].Holds = append(t.Rows[row].Holds, report.Span{From: seconds(h.At), To: seconds(over)})
		}
	}
	return &report.Section{
		Title: "One key: " + out.Escaped(key.Key), Figure: t, Table: table, Long: true,
		Legend: "The key with the most mishaps, around the first mishap on record. Bars are holds; time with two holders at once is shaded. Failed attempts are left out.",
	}
}

// timelineActs is how many acts of a key a drawing can show legibly.
const timelineActs = 30

// busiest returns the key and the range of acts to draw, and nil where nothing
// happened that needs a drawing.
func (a *auditAnswer) busiest() (key *census.KeyEvidence, from, until int) {
	most := int64(0)
	for i := range a.result.Evidence.Keys {
		k := &a.result.Evidence.Keys[i]
		c := k.Counts
		weight := 100*(c.Overlaps+c.Overruns+c.DoubleGrants+c.GetsetFirst) +
			10*(c.Clobbers+c.Ghosts+c.ForeignExpires+c.Takeovers) + min(c.Acquisitions, 9)
		if len(k.Timeline) > 1 && weight > most {
			key, most = k, weight
		}
	}
	if key == nil {
		return nil, 0, 0
	}
	first := slices.IndexFunc(key.Timeline, func(act census.Act) bool {
		switch act.What {
		case census.ActTakeover, census.ActClobber, census.ActGhost, census.ActOverrun, census.ActDoubleGrant,
			census.ActGetsetFirst, census.ActForeignExpire:
			return true
		}
		return false
	})
	from = max(0, first-4)
	return key, from, min(len(key.Timeline), from+timelineActs)
}

// rowName returns a name short enough for the margin of a row.
func rowName(name string, n int) string {
	if name != "" && len(name) <= 8 && out.Escaped(name) == name {
		return name
	}
	return "c" + strconv.Itoa(n+1)
}

func (a *auditAnswer) formsSection() *report.Section {
	if a.probe == nil || len(a.probe.Prefixes) == 0 {
		return nil
	}
	table := report.Table{Columns: []string{
		"keys under", "form", "dialect", "keys", "no ttl", "expired", "far ahead"}, Text: 3}
	for _, p := range a.probe.Prefixes {
		under := cmp.Or(out.Escaped(p.Prefix), "(no prefix)")
		for _, f := range p.Forms {
			table.Rows = append(table.Rows, []string{under, f.Form.String(),
				firstOf(strings.Join(f.Dialects[:min(len(f.Dialects), 1)], ""), len(f.Dialects)-1),
				fmt.Sprint(f.Keys), fmt.Sprint(f.NoTTL), fmt.Sprint(f.Expired), fmt.Sprint(f.Far)})
		}
		for _, kind := range slices.Sorted(maps.Keys(p.Types)) {
			table.Rows = append(table.Rows,
				[]string{under, kind, "-", fmt.Sprint(p.Types[kind]), "-", "-", "-"})
		}
	}
	return &report.Section{Title: "Which values the keys hold", Table: table}
}

// sumsSection shows what the clocks, leases and jobs add up to, and what the
// audit itself cost the server.
func (a *auditAnswer) sumsSection() *report.Section {
	e := &a.result.Evidence
	t := report.Table{Columns: []string{"what", "value"}, Text: 2}
	add := func(what, value string) { t.Rows = append(t.Rows, []string{what, value}) }
	for _, c := range e.Coverage {
		says := fmt.Sprintf("%d events%s", c.Events, holesWords(c.Holes))
		if c.Missing != "" {
			says = "not used: " + out.OneLine(c.Missing)
		}
		add("source "+string(c.Source), says)
	}
	if len(e.Writers) > 0 {
		a.addClocks(add)
		c := e.Counts
		add("counts", fmt.Sprintf("%d acquisitions, %d takeovers, %d failed attempts, %d clobbers, %d ghosts, %d overruns, %d overlaps",
			c.Acquisitions, c.Takeovers, c.Failed, c.Clobbers, c.Ghosts, c.Overruns, c.Overlaps))
	}
	for _, line := range a.costLines() {
		add("cost", line)
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return &report.Section{Title: "Totals and cost", Table: t}
}

func (a *auditAnswer) addClocks(add func(what, value string)) {
	e := &a.result.Evidence
	lease := spanWords(e.SmallestLease)
	if e.GreatestLease.Known() && e.GreatestLease.Value != e.SmallestLease.Value {
		lease += ", longest " + spanWords(e.GreatestLease)
	}
	add("clock spread", a.spreadWords())
	add("clocks behind", serverWords(e.Behind, a.behind))
	add("clocks ahead", serverWords(e.Ahead, a.ahead))
	add("shortest lease", lease)
	add("longest gap", spanWords(e.LongestGap))
	add("longest hold", spanWords(e.LongestHold))
	add("longest safe job", spanWords(e.LongestSafeJob))
	add("waits", waitsWords(e))
	if seen := a.assumed(); seen != "" {
		add("seen", seen)
	}
	if slices.ContainsFunc(e.Writers, func(w census.Writer) bool { return w.Offset.LeaseGuessed }) {
		add("*", "depends on a guessed lease, so it is not guaranteed; give the lease by --lease")
	}
}
