// SPDX-License-Identifier: Apache-2.0

package skewverb

import (
	"fmt"
	"strconv"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
	"github.com/getsetlock/getsetlock/internal/operator/simulate"
)

// answer returns the answer for people. explored: it shows what the search
// found, too.
func (a *skewAnswer) answer(explored bool) report.Page {
	p := report.Page{Verdict: a.sentence(), Bad: a.twoHold(), Words: a.words()}
	// How it comes about is shown before how often it does.
	if a.explored != nil && explored {
		p.Sections = append(p.Sections, a.shortestTrace())
	}
	if a.rates != nil {
		p.Sections = append(p.Sections, a.simulated())
	}
	p.Sections = append(p.Sections, report.Section{Title: "The numbers",
		Table: report.Table{Columns: []string{"what", "value"}, Text: 1, Rows: a.lawRows()}})
	return p
}

// simulated shows the simulation's numbers, and draws how long clients wait.
func (a *skewAnswer) simulated() report.Section {
	s := report.Section{Title: "The simulation",
		Table: report.Table{Columns: []string{"simulated", "value"}, Text: 1, Rows: a.simRows()}}
	if r := a.rates; r.Acquisitions > 0 {
		s.Figure = report.Waits([]report.Wait{{Name: percent(gaveUp(*r)) + " gave up", Half: r.WonP50,
			Most: r.WonP99, Longest: r.WaitMost, Tried: r.Acquisitions + r.GaveUp, GaveUp: r.GaveUp}})
		s.Legend = report.WaitsLegend + " In the table, waits are those of clients that won: short ones are no good sign where many gave up."
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
