package cli

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/getsetlock/getsetlock/internal/report"
	"github.com/getsetlock/getsetlock/skew"
)

// page is the answer as --report shows it.
func (a *skewAnswer) page() report.Page {
	p := report.Page{
		Title:   fmt.Sprintf("getsetlock skew: %s, %s", a.dialect, a.protocol),
		Verdict: a.sentence(), Bad: a.twoHold(), Words: a.words(),
		Foot: "Made by: " + a.commandLine(),
	}
	p.Sections = append(p.Sections, report.Section{
		Title: "The numbers", Table: report.Table{Columns: []string{"what", "value"}, Text: 1, Rows: a.lawRows()},
	})
	if a.oldHold() && a.verdict.LongestJob.Bounded && !a.verdict.Unconditional {
		p.Sections = append(p.Sections, a.region(), a.overlapAgainstSpread())
	}
	if a.explored != nil {
		p.Sections = append(p.Sections, a.shortestTrace())
	}
	return p
}

// commandLine makes the same page again.
func (a *skewAnswer) commandLine() string {
	job := "--job " + a.job.String()
	if a.holds != nil {
		job = "--trace FILE"
	}
	return fmt.Sprintf("getsetlock skew --protocol %s --dialect %s --lease %s %s --spread %s --delay %s --seed %d",
		a.protocol, a.dialect, short(a.law.Lease), job, short(a.spread), short(a.delay), a.seed)
}

// spreads are from none to beyond where no job is safe, or the fleet's own, in twelve steps. The
// fleet's own is always among them.
func (a *skewAnswer) spreads() []time.Duration {
	most := max(a.law.Lease+a.dialect.C()-a.delay, a.spread*5/4, time.Second)
	var all []time.Duration
	for n := range 13 {
		all = append(all, most*time.Duration(n)/12)
	}
	all = append(all, a.spread)
	slices.Sort(all)
	return slices.Compact(all)
}

func (a *skewAnswer) atSpread(spread time.Duration) skew.Verdict {
	law := a.law
	law.Spread = spread
	v, _ := law.Verdict() // the same law stood up to its checks with another spread
	return v
}

// region is where fleets are safe.
func (a *skewAnswer) region() report.Section {
	line := report.Line{Name: "longest safe job"}
	table := report.Table{Columns: []string{"clocks apart", "longest safe job", "free after a crash, latest"}}
	for _, s := range a.spreads() {
		v := a.atSpread(s)
		line.At = append(line.At, report.XY{X: s.Seconds(), Y: max(0, v.LongestJob.Bound).Seconds()})
		latest := "never"
		if !v.Recovery.Never {
			latest = short(v.Recovery.Latest)
		}
		table.Rows = append(table.Rows, []string{short(s), short(v.LongestJob.Bound), latest})
	}
	return report.Section{
		Title: "The law's region",
		Words: "Below the line two cannot hold; above it they can. Where the longest safe job is negative, no job is safe.",
		Figure: &report.Plot{
			Name: "Longest safe job against the spread of clocks, and this fleet", X: "clocks apart, s", Y: "job, s",
			Lines: []report.Line{line}, Shade: true,
			Points: []report.Point{{Name: "this fleet", At: report.XY{X: a.spread.Seconds(), Y: a.law.Job.Seconds()}}},
		},
		Table: table,
	}
}

// overlapAgainstSpread shows how likely a job is overlapped, by the law.
func (a *skewAnswer) overlapAgainstSpread() report.Section {
	old := report.Line{Name: "old clients: a waiter with the worst clock and delay is always there"}
	ours := report.Line{Name: "ours alone (sealed, modern)", Dashed: true}
	table := report.Table{Columns: []string{"clocks apart", "old clients", "ours alone"}}
	for _, s := range a.spreads() {
		share := a.unsafeShare(a.atSpread(s))
		old.At = append(old.At, report.XY{X: s.Seconds(), Y: share})
		ours.At = append(ours.At, report.XY{X: s.Seconds()})
		table.Rows = append(table.Rows, []string{short(s), percent(share), percent(0)})
	}
	return report.Section{
		Title: "How likely a job is overlapped, against skew",
		Words: "The share of jobs beside which a second client can hold, at worst.",
		Figure: &report.Plot{
			Name: "Probability of an overlap against the spread of clocks", X: "clocks apart, s", Y: "jobs overlapped",
			Lines: []report.Line{old, ours}, Share: true,
		},
		Table: table,
	}
}

// shortestTrace is the explorer's finding as a timeline.
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
	// Whoever still holds at the end is shown to hold a little longer, so that it is seen.
	end := last + max(x.tick/2, last/20)
	for n, ev := range x.events {
		row, known := rows[ev.who]
		if !known {
			row = len(t.Rows)
			rows[ev.who] = row
			t.Rows = append(t.Rows, report.Row{Name: ev.who})
		}
		t.Marks = append(t.Marks, report.Mark{Row: row, At: ev.at.Seconds(), Number: n + 1, Says: fmt.Sprintf("%d. %s %s %s", n+1, ev.who, ev.event, ev.effect)})
		s.Table.Rows = append(s.Table.Rows, []string{strconv.Itoa(n + 1), short(ev.at), ev.who, ev.event, ev.effect})
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
