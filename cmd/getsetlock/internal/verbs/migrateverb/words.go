package migrateverb

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/fleet"
)

func printReport(e *out.Env, r *fleet.Report, asJSON bool) error {
	if asJSON {
		return e.PrintJSON(migrateDocument(r))
	}
	sayWhere(e, r)
	if r.Gate != nil {
		sayGate(e, r.Gate, r.Moved)
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
	sayWhere(e, r)
	if g := r.Gate; g != nil && verbose {
		sayGate(e, g, false)
	} else if g != nil {
		brief := *g
		brief.Evidence = nil
		sayGateLines(e, &brief, false)
		if n := len(g.Evidence); n > 0 {
			fmt.Fprintf(e.Stdout, "  evidence of the gate: %d facts, which --verbose shows\n", n)
		}
		fmt.Fprintln(e.Stdout)
	}
	sayNotes(e, r)
	return nil
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

// sayWhere prints the phase of the fleet and its members.
func sayWhere(e *out.Env, r *fleet.Report) {
	name := "all keys"
	if r.Namespace != "" {
		name = "namespace " + out.Escaped(r.Namespace)
	}
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
	if r.From != (migrate.Origin{}) {
		fmt.Fprintf(e.Stdout, "carved out of namespace %q (epoch %d there)\n\n", r.From.Namespace,
			r.From.Epoch)
	}
	for _, longer := range r.Except {
		fmt.Fprintf(e.Stdout, "without namespace %q, which was carved out of it\n\n", longer)
	}
	if len(r.Members) == 0 {
		fmt.Fprintf(e.Stdout, "no members\n\n")
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

func sayGate(e *out.Env, g *fleet.Gate, moved bool) {
	sayGateLines(e, g, moved)
	fmt.Fprintln(e.Stdout)
}

func sayGateLines(e *out.Env, g *fleet.Gate, moved bool) {
	state := "closed"
	switch {
	case moved:
		state = "passed"
	case g.Open:
		state = "open"
	}
	fmt.Fprintf(e.Stdout, "gate to %v: %s\n", g.To, state)
	for _, b := range g.Blocks {
		fmt.Fprintf(e.Stdout, "  closed by %s: %s\n", b.Rule, out.OneLine(b.Detail))
	}
	for _, f := range g.Evidence {
		fmt.Fprintf(e.Stdout, "  %s\n", evidenceLine(f))
	}
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
		return e.PrintJSON(logDocument{Schema: logSchema, Entries: append([]fleet.Entry{}, entries...)})
	}
	for _, l := range entries {
		parts := []string{clockTime(l.At), fmt.Sprintf("epoch %d", l.Epoch)}
		switch {
		case l.CarvedFrom != nil:
			parts = append(parts, fmt.Sprintf("carved out of namespace %q in %s", *l.CarvedFrom, l.To))
		case l.MergedInto != nil:
			parts = append(parts, fmt.Sprintf("merged into namespace %q in %s", *l.MergedInto, l.From))
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

func printRoad(e *out.Env, road *fleet.Road, asJSON bool) error {
	if asJSON {
		return e.PrintJSON(roadDocument(road))
	}
	sayWhere(e, road.Report)
	fmt.Fprintf(e.Stdout, "old clients: lease %v, greatest lease %v, clock spread %v, gap %v, longest job %v, clocks behind the server %v, ahead of it %v, idle %v\n\n",
		road.Fleet.Lease, road.Fleet.Greatest, road.Fleet.Spread, road.Fleet.Gap, road.Fleet.Job,
		road.Fleet.Behind, road.Fleet.Ahead, road.Idle)
	for _, l := range road.Legs {
		from := l.From.String()
		if l.From == migrate.NoPhase {
			from = "start"
		}
		fmt.Fprintf(e.Stdout, "%s to %v: at least %v\n", from, l.To, l.Wait.Round(time.Second))
		for _, need := range l.Needs {
			fmt.Fprintf(e.Stdout, "  needs: %s\n", out.OneLine(need))
		}
		for _, r := range l.Refuses {
			fmt.Fprintf(e.Stdout, "  for now closed by %s: %s\n", r.Rule, out.OneLine(r.Detail))
		}
		for _, f := range l.Evidence {
			fmt.Fprintf(e.Stdout, "  %s\n", evidenceLine(f))
		}
	}
	fmt.Fprintf(e.Stdout, "\nin total: at least %v\n", road.Wait.Round(time.Second))
	return nil
}
