// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
)

// liveLines returns what prints a line about a watch that began now, each time
// it is called. total is how long the watch takes; 0: it has no end.
func liveLines(e *out.Env, quiet bool, total time.Duration) func(*audit.Result) {
	begun := time.Now()
	return func(r *audit.Result) {
		passed := time.Since(begun).Round(time.Second).String()
		if total > 0 {
			passed += " of " + total.String()
		}
		wrong := 0
		for _, f := range r.Findings {
			if bad([]census.Finding{f}) {
				wrong++
			}
		}
		v := &r.Evidence
		e.Say(quiet, "watching, %s: %d keys, %d writers, %d acquisitions, %d takeovers, clock spread at least %s, %d findings",
			passed, len(v.Keys), len(v.Writers), v.Counts.Acquisitions, v.Counts.Takeovers,
			out.Short(v.Spread.Apart), wrong)
	}
}
