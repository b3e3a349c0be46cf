package proof

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/skew"
)

// Where a trace was found by giving ours a time that the rules forbid, the real code follows it if it is
// made to (see TestEveryKeptTrace…), and refuses to be made so.
func TestTimesThatYieldATraceAreRefused(t *testing.T) {
	files, err := filepath.Glob(traces + "LeaseRuleIsTight*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		for _, phase := range []skew.Phase{skew.PhaseObserve, skew.PhaseDual} {
			sc := kept(t, file).Scenario
			sc.Ours.Phase = phase
			if err := Configure(sc); !exceeds(err) {
				t.Errorf("%s, %s: %v", filepath.Base(file), phase, err)
			}
			sc.Ours.TTL--
			if err := Configure(sc); exceeds(err) {
				t.Errorf("%s, %s, a tick less: %v", filepath.Base(file), phase, err)
			}
		}
	}
}

// exceeds reports that the lease rule refused the TTL: "is too long", or "exceeds" the lease where old
// clients cut the key.
func exceeds(err error) bool {
	return err != nil && (strings.Contains(err.Error(), " is too long: ") || strings.Contains(err.Error(), " exceeds "))
}
