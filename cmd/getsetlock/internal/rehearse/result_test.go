// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
)

// One seed gives one result, and only the fleet without a lock oversells.
// Scripts rely on these names, on null where a value is unknown, and on the
// groups' order. A missing name is a broken promise; a new name is a line in
// the changelog.
func TestJSONIsWhatScriptsRelyOn(t *testing.T) {
	var printed strings.Builder
	e := &out.Env{Stdout: &printed}
	protocols := []string{"none", "none", "legacy", "bare", "watch", "dual", "modern", "none"}
	for seed, protocol := range protocols {
		res := rehearse(t, func(p *Plan) {
			p.Protocol, p.Seed, p.Acquisitions, p.Poll = protocol, uint64(seed), 200, 300*time.Millisecond
			switch {
			case protocol == "legacy":
				p.Overruns = 2
			case seed == 7: // a program alone oversells nothing
				p.Clients = 1
			}
		})
		if err := e.PrintJSON(res); err != nil || res.History != nil {
			t.Fatal(res.History, err)
		}
	}
	golden.Check(t, "testdata/result.json", printed.String())
}
