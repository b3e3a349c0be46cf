// SPDX-License-Identifier: Apache-2.0

package model

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Every kept trace can be walked, event by event, in the scenario that its head
// states.
func TestKeptTracesAreWalksOfTheirScenarios(t *testing.T) {
	files, err := filepath.Glob(traces + "*.txt")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := ParseTrace(string(text))
		if err != nil || tr.String() != string(text) {
			t.Errorf("%s reads back as\n%v, %v", file, tr, err)
			continue
		}
		w, err := NewWalk(tr.Scenario)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		walk(t, file, w, tr.Events)
	}
}

func walk(t *testing.T, file string, w *Walk, events []Event) {
	t.Helper()
	for _, e := range events {
		for w.Now < e.At {
			n := w.Find(Tick)
			if n < 0 {
				t.Errorf("%s: time may not pass at %d, before %q: %+v", file, w.Now, e, w.World())
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

func TestBrokenLineOfATraceIsNamed(t *testing.T) {
	for text, says := range map[string]string{
		`# {"Dialect":"Nobody"}`:                       "line 1",
		`# {"Dialect":"Jedis","Speed":3}`:              "line 1",
		`# {"Dialect":"Jedis","Goal":"glory"}`:         "not a goal",
		`# {"Dialect":"Jedis","Ours":{"Break":["x"]}}`: "not a rule",
		"0 old1 clock +0\nx old1 setnx won":            "line 2",
		"0 old1":                                       "is not TICK",
		"0 old1 clock +x":                              "is not TICK",
		"0 old1 setnx won again":                       "is not TICK",
	} {
		if _, err := ParseTrace(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

func TestRulesAreReadByTheirNames(t *testing.T) {
	all := Rule(1<<len(ruleNames) - 1)
	tr := Trace{Scenario: Scenario{Olds: Olds{Dialect: dialect.Jedis()}, Goal: untombed,
		Ours: Ours{Break: all}}}
	again, err := ParseTrace(tr.String())
	if sc := again.Scenario; err != nil || sc.Ours.Break != all || sc.Goal != untombed {
		t.Errorf("%v, %v, %v", sc.Ours.Break, sc.Goal, err)
	}
}

// follow takes events by their words, without ticks; "tick" lets one tick pass.
func follow(t *testing.T, sc Scenario, events ...string) *Walk {
	t.Helper()
	w, err := NewWalk(sc)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range events {
		e := Tick
		if text != "tick" {
			if e, err = parseEvent("0 " + text); err != nil {
				t.Fatal(err)
			}
		}
		n := w.Find(e)
		if n < 0 {
			t.Fatalf("%q is not among %v", text, w.Next())
		}
		w.Take(n)
	}
	return w
}

// Replay on the real clients found this: a renewal compared L's end with the
// new end that it had just given M. So it did not recognise L, and left it to
// run out.
func TestRenewalRenewsLAlsoWhereItsEndIsCompared(t *testing.T) {
	sc := Scenario{Olds: Olds{Dialect: dialect.Gorlock(), Old: 1, Lease: 6, Job: 4},
		Ours: Ours{Clients: 1, TTL: 4, Margin: 1}}
	first := follow(t, sc, "ours1 acquire won").World().L.Left
	if w := follow(t, sc, "ours1 acquire won", "tick", "ours1 renewed won").World(); w.L.Left != first {
		t.Errorf("L has %d ticks left after a renewal, %d after the acquisition", w.L.Left, first)
	}
}

// Replay found this too: a stamp that an old client judges by an old reading
// must not become live again where the model no longer distinguishes distances
// into the past.
func TestWornStampStaysExpiredForAStalledClient(t *testing.T) {
	sc := Scenario{Olds: Olds{Dialect: dialect.RedisPy(), Old: 2, Lease: 6, Job: 4, Gap: 3}}
	dead := []string{"old1 clock +0", "old1 setnx won", "old1 crash"}
	for range 20 {
		dead = append(dead, "tick")
	}
	w := follow(t, sc, append(dead, "old2 clock +0", "old2 setnx lost", "old2 get value", "tick", "tick",
		"tick")...)
	for _, e := range w.Next() {
		if e.What == "getset" {
			return
		}
	}
	t.Errorf("no GETSET among %v: %+v", w.Next(), w.World())
}
