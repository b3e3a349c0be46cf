package skew

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every trace that is kept can be walked, event by event, in the scenario that its head tells.
func TestKeptTracesAreWalksOfTheirScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/traces/*.txt")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sc, err := ParseScenario(strings.NewReader(string(text)))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		events, err := ParseTrace(strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if again := (Trace{Scenario: sc, Events: events}).String(); again != string(text) {
			t.Errorf("%s reads back as\n%s", file, again)
		}
		w, err := NewWalk(sc)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		walk(t, file, w, events)
	}
}

func walk(t *testing.T, file string, w *Walk, events []Event) {
	t.Helper()
	for _, e := range events {
		for w.Now() < e.At {
			n := w.Find(Tick)
			if n < 0 {
				t.Errorf("%s: time may not go on at %d, before %q: %+v", file, w.Now(), e, w.World())
				return
			}
			w.Take(n)
		}
		n := w.Find(e)
		if n < 0 {
			t.Errorf("%s: %q is not among %v in %+v", file, e, w.Next(), w.World())
			return
		}
		w.Take(n)
	}
}

func TestHeadWithABrokenLineNamesTheLine(t *testing.T) {
	for text, says := range map[string]string{
		"# trace 2":                        "line 1: format",
		"# trace 1\n# goal peace":          "line 2",
		"# dialect Nobody":                 "line 1",
		"# old 2 lease":                    "not known",
		"# old two":                        "no number",
		"# with wings":                     "no option",
		"# with fleet step far":            "no number",
		"# without anything":               "no rule",
		"# trace 1\n# speed 3\n0 old1 del": "line 2",
	} {
		if _, err := ParseScenario(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	sc, err := ParseScenario(strings.NewReader("# without no phase, no lock, token compared\n"))
	if want := RuleNoPhaseNoLock | RuleToken; err != nil || sc.Ours.Break != want {
		t.Error(cmp.Or(err, nil), sc.Ours.Break)
	}
}
