package cli

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/bench"
	"github.com/getsetlock/getsetlock/internal/redistest"
)

// The test program is the processes of a measurement too.
func init() {
	if len(os.Args) == 2 && os.Args[1] == benchProcessVerb {
		if bench.Child(bench.Own(), os.Stdin, os.Stdout) != nil {
			os.Exit(codeUse)
		}
		os.Exit(codeWell)
	}
}

func TestBenchMeasuresOursBesideBareCommandsAndLeavesNoKey(t *testing.T) {
	s := newStage(t)
	got := s.run("bench", "--quick", "--scenario", "uncontended,legacy", "--json")
	if got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.errors)
	}
	var doc struct {
		Schema string
		Rows   []bench.Row
	}
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"uncontended bare", "uncontended modern", "uncontended modern, fenced", "legacy legacy, verbatim", "legacy legacy, hardened"} {
		found := slices.ContainsFunc(doc.Rows, func(r bench.Row) bool {
			return r.Scenario+" "+r.Adapter == want && r.Metric == "us_p50" && r.Value > 0 && r.Ratio != nil
		})
		if !found {
			t.Errorf("no time and ratio of %s", want)
		}
	}
	if doc.Schema != "getsetlock.bench/1" {
		t.Errorf("schema %q", doc.Schema)
	}
	for _, list := range []string{"rows", "failures", "notes"} {
		if strings.Contains(got.out, `"`+list+`": null`) {
			t.Errorf("%s is no list", list)
		}
	}
	redistest.NoKeys(t, s.world.Pool())
}

func TestBenchPrintsATableAScenario(t *testing.T) {
	got := newStage(t).run("bench", "--quick", "--quiet", "--scenario", "keys/64")
	for _, want := range []string{"keys/64: 64 goroutines, a key each\n", "ACQUISITIONS/S", "\nmodern, fenced "} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in\n%s", want, got.out)
		}
	}
	if got.code != 0 || got.errors != "" {
		t.Errorf("exit %d: %s", got.code, got.errors)
	}
}

func TestBenchRefusesWhatItCannotMeasure(t *testing.T) {
	s := newStage(t)
	refuses := "redis://" + s.world.Wire(redistest.Rule{Command: "SET", Times: -1, Do: redistest.Answer(redistest.NoPerm)}).Listen()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"bench", "--redis", refuses, "--quick", "--scenario", "uncontended"}, 3, "uncontended (modern): warming up"},
		{[]string{"bench", "--scenario", "uncontended,etcd"}, 2, `no scenario is called "etcd"; there are: uncontended, keys/64`},
		{[]string{"bench", "--rounds", "-1"}, 2, "--rounds is -1"},
		{[]string{"bench", "--quick", "--scenario", "uncontended", "--rounds", "0"}, 2, "--rounds is 0"},
		{[]string{"bench", "--redis", "redis://127.0.0.1:1"}, 3, "measuring on redis://127.0.0.1:1"},
		{[]string{benchProcessVerb}, 2, "started by a benchmark"},
	} {
		got := s.run(c.args...)
		if got.code != c.code || !strings.Contains(got.errors, c.says) {
			t.Errorf("%v: exit %d, %q; want %d, %q", c.args, got.code, got.errors, c.code, c.says)
		}
	}
}
