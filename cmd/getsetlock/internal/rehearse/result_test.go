// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
)

// One seed gives one result. Scripts rely on these names, on null where a value
// is unknown, and on the groups' order. A missing name is a broken promise; a
// new name is a line in the changelog.
func TestJSONIsWhatScriptsRelyOn(t *testing.T) {
	var printed strings.Builder
	e := &out.Env{Stdout: &printed}
	for seed, protocol := range []string{"none", "none", "legacy", "bare", "watch"} {
		res := rehearse(t, func(p *Plan) {
			p.Protocol, p.Seed, p.Acquisitions, p.Poll = protocol, uint64(seed), 200, 300*time.Millisecond
			if protocol == "legacy" {
				p.Overruns = 2
			}
		})
		if err := e.PrintJSON(res); err != nil || res.History != nil {
			t.Fatal(res.History, err)
		}
	}
	golden.Check(t, "testdata/result.json", printed.String())
}
