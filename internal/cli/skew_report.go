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
	if a.rates != nil {
		p.Sections = append(p.Sections, report.Section{
			Title: "Simulated", Words: a.seen(), Table: report.Table{Columns: []string{"what", "value"}, Text: 1, Rows: a.simRows()},
		})
	}
	if len(a.points) > 0 {
		p.Sections = append(p.Sections, a.waits())
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
	clocks := "--spread " + a.spread.String()
	if a.preset != nil {
		clocks = "--preset " + a.preset.Name
	}
	text := fmt.Sprintf("getsetlock skew --protocol %s --dialect %s --lease %s %s %s --delay %s --seed %d --report FILE",
		a.protocol, a.dialect, a.law.Lease, job, clocks, a.delay, a.seed)
	if !a.ours() {
		text += fmt.Sprintf(" --clients %d --latency %s", a.clients, a.latency)
		if a.poll > 0 {
			text += " --poll " + a.poll.String()
		}
	}
	return text
}

// spreads are from none to beyond where no job is safe, or the fleet's own, in twelve steps. The
// fleet's own is always among them.
func (a *skewAnswer) spreads() []time.Duration {
	most := max(a.law.Lease-a.law.Delay, a.spread*5/4, time.Second)
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

// overlapAgainstSpread shows how likely a job is overlapped: at worst, by the law, and as simulated.
func (a *skewAnswer) overlapAgainstSpread() report.Section {
	worst := report.Line{Name: "old clients, at worst: a waiter with the worst clock and delay is always there"}
	seen := report.Line{Name: fmt.Sprintf("old clients, simulated: %d of them", a.clients)}
	ours := report.Line{Name: "ours among themselves (hardened, dual, sealed, modern)", Dashed: true}
	table := report.Table{Columns: []string{"clocks apart", "at worst", "simulated", "ours among themselves"}}
	for n, s := range a.spreads() {
		share, simulated := a.unsafeShare(a.atSpread(s)), "-"
		worst.At = append(worst.At, report.XY{X: s.Seconds(), Y: share})
		ours.At = append(ours.At, report.XY{X: s.Seconds()})
		if n < len(a.points) {
			simulated = percent(overlapped(a.points[n].rates))
			seen.At = append(seen.At, report.XY{X: s.Seconds(), Y: overlapped(a.points[n].rates)})
		}
		table.Rows = append(table.Rows, []string{short(s), percent(share), simulated, percent(0)})
	}
	lines := []report.Line{worst, ours}
	if len(a.points) > 0 {
		lines = []report.Line{worst, seen, ours}
	}
	return report.Section{
		Title: "How likely a job is overlapped, against skew",
		Words: "The share of jobs beside which a second client can hold, by the law, and of acquisitions that were made beside a holder, simulated.",
		Figure: &report.Plot{
			Name: "Probability of an overlap against the spread of clocks", X: "clocks apart, s", Y: "overlapped",
			Lines: lines, Share: true,
		},
		Table: table,
	}
}

// waits shows how long simulated clients wait.
func (a *skewAnswer) waits() report.Section {
	half, most := report.Line{Name: "half wait no longer"}, report.Line{Name: "99 of 100 wait no longer", Dashed: true}
	table := report.Table{Columns: []string{"clocks apart", "wait p50", "wait p99", "acquisitions", "gave up"}}
	for _, p := range a.points {
		r := p.rates
		half.At = append(half.At, report.XY{X: p.spread.Seconds(), Y: r.WaitP50.Seconds()})
		most.At = append(most.At, report.XY{X: p.spread.Seconds(), Y: r.WaitP99.Seconds()})
		table.Rows = append(table.Rows, []string{short(p.spread), short(r.WaitP50), short(r.WaitP99), strconv.FormatInt(r.Acquisitions, 10), strconv.FormatInt(r.GaveUp, 10)})
	}
	return report.Section{
		Title: "Waits, against skew",
		Words: "From an attempt's beginning to the winning command, of those that won.",
		Figure: &report.Plot{
			Name: "How long clients wait against the spread of clocks", X: "clocks apart, s", Y: "wait, s", Lines: []report.Line{half, most},
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
