package auditverb

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

func (f *auditFlags) print(e *out.Env, a *auditAnswer) error {
	if f.asJSON {
		return e.PrintJSON(a.document())
	}
	w := e.Stdout
	fmt.Fprintln(w, "audit of "+a.where)
	a.printWindow(w)
	printForms(e, a)
	printWriters(e, a)
	a.printClocks(w)
	a.printCost(w)
	a.printCauses(w)
	return nil
}

// printWindow prints which source watched when.
func (a *auditAnswer) printWindow(w io.Writer) {
	ev := &a.result.Evidence
	if a.probe != nil {
		fmt.Fprintf(w, "%s looked at\n", countOf(int(a.probe.Keys), "key"))
	}
	if ev.From.IsZero() {
		return
	}
	fmt.Fprintf(w, "watched %s, by the server's clock\n", between(ev.From, ev.Until))
	for _, c := range ev.Coverage {
		switch {
		case c.Missing != "":
			fmt.Fprintf(w, "  %-9s not used: %s\n", c.Source, out.OneLine(c.Missing))
		default:
			fmt.Fprintf(w, "  %-9s %d events%s\n", c.Source, c.Events, holesWords(c.Holes))
		}
	}
}

func holesWords(holes []census.Hole) string {
	if len(holes) == 0 {
		return ""
	}
	var blind time.Duration
	by := map[census.HoleReason]bool{}
	var reasons []string
	for _, h := range holes {
		blind += h.Until.Sub(h.From)
		if !by[h.Reason] {
			by[h.Reason] = true
			reasons = append(reasons, string(h.Reason))
		}
	}
	return fmt.Sprintf("; saw nothing for %s (%s)", blind.Round(time.Millisecond),
		strings.Join(reasons, ", "))
}

func printForms(e *out.Env, a *auditAnswer) {
	if a.probe == nil || len(a.probe.Prefixes) == 0 {
		return
	}
	fmt.Fprintln(e.Stdout)
	g := out.NewGrid(out.Left("keys under"), out.Right("keys"), out.Left("form"), out.Left("dialect"),
		out.Right("no ttl"), out.Right("expired"), out.Right("far ahead"))
	for _, p := range a.probe.Prefixes {
		for _, f := range p.Forms {
			who := "-"
			if len(f.Dialects) > 0 {
				who = f.Dialects[0]
			}
			if n := len(f.Dialects) - 1; n > 0 {
				who = fmt.Sprintf("%s +%d", who, n)
			}
			g.Add(orNone(out.Escaped(p.Prefix)), f.Keys, f.Form.String(), who, f.NoTTL, f.Expired, f.Far)
		}
		for _, kind := range slices.Sorted(maps.Keys(p.Types)) {
			g.Add(orNone(out.Escaped(p.Prefix)), p.Types[kind], kind, "-", "-", "-", "-")
		}
	}
	e.Print(g)
}

func orNone(s string) string {
	if s == "" {
		return "(no prefix)"
	}
	return s
}

func printWriters(e *out.Env, a *auditAnswer) {
	writers := a.result.Evidence.Writers
	if len(writers) == 0 {
		return
	}
	fmt.Fprintln(e.Stdout)
	g := out.NewGrid(out.Left("writer"), out.Left("name"), out.Left("library"), out.Left("dialect"),
		out.Left("clock offset, seen"),
		out.Right("acquired"), out.Right("takeovers"), out.Right("longest hold"), out.Right("longest wait"),
		out.Right("findings"))
	for _, w := range writers[:min(len(writers), mostPrinted)] {
		who := w.Dialect
		if n := len(w.Also); n > 0 {
			who = fmt.Sprintf("%s +%d", who, n)
		}
		g.Add(nobody(w.Addr), out.Dashed(out.Escaped(w.Name)), out.Dashed(out.Escaped(w.Library)),
			out.Dashed(who), offsetWords(w.Offset),
			w.Counts.Acquisitions, w.Counts.Takeovers, longestWords(w.Holds), longestWords(w.Waits),
			len(w.Findings))
	}
	e.Print(g)
	if more := len(writers) - mostPrinted; more > 0 {
		fmt.Fprintf(e.Stdout, "and %d more, which --json and --report list\n", more)
	}
}

// mostPrinted is the number of writers in the printed table.
const mostPrinted = 50

func nobody(addr string) string {
	if addr == "" {
		return "(unknown)"
	}
	return addr
}

func offsetWords(o census.Offset) string {
	if o.Writes == 0 {
		return "-"
	}
	text := intervalWords(o.Interval)
	if o.LeaseGuessed {
		text += " *"
	}
	return text
}

// intervalWords returns both ends, rounded outwards, since the interval shown
// must hold too.
func intervalWords(i offset.Interval) string {
	low, high := "?", "?"
	if i.Low != offset.NoLow {
		low = signed(i.Low.Truncate(offsetStep), i.Low, -offsetStep)
	}
	if i.High != offset.NoHigh {
		high = signed(i.High.Truncate(offsetStep), i.High, offsetStep)
	}
	return low + " … " + high
}

// offsetStep is the precision of offsets in a table.
const offsetStep = 10 * time.Microsecond

// signed writes a truncated duration. It moves it by one step if the truncation
// narrowed the interval.
func signed(cut, whole, step time.Duration) string {
	if step < 0 && cut > whole || step > 0 && cut < whole {
		cut += step
	}
	if cut > 0 {
		return "+" + cut.String()
	}
	return cut.String()
}

func longestWords(h census.Durations) string {
	if h.Count == 0 {
		return "-"
	}
	return out.Short(h.Longest)
}

// printClocks prints what the clocks, leases and jobs add up to.
func (a *auditAnswer) printClocks(w io.Writer) {
	e := &a.result.Evidence
	if len(e.Writers) == 0 {
		return
	}
	fmt.Fprintln(w)
	for _, line := range a.clockLines() {
		fmt.Fprintf(w, "%-18s%s\n", line[0], line[1])
	}
}

// clockLines returns names and values, for the terminal and the page.
func (a *auditAnswer) clockLines() [][2]string {
	e := &a.result.Evidence
	lines := [][2]string{{"clock spread", a.spreadWords()},
		{"clocks behind", serverWords(e.Behind, a.behind)},
		{"clocks ahead", serverWords(e.Ahead, a.ahead)}}
	lease := spanWords(e.SmallestLease)
	if e.GreatestLease.Known() && e.GreatestLease.Value != e.SmallestLease.Value {
		lease += ", longest " + spanWords(e.GreatestLease)
	}
	lines = append(lines, [2]string{"shortest lease", lease},
		[2]string{"longest gap", spanWords(e.LongestGap)},
		[2]string{"longest hold", spanWords(e.LongestHold)},
		[2]string{"longest safe job", spanWords(e.LongestSafeJob)}, [2]string{"waits", waitsWords(e)})
	lines = append(lines, a.assumedLines()...)
	for _, w := range e.Writers {
		if w.Offset.LeaseGuessed {
			return append(lines, [2]string{
				"*", "depends on a guessed lease, so it is not guaranteed; give the lease by --lease"})
		}
	}
	return lines
}

// assumedLines names the assumptions of a clock's interval.
func (a *auditAnswer) assumedLines() [][2]string {
	writes := int64(0)
	for _, w := range a.result.Evidence.Writers {
		writes += w.Offset.Writes
	}
	if writes == 0 {
		return nil
	}
	seen := "what each single write allows, from " + countOf(int(writes), "write") + "; assumes the leases"
	if _, claimed := dialect.Claimed(a.gap); claimed {
		seen += fmt.Sprintf(", and that no attempt takes longer than %s", out.Short(dialect.Bound(a.gap)))
	} else {
		seen += "; no upper end without --gap"
	}
	return [][2]string{{"seen", seen}}
}

// waitsWords says "unknown" and not "none" where no source could see failed
// attempts: only MONITOR shows them.
func waitsWords(e *census.Evidence) string {
	switch d := e.Waits; {
	case d.Count > 0:
		return fmt.Sprintf("%d; half took at most %s, 99 %% at most %s, the longest %s", d.Count,
			out.Short(d.P50), out.Short(d.P99), out.Short(d.Longest))
	case e.Covered(census.SourceMonitor).From.IsZero():
		return "unknown: only --monitor shows attempts that fail"
	}
	return "none seen"
}

func (a *auditAnswer) spreadWords() string {
	e := &a.result.Evidence
	if offsets(e) == 0 {
		return "unknown: no writer was identified (--monitor does that)"
	}
	if e.Spread.Sound() {
		return fmt.Sprintf("at least %s (proved), at most %s (guaranteed, of the clocks seen), from %s",
			out.Short(e.Spread.Proved), out.Short(e.Spread.Guaranteed),
			countOf(int(e.Spread.Writes), "write"))
	}
	text := "at least " + out.Short(e.Spread.Apart)
	if e.Spread.Guessed {
		return text + " *; no upper bound while a lease is guessed or doubted"
	}
	return text + ", if no attempt takes longer than usual; no upper bound without --gap"
}

// serverWords says how far the old clients' clocks are off the server's, in one
// direction: at least, as far as it was seen, and at most, if that is claimed.
func serverWords(b census.Bound, of time.Duration) string {
	claim := "no claim"
	if value, claimed := dialect.Claimed(of); b.Span.Known() {
		claim = "at most " + spanWords(b.Span)
	} else if claimed {
		claim = fmt.Sprintf("the claim of %s is refuted", out.Short(value))
	}
	if b.Writes == 0 {
		return claim + "; no write of an old client was seen"
	}
	text := fmt.Sprintf("%s; at least %s, from %s", claim, out.Short(b.AtLeast),
		countOf(int(b.Writes), "write"))
	switch {
	case b.Guessed:
		text += " *"
	case b.Unless != "":
		text += ", " + b.Unless
	}
	return text
}

func spanWords(s census.Span) string {
	switch {
	case !s.Known():
		return "unknown"
	case s.Value >= offset.NoHigh/2:
		return "unbounded"
	}
	text := out.Short(s.Value) + " (" + string(s.Basis) + ")"
	if s.Addr != "" {
		text += ", by " + s.Addr
	}
	if s.Key != "" {
		text += ", of " + out.Escaped(s.Key)
	}
	if s.Note != "" {
		text += "; " + s.Note
	}
	return text
}

// printCost prints what the audit itself cost the server.
func (a *auditAnswer) printCost(w io.Writer) {
	for _, line := range a.costLines() {
		fmt.Fprintf(w, "%-18s%s\n", "cost", line)
	}
}

func (a *auditAnswer) costLines() []string {
	var lines []string
	c := a.result.Cost
	if a.probe != nil && a.probe.Cost.Work > 0 && c.Elapsed > 0 {
		p := a.probe.Cost
		lines = append(lines, fmt.Sprintf(
			"probe: %s in %s, of which %s waiting for the server; slowest slice %s",
			countOf(int(a.probe.Keys), "key"), out.Short(p.Elapsed), out.Short(p.Work), out.Short(p.Slowest)))
	}
	if c.Share > 0 {
		lines = append(lines, fmt.Sprintf(
			"looks: %d, which took %s of the server's time: %.2f %% of one core", c.Looks,
			out.Short(c.ServerTime), 100*c.Share))
	} else if c.Looks > 0 {
		lines = append(lines, fmt.Sprintf("looks: %d; their cost is unknown", c.Looks))
	}
	if m := c.Monitor; m != nil {
		text := fmt.Sprintf("monitor: %s, %s, %d lines, %d KiB", countOf(m.Bursts, "burst"),
			out.Short(m.Time), m.Lines, m.Bytes>>10)
		if m.PingOn > 0 && m.PingOff > 0 {
			text += fmt.Sprintf("; a PING took %s with it and %s without", out.Short(m.PingOn),
				out.Short(m.PingOff))
		}
		if m.OpsOn > 0 && m.OpsOff > 0 {
			text += fmt.Sprintf("; %.0f commands a second with it and %.0f without", m.OpsOn, m.OpsOff)
		}
		lines = append(lines, text)
		for _, why := range m.Stopped {
			lines = append(lines, "monitor stopped: "+why)
		}
	}
	return lines
}

// printFinding prints a finding and its advice as a paragraph.
func printFinding(w io.Writer, f census.Finding) {
	wrap(w, strings.ToUpper(string(f.Severity))+"  ", aboutKey(f)+f.What)
	if f.Advice != "" {
		wrap(w, "    do: ", f.Advice)
	}
}

// aboutKey names the key of a finding in front of its sentence.
func aboutKey(f census.Finding) string {
	if f.Key == "" {
		return ""
	}
	return out.Shortened(out.Escaped(f.Key), 200) + ": "
}

// wrap prints text in lines of at most 110 columns, indented below head.
func wrap(w io.Writer, head, text string) {
	const width = 110
	indent := strings.Repeat(" ", 9)
	line := fmt.Sprintf("%-9s", head)
	for i, word := range strings.Fields(out.OneLine(text)) {
		if i > 0 && len([]rune(line))+1+len([]rune(word)) > width {
			fmt.Fprintln(w, line)
			line = indent + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	fmt.Fprintln(w, line)
}
