// SPDX-License-Identifier: Apache-2.0

package migrateverb

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
)

// What is wrong with a clock is printed once for each client, and nothing else
// is.
func TestWatchReportsAWrongClockOnce(t *testing.T) {
	step := census.Finding{Severity: census.SeverityWarning, Kind: "step", Writer: "a:1",
		What: "a:1: clock stepped by 3s", Advice: "slew it"}
	later, other, note, overrun := step, step, step, step
	later.What = "a:1: clock stepped by 3.1s"
	other.Writer = "b:1"
	note.Severity, note.Kind = census.SeverityNote, "shared_address"
	overrun.Kind = "overrun"
	said := map[string]bool{}
	got := clockAlarms(&audit.Result{Findings: []census.Finding{step, note, overrun}}, said)
	if len(got) != 1 || got[0] != "warning: a:1: clock stepped by 3s; slew it" {
		t.Errorf("%q", got)
	}
	if got := clockAlarms(&audit.Result{Findings: []census.Finding{later, other}}, said); len(got) != 1 ||
		!strings.HasPrefix(got[0], "warning: a:1") {
		t.Errorf("%q", got)
	}
}

// TestWatchSaysWhyNoWindowGrows, and that the counters move meanwhile.
func TestWatchSaysWhyNoWindowGrows(t *testing.T) {
	at := time.UnixMilli(1)
	for want, s := range map[string]fleet.Sighting{
		"without --monitor no window is proved": {Window: fleet.Window{Missing: "not asked for"}},
		"without --monitor no window is proved; the server counts SETNX or GETSET: an old client tries, or another program sends it": {
			Window: fleet.Window{Missing: "not asked for"}, LastCalled: at},
		"MONITOR shows no attempt of an old client for 1m0s": {
			Window: fleet.Window{Quiet: time.Minute, QuietUntil: at}, LastCalled: at},
		"MONITOR proves no window: no right": {Window: fleet.Window{Missing: "no right"}},
		"MONITOR proves no window: 12 calls": {Window: fleet.Window{Hole: &fleet.Hole{Why: "12 calls"}}},
		"nothing seen yet":                   {LastCalled: at},
	} {
		if line := sightingLine(s); line != want {
			t.Errorf("%q, want %q", line, want)
		}
	}
}
