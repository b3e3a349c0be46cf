// SPDX-License-Identifier: Apache-2.0

package migrateverb

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/migrate"
)

func printReport(e *out.Env, r *fleet.Report, asJSON, verbose bool) error {
	if asJSON {
		return e.PrintJSON(migrateDocument(r))
	}
	sayWhere(e, r, verbose)
	if r.Gate != nil {
		sayGate(e, r.Gate, r.Moved, verbose)
	}
	sayNotes(e, r)
	return nil
}

func sayNotes(e *out.Env, r *fleet.Report) {
	for _, note := range r.Notes {
		fmt.Fprintln(e.Stdout, out.OneLine(note))
	}
}

// printStatus prints the phases in one line, the members, and what closes the
// next gate. With verbose, it also prints the evidence of that gate.
func printStatus(e *out.Env, r *fleet.Report, asJSON, verbose bool) error {
	if asJSON {
		return e.PrintJSON(migrateDocument(r))
	}
	fmt.Fprintln(e.Stdout, phaseLine(r))
	sayWhere(e, r, verbose)
	sayClaims(e, r.Claims)
	if g := r.Gate; g != nil && verbose {
		sayGate(e, g, false, verbose)
	} else if g != nil {
		brief := *g
		brief.Evidence = nil
		sayGateLines(e, &brief, false, verbose)
		if n := len(g.Evidence); n > 0 {
			fmt.Fprintf(e.Stdout, "  evidence of the gate: %d facts, which --verbose shows\n", n)
		}
		fmt.Fprintln(e.Stdout)
	}
	sayNotes(e, r)
	return nil
}

// sayClaims prints what is claimed of the old clients, and what contradicts it.
func sayClaims(e *out.Env, claims []fleet.Claim) {
	for _, c := range claims {
		against := "nothing seen contradicts it"
		if c.Against != "" {
			against = "CONTRADICTED: " + out.OneLine(c.Against)
		}
		fmt.Fprintf(e.Stdout, "claim %s %v: %s\n", c.Flag, c.Time, against)
	}
	if len(claims) > 0 {
		fmt.Fprintln(e.Stdout)
	}
}

// phaseLine returns all phases in a line, the current one in brackets, and what
// is missing for the next step.
func phaseLine(r *fleet.Report) string {
	names := make([]string, 0, len(migrate.Phases()))
	for _, p := range migrate.Phases() {
		name := p.String()
		if p == r.Phase {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	return strings.Join(names, " > ") + "; " + nextStep(r)
}

// nextStep says what is missing for the next step.
func nextStep(r *fleet.Report) string {
	text := ""
	if r.Pending != migrate.NoPhase {
		text = fmt.Sprintf("the step from %v is not complete; ", r.Pending)
	}
	switch g := r.Gate; {
	case r.Phase == migrate.NoPhase && g == nil:
		return text + "not begun: migrate init begins"
	case g == nil:
		return text + "no step is left"
	case g.Open:
		verb := "advance"
		if g.To == migrate.Clean {
			verb = "clean"
		}
		return text + fmt.Sprintf("nothing is missing for %v: migrate %s --go goes there", g.To, verb)
	default:
		var rules []string
		for _, b := range g.Blocks {
			if !slices.Contains(rules, b.Rule) {
				rules = append(rules, b.Rule)
			}
		}
		return text + fmt.Sprintf("missing for %v: %s", g.To, strings.Join(rules, ", "))
	}
}

// sayWhere prints the phase of the fleet and its members. Many members are
// grouped, unless verbose.
func sayWhere(e *out.Env, r *fleet.Report, verbose bool) {
	name := namespaceOf(r)
	if r.Phase == migrate.NoPhase {
		fmt.Fprintf(e.Stdout, "%s: no record\n\n", name)
	} else {
		target := ""
		if r.Target != "" {
			target = ", target " + out.Escaped(r.Target)
		}
		fmt.Fprintf(e.Stdout, "%s: phase %v since %s, epoch %d, dialect %s%s\n\n", name, r.Phase,
			clockTime(r.Since), r.Epoch, r.Dialect, target)
	}
	if len(r.Members) == 0 {
		fmt.Fprintf(e.Stdout, "no members\n\n")
		return
	}
	if len(r.Members) > mostMembers && !verbose {
		sayGroups(e, r)
		return
	}
	seen := func(m migrate.MemberState) string {
		if !m.Leaving.IsZero() {
			return "leaving until " + clockTime(m.Leaving)
		}
		return out.Rounded(r.ServerNow.Sub(m.Seen)) + " ago"
	}
	heads := []out.Column{out.Left("member"), out.Left("name"), out.Left("phase"), out.Right("seen"),
		out.Right("leases"), out.Right("behind"), out.Right("ahead"), out.Left("scripts")}
	targets := slices.ContainsFunc(r.Members, func(m migrate.MemberState) bool { return m.Target != "" })
	if targets {
		heads = append(heads, out.Left("target"))
	}
	g := out.NewGrid(heads...)
	for _, m := range r.Members {
		row := []any{m.ID, out.Dashed(out.Escaped(m.Name)), m.Phase.String(), seen(m), leasesOf(m),
			claimWords(m.Behind), claimWords(m.Ahead), out.Dashed(out.Shortened(m.Probe, 60))}
		if targets {
			row = append(row, out.Dashed(out.Escaped(m.Target)))
		}
		g.Add(row...)
	}
	e.Print(g)
	fmt.Fprintln(e.Stdout)
}

func namespaceOf(r *fleet.Report) string {
	if r.Namespace == "" {
		return "all keys"
	}
	return "namespace " + out.Escaped(r.Namespace)
}

// mostMembers is the greatest number of members that are listed one by one
// without --verbose. mostGroups is the greatest number of groups.
const (
	mostMembers = 10
	mostGroups  = 8
)

// sayGroups prints the members that act alike in one line, the largest group
// first.
func sayGroups(e *out.Env, r *fleet.Report) {
	type group struct {
		phase, state, scripts, target string
	}
	members := map[group][]migrate.MemberState{}
	for _, m := range r.Members {
		g := group{m.Phase.String(), "", out.Dashed(out.Shortened(m.Probe, 60)),
			out.Dashed(out.Escaped(m.Target))}
		if !m.Leaving.IsZero() {
			g.state = "leaving"
		}
		members[g] = append(members[g], m)
	}
	groups := slices.SortedFunc(maps.Keys(members), func(a, b group) int {
		return cmp.Or(cmp.Compare(len(members[b]), len(members[a])),
			strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	grid := out.NewGrid(out.Right("members"), out.Left("phase"), out.Left(""), out.Right("last seen"),
		out.Right("leases"), out.Left("scripts"), out.Left("target"))
	for _, g := range groups[:min(len(groups), mostGroups)] {
		oldest, leases := r.ServerNow, 0
		for _, m := range members[g] {
			if m.Seen.Before(oldest) {
				oldest = m.Seen
			}
			for _, n := range m.Leases {
				leases += n
			}
		}
		grid.Add(len(members[g]), g.phase, g.state, "at most "+out.Rounded(r.ServerNow.Sub(oldest))+" ago",
			leases,
			g.scripts, g.target)
	}
	e.Print(grid)
	if more := len(groups) - mostGroups; more > 0 {
		fmt.Fprintf(e.Stdout, "and %d smaller groups\n", more)
	}
	fmt.Fprintf(e.Stdout, "%d members in all; --verbose lists each\n\n", len(r.Members))
}

// claimWords returns a field of dialect.Terms as a table shows it.
func claimWords(field time.Duration) string {
	d, known := dialect.Claimed(field)
	if !known {
		return "-"
	}
	return d.String()
}

// leasesOf lists a member's leases by the phase in which they were acquired.
func leasesOf(m migrate.MemberState) string {
	var parts []string
	for _, p := range migrate.Phases() {
		if n := m.Leases[p]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %v", n, p))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}

func clockTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func sayGate(e *out.Env, g *fleet.Gate, moved, verbose bool) {
	sayGateLines(e, g, moved, verbose)
	fmt.Fprintln(e.Stdout)
}

func sayGateLines(e *out.Env, g *fleet.Gate, moved, verbose bool) {
	state := "closed"
	switch {
	case moved:
		state = "passed"
	case g.Open:
		state = "open"
	}
	fmt.Fprintf(e.Stdout, "gate to %v: %s\n", g.To, state)
	sayFindings(e, g.Blocks, verbose, func(f fleet.Finding) string {
		return fmt.Sprintf("closed by %s: %s", f.Rule, out.OneLine(f.Detail))
	})
	sayFindings(e, g.Evidence, verbose, evidenceLine)
}

// mostAlike is the greatest number of findings of one rule that are printed
// without --verbose.
const mostAlike = 3

// sayFindings prints findings, a line each.
func sayFindings(e *out.Env, all []fleet.Finding, verbose bool, line func(fleet.Finding) string) {
	for _, text := range findingLines(all, verbose, line) {
		fmt.Fprintf(e.Stdout, "  %s\n", text)
	}
}

// findingLines returns a line for each finding, and of many of one rule the
// first ones and how many there are.
func findingLines(all []fleet.Finding, verbose bool, line func(fleet.Finding) string) (lines []string) {
	of, said := map[string]int{}, map[string]int{}
	for _, f := range all {
		of[f.Rule]++
	}
	for _, f := range all {
		said[f.Rule]++
		switch more := of[f.Rule] - mostAlike; {
		case verbose || more <= 1 || said[f.Rule] <= mostAlike:
			lines = append(lines, line(f))
		case said[f.Rule] == mostAlike+1:
			lines = append(lines, fmt.Sprintf("%s: %d more like these; --verbose shows them", f.Rule, more))
		}
	}
	return lines
}

func evidenceLine(f fleet.Finding) string {
	line := f.Rule + ": " + out.OneLine(f.Detail)
	if f.Claimed {
		line = "CLAIMED " + line
	}
	if !f.Seen.IsZero() {
		line += " [" + clockTime(f.Seen) + "]"
	}
	return line
}

// printLog prints the log, one entry a line.
func printLog(e *out.Env, entries []fleet.Entry, asJSON bool) error {
	if asJSON {
		return e.PrintJSON(LogDocument{Schema: logSchema, Entries: entries})
	}
	for _, l := range entries {
		parts := []string{clockTime(l.At), fmt.Sprintf("epoch %d", l.Epoch)}
		switch {
		case l.To != "" && l.From == l.To:
			parts = append(parts, fmt.Sprintf("the step to %s is complete", l.To))
		case l.To != "":
			parts = append(parts, fmt.Sprintf("%s to %s", l.From, l.To))
		case l.Lost:
			parts = append(parts, "members may have been missing from the roster")
		}
		for _, who := range l.Forgotten {
			parts = append(parts, "forgot "+out.Escaped(who))
		}
		parts = append(parts, "on "+out.Escaped(l.Who))
		for _, c := range l.Claims {
			parts = append(parts, "CLAIMED "+out.OneLine(c))
		}
		fmt.Fprintln(e.Stdout, strings.Join(parts, "; "))
	}
	return nil
}

func printRoad(e *out.Env, road *fleet.Road, asJSON, verbose bool) error {
	if asJSON {
		return e.PrintJSON(roadDocument(road))
	}
	sayWhere(e, road.Report, verbose)
	fmt.Fprintf(e.Stdout, "old clients: lease %v, greatest lease %v, clock spread %v, gap %v, longest job %v, clocks behind the server %v, ahead of it %v, idle %v\n\n",
		road.Fleet.Lease, road.Fleet.Greatest, road.Fleet.Spread, road.Fleet.Gap, road.Fleet.Job,
		road.Fleet.Behind, road.Fleet.Ahead, road.Fleet.Idle)
	for _, l := range road.Legs {
		fmt.Fprintf(e.Stdout, "%s to %v: at least %v\n", phaseName(l.From), l.To, l.Wait.Round(time.Second))
		for _, need := range l.Needs {
			fmt.Fprintf(e.Stdout, "  needs: %s\n", out.OneLine(need))
		}
		sayFindings(e, l.Refuses, verbose, func(f fleet.Finding) string {
			return fmt.Sprintf("for now closed by %s: %s", f.Rule, out.OneLine(f.Detail))
		})
		sayFindings(e, l.Evidence, verbose, evidenceLine)
	}
	fmt.Fprintf(e.Stdout, "\nin total: at least %v\n", road.Wait.Round(time.Second))
	sayNotes(e, road.Report)
	return nil
}
