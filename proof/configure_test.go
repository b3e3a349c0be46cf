// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/proof/internal/model"
)

// Some traces were found by giving a getsetlock client a time that the rules
// forbid. The real code follows such a trace if it is made to (see
// TestEveryKeptTraceReplaysOnTheRealClients). Its configuration refuses such
// times.
func TestTimesThatYieldATraceAreRefused(t *testing.T) {
	files, err := filepath.Glob(traces + "LeaseRuleIsTight*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		for _, phase := range []model.Phase{model.PhaseObserve, model.PhaseDual} {
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

// exceeds reports whether the lease rule refused the TTL: it "is too long", or
// "exceeds" the lease where old clients cut the key.
func exceeds(err error) bool {
	return err != nil && (strings.Contains(err.Error(), " is too long: ") ||
		strings.Contains(err.Error(), " exceeds "))
}
