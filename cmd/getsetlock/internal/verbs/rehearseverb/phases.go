// SPDX-License-Identifier: Apache-2.0

package rehearseverb

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
	"github.com/getsetlock/getsetlock/migrate"
)

// phasesPage shows a rehearsed migration: when the fleet was in which phase,
// what each gate waited for, and what it refused.
func phasesPage(res *rehearse.Result, how string, made time.Time) report.Page {
	page := report.Page{
		Title: "getsetlock rehearse: all phases of a migration", Made: made, Verdict: verdict(res),
		Bad: !res.OK, Foot: "Made by: " + how,
		Words: []string{fmt.Sprintf("%d orders, %s. An operator took the fleet from old clients to token locks, with the real gates of \"getsetlock migrate\". Programs crashed and restarted in every phase.",
			res.Orders, spent(res))},
		Sections: []report.Section{phasesSection(res), waitsSection(res), refusalsSection(res),
			groupSection(res)},
	}
	if res.GaveUp > 0 {
		page.Words = append(page.Words, out.Count(res.GaveUp, "old client was", "old clients were")+
			" shut out, and gave up after waiting.")
	}
	for _, c := range res.Causes {
		page.Words = append(page.Words, excused(c))
	}
	return page
}

func excused(c rehearse.Cause) string {
	return fmt.Sprintf("Excused: %s (%d overlaps, %d oversold).", c.Cause, c.Overlaps, c.Oversold)
}

// phasesSection draws a row for each phase. A bar is a visit of the fleet.
func phasesSection(res *rehearse.Result) report.Section {
	s := report.Section{Title: "Phases over time",
		Words: "A bar is the time that the fleet spent in a phase. The number at its left end is how long the step to the phase took. A step back is a bar further up. A dot with the word \"refused\" is a step to the phase that its gate refused; it is red where the gate should have been open.",
		Table: phaseTable(res)}
	t := &report.Timeline{Name: "Timeline of the phases", Plain: true}
	for _, p := range migrate.Phases() {
		t.Rows = append(t.Rows, report.Row{Name: p.String()})
	}
	rowOf := func(phase string) int {
		return slices.IndexFunc(t.Rows, func(r report.Row) bool { return r.Name == phase })
	}
	var end float64
	for _, p := range res.Phases {
		end = max(end, p.ToMS)
	}
	unit, name := report.Unit(time.Duration(end * float64(time.Millisecond)))
	t.X = "time since the beginning, " + name
	at := func(ms float64) float64 { return ms * float64(time.Millisecond) / float64(unit) }
	for _, p := range res.Phases {
		holds := &t.Rows[rowOf(p.Phase)].Holds
		*holds = append(*holds, report.Span{From: at(p.FromMS), To: at(p.ToMS),
			Says: fmt.Sprintf("%s from %s to %s", p.Phase, hours(p.FromMS), hours(p.ToMS)),
			Bad:  p.Overlaps > p.OverlapsExcused})
	}
	for _, w := range res.Waits {
		t.Marks = append(t.Marks, report.Mark{Row: rowOf(w.To), At: at(w.ToMS),
			Label: hours(w.ToMS - w.FromMS),
			Says:  fmt.Sprintf("the step to %s took %s; its gate was closed by: %s", w.To, hours(w.ToMS-w.FromMS), rulesOf(w))})
	}
	for _, r := range res.Refusals {
		t.Marks = append(t.Marks, report.Mark{Row: rowOf(r.To), At: at(r.AtMS), Label: "refused",
			Says: r.Detail, Bad: !r.Expected})
	}
	slices.SortStableFunc(t.Marks, func(a, b report.Mark) int { return cmp.Compare(a.At, b.At) })
	s.Figure = t
	return s
}

func rulesOf(w rehearse.Wait) string {
	return out.Dashed(strings.Join(w.Rules, ", "))
}

// waitsSection lists the steps that were taken.
func waitsSection(res *rehearse.Result) report.Section {
	s := report.Section{Title: "What each gate waited for",
		Words: "The operator asked for each step until it was taken. A wait that no rule closed is for the members to follow. Between two steps the operator lets the fleet rest, so that most windows have passed when the step is asked for.",
		Table: report.Table{Columns: []string{"gate to", "closed by", "opened by", "asked at", "waited"},
			Text: 3}}
	for _, w := range res.Waits {
		var opened []string
		if w.Members > 0 {
			opened = append(opened, out.Count(w.Members, "member acts", "members act")+" by the phase before")
		}
		if w.Window != "" {
			opened = append(opened, w.Window)
		}
		s.Table.Rows = append(s.Table.Rows, row(w.To, rulesOf(w), out.Dashed(strings.Join(opened, "; ")),
			hours(w.FromMS), hours(w.ToMS-w.FromMS)))
	}
	return s
}

// refusalsSection lists the steps that were not taken.
func refusalsSection(res *rehearse.Result) report.Section {
	s := report.Section{Title: "What the gates refused",
		Words: "The operator asks for some steps too early, to see them refused. Red: the gate should have been open.",
		Table: report.Table{Columns: []string{"gate to", "why", "closed by", "at"}, Text: 3}}
	for n, r := range res.Refusals {
		if !r.Expected {
			s.Table.Bad = append(s.Table.Bad, n)
		}
		s.Table.Rows = append(s.Table.Rows, row(r.To, r.Detail, strings.Join(r.Rules, ", "), hours(r.AtMS)))
	}
	return s
}
