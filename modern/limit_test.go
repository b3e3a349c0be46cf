// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

// TestNumbersRepeatOnlyAfterLostWritesAndASlowClock pins the limit of fencing
// numbers that the documents name. A number repeats only if a promoted server
// lost the last writes and its clock is behind by more than the fail-over took.
func TestNumbersRepeatOnlyAfterLostWritesAndASlowClock(t *testing.T) {
	const took = 3 * time.Second // from the last grant to the first grant by the promoted server
	for _, c := range []struct {
		lost    bool
		behind  time.Duration
		greater bool
	}{
		{false, time.Hour, true},
		{true, 0, true},
		{true, took - time.Millisecond, true},
		{true, took + time.Millisecond, false},
	} {
		bubble(t, func(t *testing.T, w *redistest.World) {
			b := open(t, w, modern.Config{Fence: true})
			g := try(t, b, "k")
			if c.lost {
				w.Mini.FlushAll()
			} else {
				free(t, g)
			}
			w.Pass(took)
			w.StepServer(-c.behind)
			next := try(t, b, "k")
			if greater := next.(backend.Fenced).Fence() > g.(backend.Fenced).Fence()+7; greater != c.greater {
				t.Errorf("writes lost: %v, clock behind by %v: %d after %d", c.lost, c.behind,
					next.(backend.Fenced).Fence(), g.(backend.Fenced).Fence())
			}
			free(t, next)
		})
	}
}
