package migrateverb

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/audit"
	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/migrate/fleet"
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

// TestWatchSaysThatTheCountersMove while no window can begin.
func TestWatchSaysThatTheCountersMove(t *testing.T) {
	s := fleet.Sighting{LastCalled: time.UnixMilli(1),
		Missing: map[fleet.Watch]string{fleet.WatchMonitor: "not asked for"}}
	if line := sightingLine(s); !strings.HasPrefix(line, "the server counts SETNX or GETSET") {
		t.Error(line)
	}
	s.Quiet = map[fleet.Watch]time.Duration{fleet.WatchStats: time.Minute}
	if line := sightingLine(s); line != "no attempt of an old client for 1m0s, watched by stats" {
		t.Error(line)
	}
}
