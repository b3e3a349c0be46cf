// SPDX-License-Identifier: Apache-2.0

package migrateverb

import (
	"fmt"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/migrate"
)

// roadPage shows the whole road: what closes gates now, when each can open at
// the earliest, and what it waits for.
func roadPage(road *fleet.Road, how string, made time.Time) report.Page {
	page := report.Page{Title: "migration of " + namespaceOf(road.Report), Made: made,
		Verdict: "The fleet is in clean: no step is left.", Foot: "Made by: " + how}
	for _, note := range road.Report.Notes {
		page.Words = append(page.Words, out.OneLine(note)+".")
	}
	if len(road.Legs) == 0 {
		return page
	}
	page.Causes = closedGates(road.Legs)
	page.Bad = len(page.Causes) > 0
	page.Verdict = fmt.Sprintf("From %s to clean: at least %v; ", phaseName(road.Legs[0].From),
		road.Wait.Round(time.Second))
	if closed := closedOf(road.Legs); closed > 0 {
		page.Verdict += fmt.Sprintf("closed as of now: %d of %s.", closed,
			out.Count(len(road.Legs), "gate", "gates"))
	} else {
		page.Verdict += "the next gate is open."
	}
	page.Sections = []report.Section{phasesSection(road), needsSection(road), clientsSection(road.Fleet)}
	return page
}

// closedGates returns a cause for each gate that is closed now. Gates with the
// same reasons share one.
func closedGates(legs []fleet.Leg) []report.Cause {
	var all []report.Cause
	for _, l := range legs {
		if len(l.Refuses) == 0 {
			continue
		}
		c := report.Cause{Culprit: fmt.Sprintf("Gate to %v", l.To), Bad: true,
			Says:     []string{"closed as of now"},
			Explains: "closed by:", Findings: findingLines(l.Refuses, false, func(f fleet.Finding) string {
				return f.Rule + ": " + out.OneLine(f.Detail)
			})}
		if n := len(all) - 1; n >= 0 && slices.Equal(all[n].Findings, c.Findings) {
			all[n].Culprit += fmt.Sprintf(", %v", l.To)
			continue
		}
		all = append(all, c)
	}
	return all
}

func closedOf(legs []fleet.Leg) (n int) {
	for _, l := range legs {
		if len(l.Refuses) > 0 {
			n++
		}
	}
	return n
}

// phaseName names the phase in which a leg begins.
func phaseName(p migrate.Phase) string {
	if p == migrate.NoPhase {
		return "start"
	}
	return p.String()
}

// phasesSection draws a row for each phase: how long the fleet stays in it at
// least, one after the other. Without members no time is known.
func phasesSection(road *fleet.Road) report.Section {
	s := report.Section{Title: "Phases over time",
		Words: "A bar is the least time that the fleet spends in a phase, if each step is taken as soon as its gate opens. The time at its right end is the earliest at which the gate to the next phase opens, counted from now.",
		Table: report.Table{Columns: []string{"phase", "gate to", "now", "at least", "open at the earliest"},
			Text: 3}}
	if f := road.Fleet; slices.Contains([]migrate.Source{f.Greatest.Source, f.Job.Source, f.Idle.Source},
		migrate.Unknown) {
		s.Words += " What is unknown of the old clients (below) is missing from these times: they can only grow."
	}
	if closedOf(road.Legs) > 0 {
		s.Words += " Red: that gate is closed now, see above."
	}
	if road.Wait == 0 {
		s.Words = "The times depend on the members' leases and heartbeats, and no program is registered."
	}
	unit, name := report.Unit(road.Wait)
	t := &report.Timeline{Name: "Timeline of the phases", X: "time from now, " + name, Plain: true}
	var at time.Duration
	for n, l := range road.Legs {
		from, bad := at, len(l.Refuses) > 0
		at += l.Wait
		earliest := at.Round(time.Second).String()
		says := fmt.Sprintf("the gate to %v opens after %s at the earliest", l.To, earliest)
		t.Rows = append(t.Rows, report.Row{Name: phaseName(l.From), Holds: []report.Span{
			{From: float64(from) / float64(unit), To: float64(at) / float64(unit), Says: says, Bad: bad}}})
		t.Marks = append(t.Marks, report.Mark{Row: n, At: float64(at) / float64(unit), Says: says, Bad: bad,
			Label: fmt.Sprintf("to %v: %s", l.To, earliest)})
		now := "not judged yet"
		switch {
		case bad:
			now = "closed"
			s.Table.Bad = append(s.Table.Bad, n)
		case n == 0:
			now = "open"
		}
		s.Table.Rows = append(s.Table.Rows, []string{phaseName(l.From), l.To.String(), now,
			l.Wait.Round(time.Second).String(), earliest})
		if road.Wait == 0 {
			s.Table.Rows[n][3], s.Table.Rows[n][4] = "-", "-"
		}
	}
	if road.Wait > 0 {
		s.Figure = t
	}
	return s
}

func needsSection(road *fleet.Road) report.Section {
	s := report.Section{Title: "What each gate waits for",
		Table: report.Table{Columns: []string{"gate to", "needs"}, Text: 2}}
	for _, l := range road.Legs {
		for _, need := range l.Needs {
			s.Table.Rows = append(s.Table.Rows, []string{l.To.String(), out.OneLine(need)})
		}
	}
	return s
}

func clientsSection(f migrate.Fleet) report.Section {
	s := report.Section{Title: "The old clients",
		Words: "What the times are computed from. Unknown is what nobody has claimed.",
		Table: report.Table{Columns: []string{"what", "value"}, Text: 2}}
	for _, row := range []struct {
		what string
		is   migrate.Known
	}{
		{"smallest lease", f.Lease}, {"greatest lease", f.Greatest}, {"clock spread", f.Spread},
		{"gap", f.Gap}, {"longest job", f.Job}, {"longest pause between two attempts", f.Idle},
		{"clocks behind the server", f.Behind}, {"clocks ahead of it", f.Ahead},
	} {
		s.Table.Rows = append(s.Table.Rows, []string{row.what, row.is.String()})
	}
	return s
}
