package offset

import (
	"fmt"
	"testing"
	"time"
)

func testFleet(t *testing.T, seed uint64, clients int) (*Fleet, []*wireWorld) {
	f, err := NewFleet(0)
	if err != nil {
		t.Fatal(err)
	}
	var worlds []*wireWorld
	for i := range clients {
		w := newWireWorld(t, seed*100+uint64(i))
		w.start = time.Unix(1_770_000_000, 0)
		w.now = w.start
		worlds = append(worlds, w)
	}
	return f, worlds
}

func (f *Fleet) pollAll(worlds []*wireWorld, n int) {
	for range n {
		for i, w := range worlds {
			w.poll(f.Writer(fmt.Sprint("10.0.0.", i)))
		}
	}
}

func TestProvedSpreadIsBelowAndGuaranteedAboveTheTrueOne(t *testing.T) {
	for seed := range uint64(100) {
		f, worlds := testFleet(t, seed, 4)
		f.pollAll(worlds, 30)
		at, low, high := worlds[0].now, NoHigh, NoLow
		for _, w := range worlds {
			w.now = at
			low, high = min(low, w.theta()), max(high, w.theta())
		}
		s := f.Spread(at)
		if !s.Sound() || s.Proved > high-low || s.Guaranteed < high-low || s.Guaranteed-s.Proved > 10*ms {
			t.Fatalf("seed %d: spread %v judged %+v", seed, high-low, s)
		}
	}
}

func TestStepOfAllClientsIsTheServers(t *testing.T) {
	for seed := range uint64(60) {
		f, worlds := testFleet(t, seed, 3)
		f.pollAll(worlds, 30)
		step := 2500 * ms
		if seed%2 == 0 {
			step = -step
		}
		for _, w := range worlds {
			w.server += step
		}
		f.pollAll(worlds, 30)
		cs := f.Contradictions()
		for _, c := range cs {
			if c.Kind != ServerStepped {
				t.Fatalf("seed %d: %v called %v", seed, step, cs)
			}
		}
		if len(cs) == 0 {
			t.Fatalf("seed %d: %v not seen", seed, step)
		}
		for i, w := range worlds {
			if got := f.Writer(fmt.Sprint("10.0.0.", i)).Offset(w.serverNow()); !got.Contains(w.theta()) {
				t.Fatalf("seed %d: %v is not in %v", seed, w.theta(), got)
			}
		}
		if s := f.Spread(worlds[0].serverNow()); s.Sound() || len(s.Contradicted) != 3 {
			t.Fatalf("seed %d: %+v", seed, s)
		}
	}
}

func TestStepOfOneClientIsNotTheServers(t *testing.T) {
	f, worlds := testFleet(t, 7, 3)
	f.pollAll(worlds, 30)
	worlds[1].offset += 2 * sec
	f.pollAll(worlds, 30)
	cs := f.Contradictions()
	if len(cs) != 1 || cs[0].Kind != Step || cs[0].Writer != "10.0.0.1" {
		t.Errorf("got %v", cs)
	}
}

// Two hosts of one NTP server step together; the third proves that it was not the lock server.
func TestStepOfMostClientsIsNotTheServers(t *testing.T) {
	f, worlds := testFleet(t, 7, 3)
	f.pollAll(worlds, 30)
	worlds[0].offset += 2 * sec
	worlds[1].offset += 2 * sec
	f.pollAll(worlds, 30)
	cs := f.Contradictions()
	if len(cs) != 2 || cs[0].Kind != Step || cs[1].Kind != Step {
		t.Errorf("got %v", cs)
	}
}

func TestWriterSeenOnlyByPollingGuaranteesNothing(t *testing.T) {
	f, worlds := testFleet(t, 1, 2)
	f.pollAll(worlds, 5)
	w := worlds[0]
	value, _ := w.dialect.Decode(fmt.Sprint(w.now.Add(time.Minute).UnixMilli()), w.now)
	s := StampedBy(w.dialect, time.Minute, value)
	s.At = w.now
	if err := f.Writer("polled").Stamp(s); err != nil {
		t.Fatal(err)
	}
	if got := f.Spread(w.now); got.Sound() || got.Guaranteed != NoHigh || len(got.Unbounded) != 1 {
		t.Errorf("got %+v", got)
	}
}
