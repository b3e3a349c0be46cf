// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// Each trial is made here too, so that the mutants of gates need no play.
func TestTrials(t *testing.T) {
	names := map[string]bool{}
	for _, c := range tried {
		name := c.name + " in " + c.from.String()
		if names[name] {
			t.Errorf("there are two trials of %s", name)
		}
		names[name] = true
		for seed := range uint64(4) {
			synctest.Test(t, func(t *testing.T) {
				server := redistest.Bubble(t)
				l := &lab{dice: dice{rand.New(rand.NewPCG(seed, 0))}, server: server, now: server.ServerNow()}
				if wrong := l.try(t, c); wrong != "" {
					t.Errorf("%s, from %v in %s: %s", c.name, l.record.Phase, l.options.Dialect.Name, wrong)
				}
			})
		}
	}
}
