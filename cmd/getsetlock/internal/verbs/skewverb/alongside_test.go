// SPDX-License-Identifier: Apache-2.0

package skewverb

import (
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

// Getsetlock clients are not simulated. Where old clients take the lock, these
// are simulated alone, and the answer names what shows the real clients.
func TestSimulationPlaysOldClientsAlone(t *testing.T) {
	for _, protocol := range skewProtocols {
		got := skewed(t, "--job", "2s", "--lease", "5s", "--json", "--protocol", protocol)
		simulated := clitest.AnswerOf(t, got).At("simulation") != nil
		if alone := protocol == "sealed" || protocol == "modern"; alone == simulated {
			t.Errorf("%s: %s", protocol, got.Out)
		}
		got = skewed(t, "--job", "2s", "--lease", "5s", "--protocol", protocol)
		if named := strings.Contains(got.Out, "getsetlock rehearse --preset NAME --protocol "); named ==
			(protocol == "verbatim") {
			t.Errorf("%s: %s", protocol, got.Out)
		}
	}
}
