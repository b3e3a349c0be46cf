package modern_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// TestNumbersRepeatOnlyWhereWritesAreLostAndTheClockIsBehind pins the limit of fencing numbers that the
// documents name: a promoted server that lost the last writes, with a clock that is behind by more than
// the fail-over took.
func TestNumbersRepeatOnlyWhereWritesAreLostAndTheClockIsBehind(t *testing.T) {
	const took = 3 * time.Second // from the last grant to the first by the promoted server
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
			if greater := next.(lock.Fenced).Fence() > g.(lock.Fenced).Fence()+7; greater != c.greater {
				t.Errorf("writes lost: %v, clock behind by %v: %d after %d", c.lost, c.behind, next.(lock.Fenced).Fence(), g.(lock.Fenced).Fence())
			}
			free(t, next)
		})
	}
}
