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
		if _, from := clock.at(came); from != nil {
			t.Error("a clock that was never read is told")
		}
		clock.note(nil, &reading{5_000_000, came, came})
		micros, from := clock.at(after(came, c.wall, c.elapsed))
		if ok := from != nil; ok != c.good || ok && micros != 5_000_000+c.told.Microseconds() {
			t.Errorf("wall %v, elapsed %v: told %v as %d", c.wall, c.elapsed, ok, micros)
		}
		clock.forget()
		if _, from := clock.at(came); from != nil {
			t.Error("a reading of another server is told")
		}
	}
}

func after(i lock.Instant, wall, elapsed time.Duration) lock.Instant {
	return lock.Instant{Wall: i.Wall.Add(wall), Elapsed: i.Elapsed + elapsed}
}

// TestAReadingIsAsOldAsItsRequest: while the reply was under way, or we stood still, nobody knows when the
// server read its clock. What is added to it passed after the reply for certain.
func TestAReadingIsAsOldAsItsRequest(t *testing.T) {
	const ms = time.Millisecond
	sent := lock.Instant{Wall: time.Unix(1_700_000_000, 0), Elapsed: time.Hour}
	for _, c := range []struct {
		wall, elapsed, later, told time.Duration // later than the reply
		good                       bool
	}{
		{60 * ms, 60 * ms, 39 * ms, 39 * ms, true},
		{60 * ms, 60 * ms, 40 * ms, 0, false},
		{60 * ms, 60 * ms, -ms, 0, false}, // an instant from before the reply
		{99 * ms, 99 * ms, 0, 0, true},
		{100 * ms, 99 * ms, 0, 0, false},
		{99 * ms, 100 * ms, 0, 0, false},
		{-ms, 10 * ms, 0, 0, false},
	} {
		clock := serverClock{}
		came := after(sent, c.wall, c.elapsed)
		clock.note(nil, &reading{5_000_000, sent, came})
		micros, from := clock.at(after(came, c.later, c.later))
		if ok := from != nil; ok != c.good || ok && micros != 5_000_000+c.told.Microseconds() {
			t.Errorf("a reply after %v, %v, and %v later: told %v as %d", c.wall, c.elapsed, c.later, ok, micros)
		}
		// One that was never good takes nobody's place.
		if late := max(c.wall, c.elapsed) >= readingGood; late {
			clock.note(nil, &reading{6_000_000, came, came})
			if micros, _ := clock.at(came); micros != 6_000_000 {
				t.Errorf("a reply after %v, %v: the next reading is told as %d", c.wall, c.elapsed, micros)
			}
		}
	}
}

// TestAReadingOfALostConnectionIsNotKept: its reply may be taken into account only after everything was
// forgotten.
func TestAReadingOfALostConnectionIsNotKept(t *testing.T) {
	now := lock.Instant{Wall: time.Unix(1_700_000_000, 0), Elapsed: time.Hour}
	clock := serverClock{}
	for _, read := range []bool{false, true} {
		was := clock.last.Load()
		clock.forget()
		clock.note(was, &reading{5_000_000, now, now})
		if _, from := clock.at(now); from != nil {
			t.Errorf("read before: %v: it is told", read)
		}
		clock.note(clock.last.Load(), &reading{6_000_000, now, now})
		if micros, _ := clock.at(now); micros != 6_000_000 {
			t.Errorf("read before: %v: the next is told as %d", read, micros)
		}
	}
}
