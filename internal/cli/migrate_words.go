package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/migrate"
)

func (e *Env) printReport(r *migrate.Report, asJSON bool) error {
	if asJSON {
		return e.printJSON(migrateDocument(r))
	}
	e.sayWhere(r)
	if r.Gate != nil {
		e.sayGate(r.Gate, r.Moved)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(e.Stdout, oneLine(note))
	}
	return nil
}

// sayWhere prints where the fleet is and who belongs to it.
func (e *Env) sayWhere(r *migrate.Report) {
	name := "all keys"
	if r.Namespace != "" {
		name = "namespace " + escaped(r.Namespace)
	}
	if r.Phase == migrate.NoPhase {
		fmt.Fprintf(e.Stdout, "%s: no record\n\n", name)
	} else {
		fmt.Fprintf(e.Stdout, "%s: phase %v since %s, epoch %d, dialect %s\n\n", name, r.Phase, clockTime(r.Since), r.Epoch, r.Dialect)
	}
	if len(r.Members) == 0 {
		fmt.Fprintf(e.Stdout, "no members\n\n")
		return
	}
	g := newGrid(left("member"), left("name"), left("phase"), right("seen"), right("leases"), right("behind"), right("ahead"), left("scripts"))
	for _, m := range r.Members {
		g.add(m.ID, dashIfEmpty(escaped(m.Name)), m.Phase.String(), rounded(r.ServerNow.Sub(m.Seen))+" ago", leasesOf(m),
			claimWords(m.Behind), claimWords(m.Ahead), dashIfEmpty(shortened(m.Probe, 60)))
	}
	e.print(g)
	fmt.Fprintln(e.Stdout)
}

// claimWords is a field of dialect.Terms in a table.
func claimWords(field time.Duration) string {
	d, known := dialect.Claimed(field)
	if !known {
		return "-"
	}
	return d.String()
}

// leasesOf lists a member's leases by the phase they were taken in.
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

func (e *Env) sayGate(g *migrate.Gate, moved bool) {
	state := "closed"
	switch {
	case moved:
		state = "passed"
	case g.Open:
		state = "open"
	}
	fmt.Fprintf(e.Stdout, "gate to %v: %s\n", g.To, state)
	for _, b := range g.Blocks {
		fmt.Fprintf(e.Stdout, "  closed by %s: %s\n", b.Rule, oneLine(b.Detail))
	}
	for _, f := range g.Evidence {
		fmt.Fprintf(e.Stdout, "  %s\n", evidenceLine(f))
	}
	fmt.Fprintln(e.Stdout)
}

func evidenceLine(f migrate.Finding) string {
	line := f.Rule + ": " + oneLine(f.Detail)
	if f.Claimed {
		line = "CLAIMED " + line
	}
	if !f.Seen.IsZero() {
		line += " [" + clockTime(f.Seen) + "]"
	}
	return line
}

func (e *Env) printRoad(road *migrate.Road, asJSON bool) error {
	if asJSON {
		return e.printJSON(roadDocument(road))
	}
	e.sayWhere(road.Report)
	fmt.Fprintf(e.Stdout, "old clients: lease %v, greatest %v, spread %v, gap %v, job %v, behind the server %v, ahead of it %v\n\n",
		road.Fleet.Lease, road.Fleet.Greatest, road.Fleet.Spread, road.Fleet.Gap, road.Fleet.Job, road.Fleet.Behind, road.Fleet.Ahead)
	for _, l := range road.Legs {
		from := l.From.String()
		if l.From == migrate.NoPhase {
			from = "the beginning"
		}
		fmt.Fprintf(e.Stdout, "%s to %v: at least %v\n", from, l.To, l.Wait.Round(time.Second))
		for _, need := range l.Needs {
			fmt.Fprintf(e.Stdout, "  needs: %s\n", oneLine(need))
		}
		for _, r := range l.Refuses {
			fmt.Fprintf(e.Stdout, "  as things are, closed by %s: %s\n", r.Rule, oneLine(r.Detail))
		}
		for _, f := range l.Evidence {
			fmt.Fprintf(e.Stdout, "  %s\n", evidenceLine(f))
		}
	}
	fmt.Fprintf(e.Stdout, "\nin all: at least %v\n", road.Wait.Round(time.Second))
	return nil
}

func dashIfEmpty(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
