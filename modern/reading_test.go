package modern

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// TestAReadingOfTheServersClockIsToldWhileItIsGood: a machine that slept, and a clock that was stepped,
// do not make an old reading young, and nothing makes what is told run ahead of the server.
func TestAReadingOfTheServersClockIsToldWhileItIsGood(t *testing.T) {
	const ms = time.Millisecond
	came := lock.Instant{Wall: time.Unix(1_700_000_000, 0), Elapsed: time.Hour}
	for _, c := range []struct {
		wall, elapsed, told time.Duration
		good                bool
	}{
		{0, 0, 0, true},
		{40 * ms, 40 * ms, 40 * ms, true},
		{40 * ms, 41 * ms, 40 * ms, true},
		{41 * ms, 40 * ms, 40 * ms, true},
		{99 * ms, 99 * ms, 99 * ms, true},
		{100 * ms, 99 * ms, 0, false}, // suspended, or stepped forward
		{99 * ms, 100 * ms, 0, false},
		{-ms, 10 * ms, 0, false}, // stepped back
		{10 * ms, -ms, 0, false}, // an instant from before the reading
	} {
		clock := serverClock{}
		if _, ok := clock.at(came); ok {
			t.Error("a clock that was never read is told")
		}
		clock.last.Store(&reading{micros: 5_000_000, came: came})
		micros, ok := clock.at(lock.Instant{Wall: came.Wall.Add(c.wall), Elapsed: came.Elapsed + c.elapsed})
		if ok != c.good || ok && micros != 5_000_000+c.told.Microseconds() {
			t.Errorf("wall %v, elapsed %v: told %v as %d", c.wall, c.elapsed, ok, micros)
		}
		if clock.forget(); ok {
			if _, ok := clock.at(came); ok {
				t.Error("a reading of another server is told")
			}
		}
	}
}
