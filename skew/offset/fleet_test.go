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

func TestStepOfAllClientsCountsAsServers(t *testing.T) {
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

// Where the clock may have been read seconds before each write, a step is dated
// that much too early: before the steady client's first write.
func TestLooselyDatedStepIsNotTheServers(t *testing.T) {
	f, err := NewFleet(0)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1_770_000_000, 0)
	for i := range 20 {
		at := start.Add(time.Duration(i) * 100 * ms)
		stepped := time.Duration(i/10) * 15 * sec
		for name, s := range map[string]Stamped{
			"steady": stampedAt(at, 0, 5*sec, ms), "stepping": stampedAt(at, stepped, 5*sec, ms),
			"too": stampedAt(at, stepped, 5*sec, ms),
		} {
			if err := f.Writer(name).Stamp(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	if cs := f.Contradictions(); len(cs) != 2 || cs[0].Kind != Step || cs[0].Writer != "stepping" ||
		cs[1].Writer != "too" {
		t.Errorf("got %v", cs)
	}
}

// One write that took longer than was assumed is not a step, and not two.
func TestLateWriteIsNotAStep(t *testing.T) {
	e, start := newTestEstimator(t), time.Unix(1_770_000_000, 0)
	for i := range 30 {
		until := ms
		if i == 10 || i == 20 {
			until = 8 * sec
		}
		s := stampedAt(start.Add(time.Duration(i)*10*sec), 0, 0, until)
		s.Prev = s.At.Add(-5 * sec)
		if err := e.Stamp(s); err != nil {
			t.Fatal(err)
		}
	}
	cs := e.Contradictions()
	if len(cs) != 2 || cs[0].Kind != LateWrite || cs[1].Kind != LateWrite {
		t.Fatalf("got %v", cs)
	}
	if by := cs[0].By.Low; by < 2900*ms || by > 3*sec {
		t.Errorf("3 s beyond the gap of 5 s: %v", cs[0])
	}
	if got := e.Offset(start.Add(290 * sec)); !got.Contains(0) {
		t.Errorf("0 is not in %v", got)
	}
}

// Two hosts that use one NTP server step together. The third proves that the
// lock server did not step.
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
