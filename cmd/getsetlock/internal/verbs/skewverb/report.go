package skewverb

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
	"github.com/getsetlock/getsetlock/skew"
	"github.com/getsetlock/getsetlock/skew/simulate"
)

// page returns the answer as --report shows it.
func (a *skewAnswer) page() report.Page {
	p := report.Page{
		Title: fmt.Sprintf("getsetlock skew: %s, %s", a.dialect, a.protocol),
		Made:  a.made, Verdict: a.sentence(), Bad: a.twoHold(), Words: a.words(),
		Foot: "Made by: " + a.commandLine(),
	}
	// How it comes about is shown before how often it does.
	if a.explored != nil {
		p.Sections = append(p.Sections, a.shortestTrace())
	}
	if a.oldHold() && a.verdict.LongestJob.Bounded && !a.verdict.Unconditional {
		p.Sections = append(p.Sections, a.region(), a.overlapAgainstSpread())
	}
	if len(a.curves) > 0 {
		p.Sections = append(p.Sections, a.waits())
	}
	if a.rates != nil {
		p.Sections = append(p.Sections, report.Section{
			Title: "Simulated", Words: a.seen(),
			Table: report.Table{Columns: []string{"what", "value"}, Text: 1, Rows: a.simRows()},
		})
	}
	p.Sections = append(p.Sections, report.Section{
		Title: "The numbers", Table: report.Table{
			Columns: []string{"what", "value"}, Text: 1, Rows: a.lawRows()},
	})
	return p
}

// commandLine returns the command that makes the same page again.
func (a *skewAnswer) commandLine() string {
	job := "--job " + a.job.String()
	if a.holds != nil {
		job = "--trace FILE"
	}
	clocks := "--spread " + a.law.Spread.String()
	if a.preset != nil {
		clocks = "--preset " + a.preset.Name
	}
	text := fmt.Sprintf(
		"getsetlock skew --protocol %s --dialect %s --lease %s %s %s --delay %s --seed %d --report FILE",
		a.protocol, a.dialect, a.law.Lease, job, clocks, value(a.delay), a.seed)
	text += fmt.Sprintf(" --clients %d --latency %s", a.clients, a.latency)
	if a.poll > 0 {
		text += " --poll " + a.poll.String()
	}
	return text
}

// spreads returns clock spreads in twelve steps: from zero to beyond the spread
// at which no job is safe, or beyond the fleet's own. The fleet's own spread is
// always included.
func (a *skewAnswer) spreads() []time.Duration {
	most := max(a.law.Lease-a.law.Delay, a.law.Spread*5/4, time.Second)
	var all []time.Duration
	for n := range 13 {
		all = append(all, most*time.Duration(n)/12)
	}
	all = append(all, a.law.Spread)
	slices.Sort(all)
	return slices.Compact(all)
}

func (a *skewAnswer) atSpread(spread time.Duration) skew.Verdict {
	law := a.law
	law.Spread = spread
	v, _ := law.Verdict() // no error: the same law passed its checks with another spread
	return v
}

// region shows which fleets are safe.
func (a *skewAnswer) region() report.Section {
	line := report.Line{Name: "longest safe job"}
	table := report.Table{Columns: []string{"clock spread", "longest safe job", "free after a crash, latest"}}
	for _, s := range a.spreads() {
		v := a.atSpread(s)
		line.At = append(line.At, report.XY{X: s.Seconds(), Y: max(0, v.LongestJob.Bound).Seconds()})
		latest := "never"
		if !v.Recovery.Never {
			latest = out.Short(v.Recovery.Latest)
		}
		table.Rows = append(table.Rows, []string{out.Short(s), out.Short(v.LongestJob.Bound), latest})
	}
	return report.Section{
		Title: "Which fleets are safe, by the law",
		Words: "Below the line two clients cannot hold the lock at once; above it they can. Where the longest safe job is negative, no job is safe.",
		Figure: &report.Plot{
			Name: "Longest safe job against the clock spread, and this fleet", X: "clock spread, s",
			Y:     "job, s",
			Lines: []report.Line{line}, Shade: true,
			Points: []report.Point{{
				Name: "this fleet", At: report.XY{X: a.law.Spread.Seconds(), Y: a.law.Job.Seconds()}}},
		},
		Table: table,
	}
}

// overlapAgainstSpread shows how likely a job is overlapped: for old clients in
// the worst case, by the law; and for each protocol, by simulation.
func (a *skewAnswer) overlapAgainstSpread() report.Section {
	worst := report.Line{
		Name:   "old clients, worst case: a waiter with the worst clock and delay is always there",
		Dashed: true}
	table := report.Table{Columns: []string{"clock spread", "old clients, worst case"}}
	for _, s := range a.spreads() {
		share := a.unsafeShare(a.atSpread(s))
		worst.At = append(worst.At, report.XY{X: s.Seconds(), Y: share})
		table.Rows = append(table.Rows, []string{out.Short(s), percent(share)})
	}
	lines := append([]report.Line{worst}, a.curveLines(&table, func(r simulate.Rates) (float64, string) {
		return overlapped(r), percent(overlapped(r))
	})...)
	return report.Section{
		Title: "How likely a second holder is",
		Words: "By the law: the share of jobs during which a second client can hold the lock. Simulated for each protocol: the share of acquisitions that came while another client held the lock. A line ends where no lease of a getsetlock client is short enough for such a fleet, so that getsetlock clients refuse to take part. A holder whose machine was paused beyond its lease is not counted; it learns of the loss when it runs again.",
		Figure: &report.Plot{
			Name: "Probability of a second holder against the clock spread", X: "clock spread, s",
			Y:     "overlapped",
			Lines: lines, Share: true,
		},
		Table: table,
	}
}

// curveLines returns one line for each protocol, and adds a column for each to
// the table.
func (a *skewAnswer) curveLines(table *report.Table,
	value func(simulate.Rates) (float64, string)) []report.Line {
	var lines []report.Line
	for n, c := range a.curves {
		line := report.Line{Name: curveProtocols[n].name, Protocol: c.protocol}
		table.Columns = append(table.Columns, c.protocol)
		for i, s := range a.spreads() {
			text := "-"
			if r := c.rates[i]; r != nil && r.Acquisitions > 0 {
				y, says := value(*r)
				line.At, text = append(line.At, report.XY{X: s.Seconds(), Y: y}), says
			}
			table.Rows[i] = append(table.Rows[i], text)
		}
		if len(line.At) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// waits shows how long simulated clients wait, for each protocol.
func (a *skewAnswer) waits() report.Section {
	table := report.Table{Columns: []string{"clock spread"}}
	for _, s := range a.spreads() {
		table.Rows = append(table.Rows, []string{out.Short(s)})
	}
	most := a.curveLines(&table, func(r simulate.Rates) (float64, string) {
		return r.WaitP99.Seconds(), out.Short(r.WaitP99)
	})
	for n := range a.curves {
		table.Columns[1+n] += ", p99"
	}
	a.curveLines(&table, func(r simulate.Rates) (float64, string) {
		return r.WaitP50.Seconds(), out.Short(r.WaitP50)
	})
	for n := range a.curves {
		table.Columns[1+len(a.curves)+n] += ", p50"
	}
	return report.Section{
		Title: "How long clients wait",
		Words: "From the first attempt to the command that won the lock. Of the clients that won, 99 % waited no longer than the line shows; the table has the median too. A dot is a protocol that takes part at one spread only. A release wakes getsetlock clients, which wait until they win; old clients poll, and give up as their dialect does.",
		Figure: &report.Plot{
			Name: "Wait of 99 % against the clock spread", X: "clock spread, s", Y: "wait, s", Lines: most,
		},
		Table: table,
	}
}

// shortestTrace shows the explorer's finding as a timeline.
func (a *skewAnswer) shortestTrace() report.Section {
	x := a.explored
	s := report.Section{Title: "The shortest way to two holders", Words: x.says()}
	if !x.Found {
		return s
	}
	s.Table = report.Table{Columns: []string{"number", "at", "client", "event", "effect"}, Text: 5}
	t := &report.Timeline{Name: "Timeline of the shortest way to two holders", X: "time, s"}
	rows := map[string]int{}
	last := x.events[len(x.events)-1].at
	// A client that holds at the end is shown to hold a little longer, to be
	// visible.
	end := last + max(x.tick/2, last/20)
	for n, ev := range x.events {
		row, known := rows[ev.who]
		if !known {
			row = len(t.Rows)
			rows[ev.who] = row
			t.Rows = append(t.Rows, report.Row{Name: ev.who})
		}
		t.Marks = append(t.Marks, report.Mark{
			Row: row, At: ev.at.Seconds(), Number: n + 1,
			Says: fmt.Sprintf("%d. %s %s %s", n+1, ev.who, ev.event, ev.effect)})
		s.Table.Rows = append(s.Table.Rows,
			[]string{strconv.Itoa(n + 1), out.Short(ev.at), ev.who, ev.event, ev.effect})
		holds := &t.Rows[row].Holds
		switch open := len(*holds) > 0 && (*holds)[len(*holds)-1].To == end.Seconds(); {
		case ev.won && !open:
			*holds = append(*holds, report.Span{From: ev.at.Seconds(), To: end.Seconds()})
		case ev.over && open:
			(*holds)[len(*holds)-1].To = ev.at.Seconds()
		}
	}
	s.Figure = t
	return s
}
