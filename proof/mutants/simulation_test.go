package mutants

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var simulation = flag.Int("simulation", 0,
	"play so many seeds of internal/sim against each mutant of the simulated packages, and count the kills")

// simulated are the folders whose code runs in internal/sim.
var simulated = []string{"lock/", "modern/", "legacy/", "migrate/"}

// complaint matches what internal/sim prints when a judge complains.
var complaint = regexp.MustCompile(`(?m)^\s*sim_test\.go:\d+: seed \d+: (\w+) at .*`)

// TestSimulationKillsMutants does nothing without -simulation. The flag
// -mutants narrows it. A mutant is killed if a judge complains; one that makes
// a play stand still, or run out of time, is not.
func TestSimulationKillsMutants(t *testing.T) {
	if *simulation == 0 {
		return
	}
	all, err := lists()
	if err != nil {
		t.Fatal(err)
	}
	killed, played := 0, 0
	for _, m := range all {
		if !m.simulated() {
			continue
		}
		played++
		verdict := m.play(t)
		if strings.HasPrefix(verdict, "killed") {
			killed++
		}
		fmt.Printf("%s: %s: %s\n", m.at, m.file, verdict)
	}
	fmt.Printf("the simulation kills %d of %d mutants within %d seeds\n", killed, played, *simulation)
}

// simulated reports whether the mutant's code runs in the simulation.
func (m mutant) simulated() bool {
	if *which != "" && *which != "all" && !strings.HasPrefix(m.file, *which) &&
		!strings.HasPrefix(m.at, *which) {
		return false
	}
	return slices.ContainsFunc(simulated,
		func(folder string) bool { return strings.HasPrefix(m.file, folder) })
}

// form is the only form of plan in which the mutant's code runs; empty: there
// are several.
func (m mutant) form() string {
	if strings.HasPrefix(m.file, "migrate/") {
		return "bridge"
	}
	return ""
}

// play plays the seeds against the mutant and says what came of it.
func (m mutant) play(t *testing.T) string {
	t.Helper()
	out, err := goTestWith("internal/sim", "", "^TestNoSeedBreaksAPromise$",
		[]string{"-overlay", m.overlay(t), "-timeout=20m"},
		fmt.Sprintf("-seeds=%d", *simulation), "-shrink=false", "-form="+m.form())
	said := complaint.FindString(out)
	switch {
	case err == nil:
		return "survived"
	case noReason.MatchString(out):
		return "does not compile"
	case said != "":
		_, said, _ = strings.Cut(strings.TrimSpace(said), ": ")
		return "killed: " + said
	case strings.Contains(out, "panic: sim: seed"):
		return "killed: panic"
	}
	return "no verdict: " + out[max(0, len(out)-200):]
}
