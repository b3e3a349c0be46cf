package migrateverb

import (
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/audit"
	"github.com/getsetlock/getsetlock/audit/census"
)

// What is wrong with a clock is printed once for each client, and nothing else
// is.
func TestWatchReportsAWrongClockOnce(t *testing.T) {
	step := census.Finding{Severity: census.SeverityWarning, Kind: "step", Writer: "a:1", What: "a:1: clock stepped by 3s", Advice: "slew it"}
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
	if got := clockAlarms(&audit.Result{Findings: []census.Finding{later, other}}, said); len(got) != 1 || !strings.HasPrefix(got[0], "warning: a:1") {
		t.Errorf("%q", got)
	}
}
