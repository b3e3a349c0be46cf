// SPDX-License-Identifier: Apache-2.0

package skewverb

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
	"github.com/getsetlock/getsetlock/internal/operator/simulate"
	"github.com/getsetlock/getsetlock/skew"
)

// answer returns the answer for people. explored: it shows what the search
// found, too.
func (a *skewAnswer) answer(explored bool) report.Page {
	p := report.Page{Verdict: a.sentence(), Bad: a.twoHold(), Words: a.words()}
	// How it comes about is shown before how often it does.
	if a.explored != nil && explored {
		p.Sections = append(p.Sections, a.shortestTrace())
	}
	if a.oldHold() && a.verdict.LongestJob.Bounded && !a.verdict.Unconditional && len(a.points) > 0 {
		p.Sections = append(p.Sections, a.region(), a.overlapAgainstSpread())
	}
	if len(a.points) > 0 {
		p.Sections = append(p.Sections, a.waits())
	}
	if a.rates != nil {
		p.Sections = append(p.Sections, report.Section{Title: "The simulation",
			Table: report.Table{Columns: []string{"simulated", "value"}, Text: 1, Rows: a.simRows()}})
	}
	p.Sections = append(p.Sections, report.Section{Title: "The numbers",
		Table: report.Table{Columns: []string{"what", "value"}, Text: 1, Rows: a.lawRows()}})
	return p
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

// spreadTable returns a table with a row for each clock spread. The row of the
// fleet's own says so.
func (a *skewAnswer) spreadTable(columns []string,
	row func(n int, spread time.Duration) []string) report.Table {
	table := report.Table{Columns: append([]string{"clock spread"}, columns...)}
	for n, spread := range a.spreads() {
		name := out.Short(spread)
		if spread == a.law.Spread {
			name += ", this fleet"
		}
		table.Rows = append(table.Rows, append([]string{name}, row(n, spread)...))
	}
	return table
}

// region shows which fleets are safe.
func (a *skewAnswer) region() report.Section {
	return report.Section{
		Title: "Which fleets are safe, by the law",
		Long:  true,
		Words: fmt.Sprintf("Two clients cannot hold the lock at once while no job is longer than the longest safe job. Where that is negative, no job is safe. The longest job of this fleet is %s.",
			out.Short(a.law.Job)),
		Table: a.spreadTable([]string{"longest safe job", "free after a crash, latest"},
			func(_ int, spread time.Duration) []string {
				v := a.atSpread(spread)
				latest := "never"
				if !v.Recovery.Never {
					latest = out.Short(v.Recovery.Latest)
				}
				return []string{out.Short(v.LongestJob.Bound), latest}
			}),
	}
}

// overlapAgainstSpread shows how likely a job is overlapped: in the worst case,
// by the law; and by simulation.
func (a *skewAnswer) overlapAgainstSpread() report.Section {
	return report.Section{
		Title: "How likely a second holder is",
		Long:  true,
		Words: "By the law: the share of jobs during which a second client can hold the lock, if a waiter with the worst clock and delay is always there. Simulated: the share of acquisitions that came while another client held the lock.",
		Table: a.spreadTable([]string{"worst case", "simulated"}, func(n int, spread time.Duration) []string {
			return []string{percent(a.unsafeShare(a.atSpread(spread))), percent(overlapped(a.points[n]))}
		}),
	}
}

// waits shows how long simulated clients wait.
func (a *skewAnswer) waits() report.Section {
	s := report.Section{
		Title: "How long clients wait",
		Long:  true,
		Words: "From the first attempt to the command that won the lock. Old clients poll, and give up as their dialect does. The table's waits are those of clients that won: short ones are no good sign where many gave up.",
		Table: a.spreadTable([]string{"half at most", "99 % at most", "gave up"},
			func(n int, _ time.Duration) []string {
				r := a.points[n]
				if r.Acquisitions == 0 {
					return []string{"-", "-", "-"}
				}
				return []string{out.Short(r.WaitP50), out.Short(r.WaitP99), percent(gaveUp(r))}
			}),
	}
	if r := a.points[slices.Index(a.spreads(), a.law.Spread)]; r.Acquisitions > 0 {
		s.Figure = report.Waits([]report.Wait{{Name: percent(gaveUp(r)) + " gave up", Half: r.WonP50,
			Most: r.WonP99, Longest: r.WaitMost, Tried: r.Acquisitions + r.GaveUp, GaveUp: r.GaveUp}})
		s.Legend = "The drawing is of this fleet. " + report.WaitsLegend
	}
	return s
}

// gaveUp returns the share of acquires that ended without the lock.
func gaveUp(r simulate.Rates) float64 { return float64(r.GaveUp) / float64(r.GaveUp+r.Acquisitions) }

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
	last := x.events[len(x.events)-1].At
	// A client that holds at the end is shown to hold a little longer, to be
	// visible.
	end := last + max(x.tick/2, last/20)
	for n, ev := range x.events {
		row, known := rows[ev.Who]
		if !known {
			row = len(t.Rows)
			rows[ev.Who] = row
			t.Rows = append(t.Rows, report.Row{Name: ev.Who})
		}
		t.Marks = append(t.Marks, report.Mark{
			Row: row, At: ev.At.Seconds(), Number: n + 1,
			Says: fmt.Sprintf("%d. %s %s %s", n+1, ev.Who, ev.Event, ev.Effect)})
		s.Table.Rows = append(s.Table.Rows,
			[]string{strconv.Itoa(n + 1), out.Short(ev.At), ev.Who, ev.Event, ev.Effect})
		holds := &t.Rows[row].Holds
		switch open := len(*holds) > 0 && (*holds)[len(*holds)-1].To == end.Seconds(); {
		case ev.won && !open:
			*holds = append(*holds, report.Span{From: ev.At.Seconds(), To: end.Seconds()})
		case ev.over && open:
			(*holds)[len(*holds)-1].To = ev.At.Seconds()
		}
	}
	s.Figure = t
	return s
}
