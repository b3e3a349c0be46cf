package tally

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// A suspended machine or a stepped clock must not make an old reading young.
func TestNumbersAreCountedOnWhileAReadingIsGood(t *testing.T) {
	const ms = time.Millisecond
	sent := lock.Instant{Wall: time.Unix(1_700_000_000, 0), Elapsed: time.Hour}
	for _, c := range []struct {
		wall, elapsed time.Duration
		good          bool
	}{
		{0, 0, true},
		{40 * ms, 40 * ms, true},
		{40 * ms, 41 * ms, true},
		{41 * ms, 40 * ms, true},
		{99 * ms, 99 * ms, true},
		{100 * ms, 99 * ms, false}, // suspended, or stepped forward
		{99 * ms, 100 * ms, false},
		{-ms, 10 * ms, false}, // stepped back
		{10 * ms, -ms, false}, // an instant from before the reading
	} {
		tally := &Counted{}
		if tally.at(sent) != nil {
			t.Error("a number was counted on from a counter that was never read")
		}
		read := &reading{5_000_000, sent}
		tally.note(nil, read)
		now := lock.Instant{Wall: sent.Wall.Add(c.wall), Elapsed: sent.Elapsed + c.elapsed}
		if r := tally.at(now); r != nil && r != read || (r != nil) != c.good {
			t.Errorf("wall %v, elapsed %v: counted on from %v", c.wall, c.elapsed, r)
		}
		tally.Forget()
		if tally.at(sent) != nil {
			t.Error("a number was counted on from another server's counter")
		}
	}
}

// A reply may be processed only after everything was forgotten.
func TestReadingOfALostConnectionIsNotKept(t *testing.T) {
	now := lock.Instant{Wall: time.Unix(1_700_000_000, 0), Elapsed: time.Hour}
	tally := &Counted{}
	for _, read := range []bool{false, true} {
		was := tally.last.Load()
		tally.Forget()
		tally.note(was, &reading{5_000_000, now})
		if tally.at(now) != nil {
			t.Errorf("read before: %v: a number was counted on from it", read)
		}
		next := &reading{6_000_000, now}
		tally.note(tally.last.Load(), next)
		if tally.at(now) != next {
			t.Errorf("read before: %v: no number was counted on from the next reading", read)
		}
	}
}
