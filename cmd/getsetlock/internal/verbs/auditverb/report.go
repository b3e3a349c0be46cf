package auditverb

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// page returns the answer as a page: the causes, the matrix of findings, then
// drawings and tables.
func (a *auditAnswer) page() report.Page {
	p := report.Page{
		Title: "getsetlock audit of " + a.where, Made: a.made, Verdict: a.verdict(), Bad: bad(a.all),
		Foot: "Made by: " + strings.Join(a.how, " "),
	}
	for _, c := range a.causes() {
		p.Causes = append(p.Causes, a.cardOf(c))
	}
	if e := &a.result.Evidence; !e.From.IsZero() {
		p.Words = append(p.Words, "Watched "+between(e.From, e.Until)+", by the server's clock.")
	}
	for _, s := range []*report.Section{
		a.matrixSection(), a.offsetsSection(), a.timelineSection(), a.holdsSection(), a.waitsSection(),
		a.formsSection()} {
		if s != nil {
			p.Sections = append(p.Sections, *s)
		}
	}
	p.Sections = append(p.Sections, a.sumsSection())
	return p
}

// verdict returns the answer in a sentence.
func (a *auditAnswer) verdict() string {
	count := map[census.Severity]int{}
	for _, f := range a.all {
		count[f.Severity]++
	}
	causes := 0
	for _, c := range a.causes() {
		if bad(c.own) || bad(c.explains) {
			causes++
		}
	}
	from := ", from " + countOf(causes, "cause") + "."
	switch {
	case count[census.SeverityError] > 0:
		text := "BROKEN: "
		switch n := a.result.Evidence.Counts.Overlaps; {
		case n == 1:
			text += "two clients held a lock at once; "
		case n > 1:
			text += fmt.Sprintf("%d times two clients held a lock at once; ", n)
		}
		return text + fmt.Sprintf("%s, %s", countOf(count[census.SeverityError], "error"),
			countOf(count[census.SeverityWarning], "warning")) + from
	case count[census.SeverityWarning] > 0:
		return fmt.Sprintf("NOT OK: %s", countOf(count[census.SeverityWarning], "warning")) + from
	}
	return "OK: nothing wrong was found."
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// cardOf returns a cause as the page shows it. Below it are the findings that
// it explains, a line for each kind.
func (a *auditAnswer) cardOf(c *cause) report.Cause {
	card := report.Cause{Culprit: c.culprit, Bad: bad(c.own) || bad(c.explains)}
	var says, do []string
	for _, f := range c.own {
		says = append(says, sentenceOf(f, c.culprit))
		if f.Advice != "" && !slices.Contains(do, f.Advice) {
			do = append(do, f.Advice)
		}
	}
	card.Says, card.Do = strings.Join(says[:min(len(says), mostSaid)], " "), strings.Join(do, "; ")
	if more := len(says) - mostSaid; more > 0 {
		card.Says += fmt.Sprintf(" And %d more, which the matrix shows.", more)
	}
	if len(c.explains) == 0 {
		return card
	}
	card.Explains = "I" + c.words(&a.result.Evidence)[1:] + ":"
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

// sentenceOf returns a finding as a sentence below the name of its culprit,
// which is not said again.
func sentenceOf(f census.Finding, culprit string) string {
	text := out.OneLine(f.What)
	if before, after, cut := strings.Cut(text, ": "); cut && f.Writer != "" &&
		strings.HasPrefix(before, f.Writer) {
		text = after
	}
	if f.Key != "" && out.Escaped(f.Key) != culprit {
		text = aboutKey(f) + text
	} else if first, rest := utf8.DecodeRuneInString(text); rest > 0 {
		text = string(unicode.ToUpper(first)) + text[rest:]
	}
	return text + "."
}

// mostSaid and mostExplained are the numbers of findings on a card. The matrix
// has more.
const (
	mostSaid      = 5
	mostExplained = 12
)

// matrixSection shows which client has which finding, grouped under the causes.
func (a *auditAnswer) matrixSection() *report.Section {
	m := &report.Matrix{Corner: "client or key"}
	var kinds []string
	all := a.causes()
	for _, c := range all {
		for _, f := range slices.Concat(c.own, c.explains) {
			if !slices.Contains(kinds, f.Kind) && (f.Writer != "" || f.Key != "") {
				kinds = append(kinds, f.Kind)
				m.Columns = append(m.Columns, kindName(f.Kind))
			}
		}
	}
	for n, c := range all {
		g := report.Group{Title: fmt.Sprintf("%d. %s", n+1, c.culprit)}
		if len(c.explains) > 0 {
			g.Title += ": " + c.words(&a.result.Evidence)
		}
		for _, f := range slices.Concat(c.own, c.explains) {
			if f.Writer == "" && f.Key == "" {
				continue
			}
			name := a.rowOf(f)
			at := slices.IndexFunc(g.Rows, func(r report.Entry) bool { return r.Name == name })
			if at < 0 {
				if len(g.Rows) == reportRows {
					break
				}
				at = len(g.Rows)
				g.Rows = append(g.Rows, report.Entry{Name: name, Cells: make([]report.Cell, len(kinds))})
			}
			g.Rows[at].Cells[slices.Index(kinds, f.Kind)] = report.Cell{Text: a.countIn(f),
				Says: aboutKey(f) + out.OneLine(f.What), Bad: f.Severity == census.SeverityError}
		}
		if len(g.Rows) > 0 {
			m.Groups = append(m.Groups, g)
		}
	}
	if len(m.Groups) == 0 {
		return nil
	}
	return &report.Section{Title: "Who has which finding", Matrix: m,
		Words: "A row for each client or key, below the cause that likely explains its findings. A number says how often it happened, or how far a clock is off. “Two at once”: the client was still at work after another one had won. “Wrong release”: it deleted the lock of another client, or after its own stamp was past. Red is an error: it is proved to break exclusion, or has broken it."}
}

// kindName returns a kind of finding in a few words, for headings.
func kindName(kind string) string {
	return cmp.Or(kindWords[kind], strings.ReplaceAll(kind, "_", " "))
}

var kindWords = map[string]string{
	"overlap": "two at once", "overrun": "wrong release", "clock_off": "clock off", "step": "clock stepped",
	"shared_address": "shared address", "mixture": "two dialects", "job_too_long": "job too long",
	"clobber": "overwrote a stamp", "ghost": "left a dead lock", "getset_first": "GETSET without SETNX",
}

// rowOf names the row of a finding in the matrix.
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
	if off := provedOff(f); off != 0 {
		return signed(off, off, 0)
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

// offsetsSection shows a bar for each client's clock.
func (a *auditAnswer) offsetsSection() *report.Section {
	figure := &report.Ranges{Name: "Offset of each client's clock from the server's, as an interval",
		X: "clock offset to the server, ms"}
	table := report.Table{Columns: []string{
		"writer", "name", "dialect", "at least, ms", "at most, ms", "writes"},
		Text: 3}
	for _, w := range a.result.Evidence.Writers {
		if w.Offset.Writes == 0 {
			continue
		}
		r := report.Range{Name: writerName(w), OpenLow: w.Offset.Low == offset.NoLow,
			OpenHigh: w.Offset.High == offset.NoHigh, Alarm: wrongClock(w)}
		low, high := "?", "?"
		if !r.OpenLow {
			r.Low, low = inMillis(w.Offset.Low), out.Millis(w.Offset.Low).String()
		}
		if !r.OpenHigh {
			r.High, high = inMillis(w.Offset.High), out.Millis(w.Offset.High).String()
		}
		if !r.OpenLow && !r.OpenHigh && r.Low > r.High {
			r.Low, r.High = r.High, r.Low // a contradiction; the table shows the true ends
		}
		r.Says = low + " … " + high + " ms"
		figure.Rows = append(figure.Rows, r)
		if r.Alarm {
			table.Bad = append(table.Bad, len(table.Rows))
		}
		table.Rows = append(table.Rows,
			[]string{nobody(w.Addr), out.Dashed(out.Escaped(w.Name)), w.Dialect, low, high,
				strconv.FormatInt(w.Offset.Writes, 10)})
	}
	if len(figure.Rows) == 0 {
		return nil
	}
	figure.Rows = figure.Rows[:min(len(figure.Rows), reportRows)]
	return &report.Section{
		Title: "Clocks", Figure: figure, Table: table,
		Words: "At each write, the client's clock lay within its bar, whatever it did between two writes. That assumes that the leases are right and that no attempt takes longer than --gap. " +
			"A red bar marks a clock that is off by a second or more, or that stepped. " +
			"A pale bar is open at one end: without --gap there is no upper bound. Clock spread: " +
			a.spreadWords() + ".",
	}
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
	return nobody(w.Addr)
}

func inMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// holdsSection compares the lengths of jobs with the leases.
func (a *auditAnswer) holdsSection() *report.Section {
	e := &a.result.Evidence
	if len(e.Holds) == 0 {
		return nil
	}
	holds := slices.Clone(e.Holds)
	slices.SortStableFunc(holds, func(a, b census.Hold) int { return cmp.Compare(b.For, a.For) })
	table := report.Table{Columns: []string{"key", "writer", "at", "held", "lease", "source"}, Text: 3}
	for _, h := range holds[:min(len(holds), longestHolds)] {
		leased := "?"
		if h.Lease > 0 {
			leased = out.Short(h.Lease)
		}
		if h.Lease > 0 && h.For > h.Lease {
			table.Bad = append(table.Bad, len(table.Rows))
		}
		table.Rows = append(table.Rows,
			[]string{out.Escaped(h.Key), nobody(h.Addr), h.At.UTC().Format("15:04:05.000"),
				out.Short(h.For), leased, string(h.Source)})
	}
	return &report.Section{Title: "Holds against leases", Words: a.holdWords(holds), Table: table}
}

// holdWords says how long holds are, of all of them, longest first.
func (a *auditAnswer) holdWords(holds []census.Hold) string {
	beyond, unsafe := 0, 0
	safe := a.result.Evidence.LongestSafeJob
	known := safe.Known() && safe.Value >= 0 && safe.Value < offset.NoHigh/2
	for _, h := range holds {
		if h.Lease > 0 && h.For > h.Lease {
			beyond++
		}
		if known && h.For > safe.Value {
			unsafe++
		}
	}
	text := fmt.Sprintf("%s; half took at most %s, 99 %% at most %s. The table has the longest. %d were longer than their holder's lease: another client took them over, or could have done so.",
		countOf(len(holds), "hold"), out.Short(holds[len(holds)/2].For), out.Short(holds[len(holds)/100].For),
		beyond)
	if known {
		text += fmt.Sprintf(" %d were longer than the longest safe job with these clocks, %s: a client with the fastest clock could have taken them over.", unsafe, out.Short(safe.Value))
	}
	return text
}

// longestHolds is the number of holds in the table.
const longestHolds = 15

// waitsSection shows how long clients waited for locks that other clients held.
func (a *auditAnswer) waitsSection() *report.Section {
	var waited []census.Writer
	for _, w := range a.result.Evidence.Writers {
		if w.Waits.Count > 0 {
			waited = append(waited, w)
		}
	}
	if len(waited) == 0 {
		return nil
	}
	slices.SortStableFunc(waited, func(a, b census.Writer) int {
		return cmp.Compare(b.Waits.Longest, a.Waits.Longest)
	})
	table := report.Table{Columns: []string{
		"writer", "name", "waits", "99 % at most", "longest", "half at most"}, Text: 2}
	for _, w := range waited[:min(len(waited), reportRows)] {
		table.Rows = append(table.Rows,
			[]string{nobody(w.Addr), out.Dashed(out.Escaped(w.Name)),
				strconv.FormatInt(w.Waits.Count, 10), out.Short(w.Waits.P99), out.Short(w.Waits.Longest),
				out.Short(w.Waits.P50)})
	}
	all := a.result.Evidence.Waits
	return &report.Section{
		Title: "Waits for locks that other clients held", Table: table,
		Words: fmt.Sprintf("%s, from a client's first failed attempt at a key to its success, or to its last attempt. 99 %% took at most %s, half at most %s, the longest %s. Only MONITOR shows them.",
			countOf(int(all.Count), "wait"), out.Short(all.P99), out.Short(all.P50), out.Short(all.Longest)),
	}
}

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
			Says: fmt.Sprintf("%d. %s %s %s", n+1, nobody(act.Addr), act.What, act.Detail)})
		table.Rows = append(table.Rows,
			[]string{strconv.Itoa(n + 1), at, t.Rows[row].Name, nobody(act.Addr),
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
		Title: "One key: " + out.Escaped(key.Key), Figure: t, Table: table,
		Words: "The key with the most mishaps, around the first mishap on record. Bars are holds; time with two holders at once is shaded. Failed attempts are left out.",
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
		"keys under", "form", "dialects", "keys", "no TTL", "expired", "far ahead"}, Text: 3}
	for _, p := range a.probe.Prefixes {
		for _, f := range p.Forms {
			table.Rows = append(table.Rows,
				[]string{orNone(out.Escaped(p.Prefix)), f.Form.String(),
					out.Dashed(strings.Join(f.Dialects, ", ")), fmt.Sprint(f.Keys), fmt.Sprint(f.NoTTL),
					fmt.Sprint(f.Expired), fmt.Sprint(f.Far)})
		}
		for _, kind := range slices.Sorted(maps.Keys(p.Types)) {
			table.Rows = append(table.Rows,
				[]string{orNone(out.Escaped(p.Prefix)), kind, "-", fmt.Sprint(p.Types[kind]), "-", "-", "-"})
		}
	}
	return &report.Section{Title: "Which values the keys hold",
		Words: countOf(int(a.probe.Keys), "key") + " looked at.", Table: table}
}

func (a *auditAnswer) sumsSection() report.Section {
	s := report.Section{Title: "Totals and cost",
		Table: report.Table{Columns: []string{"what", "value"}, Text: 2}}
	for _, line := range a.clockLines() {
		s.Table.Rows = append(s.Table.Rows, []string{line[0], line[1]})
	}
	c := a.result.Evidence.Counts
	for _, n := range []struct {
		what string
		n    int64
	}{{"acquisitions", c.Acquisitions}, {"takeovers", c.Takeovers}, {"failed attempts", c.Failed},
		{"clobbers", c.Clobbers}, {"ghosts", c.Ghosts}, {"overruns", c.Overruns}, {"overlaps", c.Overlaps}} {
		s.Table.Rows = append(s.Table.Rows, []string{n.what, strconv.FormatInt(n.n, 10)})
	}
	for _, cov := range a.result.Evidence.Coverage {
		says := fmt.Sprintf("%d events%s", cov.Events, holesWords(cov.Holes))
		if cov.Missing != "" {
			says = "not used: " + out.OneLine(cov.Missing)
		}
		s.Table.Rows = append(s.Table.Rows, []string{"source " + string(cov.Source), says})
	}
	for _, line := range a.costLines() {
		s.Table.Rows = append(s.Table.Rows, []string{"cost", line})
	}
	return s
}
