// SPDX-License-Identifier: Apache-2.0

package migrateverb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page begins with what closes gates, draws when each can open at the
// earliest, and is red only where a gate is closed.
func TestPageOfThePlanShowsWhenGatesOpen(t *testing.T) {
	tr := newTroupe(t)
	file := filepath.Join(t.TempDir(), "plan.html")
	claims := strings.Fields("--lease 60s --job 40s --spread 1s --gap 1s")
	page := func(words ...string) string {
		t.Helper()
		tr.ends(0, tr.verb(append([]string{"plan", "--quiet", "--report", file}, words...)...))
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	has := func(text string, all ...string) {
		t.Helper()
		for _, says := range all {
			if !strings.Contains(text, says) {
				t.Errorf("the page is without %q", says)
			}
		}
	}
	empty := page()
	has(empty, "From start to clean: ", "Gate to dual, sealed, modern, clean</strong>",
		"members: no program is",
		"no program is registered.", "<td class=\"words\">closed</td><td>-</td><td>-</td>")
	if strings.Contains(empty, "<svg") {
		t.Error("times are drawn that nobody knows")
	}
	tr.ends(0, tr.verb("init", "--dialect", "jedis"))
	tr.join("stock", "a")
	unknown := page()
	has(unknown, "closed as of now: 1 of 4 gates.", "job: the old clients&#39; longest job is unknown",
		"they can only grow", `class="holds wrong"`, "from now, seconds</text>")
	known := page(append(claims, "--idle", "96h")...)
	has(known, "the next gate is open.", "from now, days</text>", "opens after 96h", ">to clean: 192h",
		"Made by: getsetlock migrate plan --gap &#39;1s&#39; --idle ")
	if strings.Contains(known, `class="holds wrong"`) || strings.Contains(known, "they can only grow") {
		t.Error("an open gate is red")
	}
	tr.ends(2, tr.verb("status", "--report", file))
	if s := tr.ends(3, tr.verb("plan", "--report", "/no/such/folder/x.html")); s.Out != "" {
		t.Errorf("%+v", s)
	}
}
