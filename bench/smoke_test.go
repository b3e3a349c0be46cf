//go:build real

package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test program be a process of a measurement, like the
// command.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == child {
		if err := Child(adapters(), os.Stdin, os.Stdout); err != nil {
			os.Exit(2)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The test checks no figure, only that there are some. The scenario that takes
// seconds of TTL is tried with few adapters.
func TestEveryScenarioMeasuresEveryAdapter(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	server, err := startServer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer server.stop()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := &members{}
	defer m.stop()
	scenarios := everyScenario(m)
	for i := range scenarios {
		if scenarios[i].Name == "killed" {
			scenarios[i].Adapters = []string{"bare", "modern", "rueidislock"}
		}
	}
	r := Runner{
		Adapters: everyAdapter(), Scenarios: scenarios,
		Addr: server.addr, Child: []string{self, child}, Quick: true,
	}
	rep, err := r.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range rep.Failures {
		t.Log(failure)
	}
	own := Own()
	for _, s := range scenarios {
		for _, name := range s.Adapters {
			has := func(row Row) bool { return row.Scenario == s.Name && row.Adapter == name }
			ours := slices.ContainsFunc(own, func(a Adapter) bool { return a.Name == name })
			// On a busy machine another library may hang; one scenario suffices
			// to show that it is measured at all.
			if !ours && s.Name != "uncontended" && !strings.HasPrefix(s.Name, "java/") {
				continue
			}
			if !slices.ContainsFunc(rep.Rows, has) {
				t.Errorf("%s has no row of %s", s.Name, name)
			}
		}
	}
	for _, s := range scenarios {
		if !strings.Contains(rep.Tables(scenarios), "### "+s.Name+":") {
			t.Errorf("no table of %s", s.Name)
		}
	}
}
