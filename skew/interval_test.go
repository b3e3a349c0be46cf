package skew

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// wireWorld writes as an old client does, by a clock that only the test knows, and tells an estimator
// what a server would have seen.
type wireWorld struct {
	t       testing.TB
	random  *rand.Rand
	dialect dialect.Dialect
	lease   time.Duration // the client's own
	assumed time.Duration // what the estimator is told
	key     string
	now     time.Time // true time; the server's clock is server(now)
	offset  time.Duration
	ppm     float64
	start   time.Time
	server  time.Duration // the server's clock is ahead of true time by this
	pauses  float64       // chance of a pause at each delay
	prev    time.Time     // by the server
}

func newWireWorld(t testing.TB, seed uint64) *wireWorld {
	w := &wireWorld{t: t, random: rand.New(rand.NewPCG(seed, 5)), dialect: dialect.Jedis(), lease: time.Minute, key: "stock"}
	w.assumed = w.lease
	w.start = time.Unix(1_770_000_000, w.random.Int64N(1e9))
	w.now = w.start
	w.offset = time.Duration(w.random.Int64N(int64(20*time.Second))) - 10*time.Second
	w.ppm = float64(w.random.IntN(900)-450) * 1.0
	return w
}

// theta is client less server, by definition.
func (w *wireWorld) theta() time.Duration {
	return w.offset + time.Duration(w.ppm/1e6*float64(w.now.Sub(w.start))) - w.server
}

func (w *wireWorld) serverNow() time.Time { return w.now.Add(w.server).Truncate(time.Microsecond) }
func (w *wireWorld) clientNow() time.Time { return w.now.Add(w.server).Add(w.theta()) }

func (w *wireWorld) delay() {
	w.now = w.now.Add(100*time.Microsecond + time.Duration(w.random.ExpFloat64()*float64(200*time.Microsecond)))
	if w.random.Float64() < w.pauses {
		w.now = w.now.Add(time.Duration(w.random.Int64N(int64(20 * time.Second))))
	}
}

// poll is one attempt: sleep, stamp, SETNX; with its GET as the next poll's previous command.
func (w *wireWorld) poll(e *Estimator) {
	w.now = w.now.Add(100 * time.Millisecond)
	w.delay()
	text, err := w.dialect.Stamp(w.clientNow(), w.lease, "")
	if err != nil {
		w.t.Fatal(err)
	}
	w.delay()
	value, err := w.dialect.Decode(text, w.serverNow())
	if err != nil {
		w.t.Fatal(err)
	}
	s := StampedBy(w.dialect, w.assumed, value)
	s.Key, s.At, s.Prev = w.key, w.serverNow(), w.prev
	if !w.prev.IsZero() {
		s.Slept = 99900 * time.Microsecond
	}
	if err := e.Stamp(s); err != nil {
		w.t.Fatal(err)
	}
	w.delay()
	w.delay()
	w.prev = w.serverNow()
}

func newTestEstimator(t testing.TB) *Estimator {
	e, err := NewEstimator(0)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Pauses, drift and every unit: the true offset is in the interval in every one of the runs, and on the
// line, at every write.
func TestTrueOffsetIsInTheIntervalInEveryRun(t *testing.T) {
	dialects := []dialect.Dialect{dialect.Jedis(), dialect.Page(), dialect.Machinery(), dialect.RedisPy(), dialect.Errorception()}
	for seed := range uint64(300) {
		w := newWireWorld(t, seed)
		w.dialect, w.pauses = dialects[seed%5], 0.03
		e := newTestEstimator(t)
		for i := range 200 {
			w.poll(e)
			at := w.now.Add(w.server)
			if got := e.Offset(at); !got.Contains(w.theta()) {
				t.Fatalf("seed %d (%s), write %d: %v is not in %v", seed, w.dialect, i, w.theta(), got)
			}
			if i%50 != 49 {
				continue
			}
			line, ok := e.Line(at)
			if !ok || !line.Offset.Contains(w.theta()) {
				t.Fatalf("seed %d (%s), write %d: %v is not on %+v, %v", seed, w.dialect, i, w.theta(), line, ok)
			}
			if true1 := w.ppm; true1 < line.LowPPM || true1 > line.HighPPM {
				t.Fatalf("seed %d: %v ppm is not in %v … %v", seed, true1, line.LowPPM, line.HighPPM)
			}
		}
		if c := e.Contradictions(); len(c) > 0 {
			t.Fatalf("seed %d (%s): steady clock called %v", seed, w.dialect, c)
		}
	}
}

func TestIntervalIsNarrowAfterTwentyPollsOnALAN(t *testing.T) {
	var widest time.Duration
	for seed := range uint64(50) {
		w := newWireWorld(t, seed)
		e := newTestEstimator(t)
		for range 20 {
			w.poll(e)
		}
		widest = max(widest, e.Offset(w.serverNow()).Width())
	}
	t.Logf("widest of 50 after 20 polls: %v", widest)
	if widest > 3*time.Millisecond {
		t.Errorf("%v wide", widest)
	}
}

// Over five minutes the rate alone would move a constant by far more than the line is wide.
func TestLineIsNarrowOverALongWindow(t *testing.T) {
	w := newWireWorld(t, 3)
	e := newTestEstimator(t)
	for range 3000 {
		w.poll(e)
	}
	line, ok := e.Line(w.serverNow())
	if !ok || line.Offset.Width() > time.Millisecond || line.HighPPM-line.LowPPM > 10 {
		t.Errorf("%+v, %v", line, ok)
	}
	t.Logf("after 5 minutes: line %v wide, rate within %.1f ppm; interval %v wide", line.Offset.Width(),
		line.HighPPM-line.LowPPM, e.Offset(w.serverNow()).Width())
}

func kinds(cs []Contradiction) string {
	var out []string
	for _, c := range cs {
		out = append(out, string(c.Kind))
	}
	return strings.Join(out, " ")
}

func TestStepIsReportedAsAStepAndFollowed(t *testing.T) {
	for seed := range uint64(200) {
		w := newWireWorld(t, seed)
		w.pauses = 0.02
		e := newTestEstimator(t)
		for range 60 {
			w.poll(e)
		}
		before := w.now
		step := time.Duration(w.random.Int64N(int64(4*time.Second))) + 50*time.Millisecond
		if seed%2 == 0 {
			step = -step
		}
		w.offset += step
		for range 60 {
			w.poll(e)
		}
		cs := e.Contradictions()
		if kinds(cs) != "step" || !cs[0].By.Contains(step) {
			t.Fatalf("seed %d: a step of %v called %v", seed, step, cs)
		}
		if before.Before(cs[0].From.Add(-time.Microsecond)) || before.After(cs[0].Until) {
			t.Fatalf("seed %d: a step at %v called %v", seed, before, cs)
		}
		if got := e.Offset(w.serverNow()); !got.Contains(w.theta()) {
			t.Fatalf("seed %d: after the step %v is not in %v", seed, w.theta(), got)
		}
	}
}

func TestClockThatIsSetBackAgainSteppedTwice(t *testing.T) {
	w := newWireWorld(t, 8)
	e := newTestEstimator(t)
	for _, step := range []time.Duration{0, 3300 * ms, -3300 * ms} {
		w.offset += step
		for range 40 {
			w.poll(e)
		}
	}
	if got := kinds(e.Contradictions()); got != "step step" {
		t.Errorf("got %q", got)
	}
}

// Two machines behind one address, whose writes come by turns.
func TestTwoProcessesBehindOneAddressAreTwo(t *testing.T) {
	for seed := range uint64(200) {
		w := newWireWorld(t, seed)
		w.pauses = 0.02
		e := newTestEstimator(t)
		apart := 130*ms + time.Duration(w.random.Int64N(int64(700*ms)))
		second := false
		for range 200 {
			if w.random.IntN(3) == 0 {
				second = !second
				w.offset += map[bool]time.Duration{true: apart, false: -apart}[second]
			}
			w.poll(e)
		}
		cs := e.Contradictions()
		if len(cs) == 0 {
			t.Fatalf("seed %d: nothing found at %v apart", seed, apart)
		}
		found := false
		for _, c := range cs {
			found = found || c.Kind == TwoProcesses && (c.By.Contains(apart) || c.By.Contains(-apart))
		}
		if !found {
			t.Fatalf("seed %d: %v apart called %v", seed, apart, cs)
		}
	}
}

// One process that locks one key for a minute and another for 30 s.
func TestSecondLeaseOfOneProcessIsCalledAWrongLease(t *testing.T) {
	for seed := range uint64(100) {
		w := newWireWorld(t, seed)
		e := newTestEstimator(t)
		for range 80 {
			w.key, w.lease = "stock", time.Minute
			if w.random.IntN(2) == 0 {
				w.key, w.lease = "order", 30*sec
			}
			w.poll(e)
		}
		cs := e.Contradictions()
		if len(cs) != 1 || cs[0].Kind != WrongLease || !(cs[0].By.Contains(30*sec) || cs[0].By.Contains(-30*sec)) {
			t.Fatalf("seed %d: %v", seed, cs)
		}
	}
}

// The lease is 30 s and the estimator was told a minute: stamps alone only show another offset, but the
// client's own takeovers do not fit it.
func TestTakeoversConvictAWrongLease(t *testing.T) {
	for seed := range uint64(100) {
		w := newWireWorld(t, seed)
		w.lease = 30 * sec
		e := newTestEstimator(t)
		for range 10 {
			w.poll(e)
			// A foreign stamp expires by this client's clock just now.
			j := Judged{Expiry: w.dialect.Cut(w.clientNow()).Add(-time.Millisecond), Unit: time.Millisecond, Expired: true}
			w.delay()
			j.At = w.serverNow()
			if err := e.Judge(j); err != nil {
				t.Fatal(err)
			}
			w.poll(e)
		}
		cs := e.Contradictions()
		if kinds(cs) != "wrong_lease" || cs[0].By.Low > -30*sec {
			t.Fatalf("seed %d: %v", seed, cs)
		}
	}
}

func TestJudgementsOfARightLeaseContradictNothing(t *testing.T) {
	for seed := range uint64(100) {
		w := newWireWorld(t, seed)
		e := newTestEstimator(t)
		for range 30 {
			w.poll(e)
			away := time.Duration(w.random.IntN(5)-2) * ms
			j := Judged{Expiry: w.dialect.Cut(w.clientNow()).Add(away), Unit: ms, At: w.serverNow()}
			w.delay()
			if j.Expired = w.dialect.Cut(w.clientNow()).After(j.Expiry); j.Expired {
				w.delay()
				j.At = w.serverNow()
			}
			if err := e.Judge(j); err != nil {
				t.Fatal(err)
			}
			w.poll(e)
			if got := e.Offset(w.now); !got.Contains(w.theta()) {
				t.Fatalf("seed %d: %v is not in %v", seed, w.theta(), got)
			}
		}
		if cs := e.Contradictions(); len(cs) > 0 {
			t.Fatalf("seed %d: %v", seed, cs)
		}
	}
}

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

func TestUnknownLeaseIsSnappedOnlyWhereOneIsClearlyNearest(t *testing.T) {
	around := func(d time.Duration) Interval { return Interval{d - ms, d + ms} }
	for _, c := range []struct {
		offset Interval
		want   time.Duration
		ok     bool
	}{
		{around(-30*sec + 40*ms), 30 * sec, true},
		{around(0), time.Minute, true},
		{around(-22 * sec), 0, false}, // 38 s
		{Interval{NoLow, 0}, 0, false},
		{Interval{-40 * sec, 40 * sec}, 0, false},
	} {
		got, warning, ok := SnapLease(time.Minute, c.offset)
		if ok != c.ok || ok && (got != c.want || !strings.Contains(warning, "guess")) {
			t.Errorf("%v: %v, %q, %v", c.offset, got, warning, ok)
		}
	}
}

func TestImpossibleWritesNameTheField(t *testing.T) {
	now := time.Unix(1_770_000_000, 0)
	good := Stamped{Expiry: now, Unit: ms, Lease: sec, At: now}
	for field, change := range map[string]func(*Stamped){
		"Unit": func(s *Stamped) { s.Unit = 0 }, "Lease": func(s *Stamped) { s.Lease = -1 },
		"Slack": func(s *Stamped) { s.Slack = -1 }, "Slept": func(s *Stamped) { s.Slept = -1 },
		"At": func(s *Stamped) { s.At = time.Time{} }, "Expiry": func(s *Stamped) { s.Expiry = time.Unix(1e12, 0) },
		"Prev": func(s *Stamped) { s.Prev = time.Unix(-1, 0) },
	} {
		s, e := good, newTestEstimator(t)
		change(&s)
		var parameter *ParameterError
		if err := e.Stamp(s); !errors.As(err, &parameter) || parameter.Field != field || e.Writes() != 0 {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := NewEstimator(-1); err == nil {
		t.Error("negative rate taken")
	}
}

func TestEstimatorsMemoryIsBounded(t *testing.T) {
	w := newWireWorld(t, 2)
	e := newTestEstimator(t)
	for range 3000 {
		w.offset += time.Duration(w.random.Int64N(int64(sec))) // a step at each write
		w.poll(e)
	}
	if len(e.tracks) > mostTracks || len(e.runs) > mostRuns || len(e.Contradictions()) == 0 {
		t.Errorf("%d tracks, %d runs", len(e.tracks), len(e.runs))
	}
}

// FuzzInterval draws the whole run from bytes: whatever the delays, a steady clock stays inside.
func FuzzInterval(f *testing.F) {
	f.Add(uint64(1), int64(5e9), int16(30), []byte{1, 2, 200, 3, 0, 255})
	f.Add(uint64(9), int64(-5e12), int16(-499), []byte("long pauses"))
	f.Fuzz(func(t *testing.T, seed uint64, offset int64, ppm int16, pauses []byte) {
		w := newWireWorld(t, seed)
		w.offset, w.ppm = time.Duration(offset%int64(24*time.Hour)), float64(ppm%499)
		w.dialect = []dialect.Dialect{dialect.Jedis(), dialect.Page(), dialect.TaskTiger()}[seed%3]
		e := newTestEstimator(t)
		for i, b := range pauses[:min(len(pauses), 200)] {
			if b > 128 {
				w.now = w.now.Add(time.Duration(b-128) * time.Second)
			}
			w.poll(e)
			if got := e.Offset(w.now); !got.Contains(w.theta()) {
				t.Fatalf("write %d: %v is not in %v", i, w.theta(), got)
			}
			if line, ok := e.Line(w.now); e.newest().hasHigh && (!ok || !line.Offset.Contains(w.theta())) {
				t.Fatalf("write %d: %v is not on %+v, %v", i, w.theta(), line, ok)
			}
		}
		if cs := e.Contradictions(); len(cs) > 0 {
			t.Fatalf("steady clock called %v", cs)
		}
	})
}

// stampedAt is a write by a clock that is ahead by offset, read at a true instant.
func stampedAt(read time.Time, offset, since, until time.Duration) Stamped {
	clock := read.Add(offset).Truncate(ms)
	return Stamped{
		Expiry: clock.Add(time.Minute + ms), Unit: ms, Lease: time.Minute, Slack: ms,
		Prev: read.Add(-since), At: read.Add(until),
	}
}

func TestOneWriteProvesWhatTheFormulaSays(t *testing.T) {
	read := time.Unix(1_770_000_000, 0)
	s := stampedAt(read, 5*sec, 110*ms, 3*ms)
	s.Slept = 100 * ms
	if got, want := s.Offset(), (Interval{5*sec - 3*ms - time.Microsecond, 5*sec + 10*ms + ms}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	f := StampedBy(dialect.TaskTiger(), time.Minute, dialect.Stamp{Expiry: read})
	if f.Expiry.Add(f.Unit).Sub(read) != time.Microsecond || f.Expiry.Sub(read) != -time.Microsecond {
		t.Errorf("a double is rounded either way: %+v", f)
	}
	if cut := StampedBy(dialect.Kdyby(), 1500*ms, dialect.Stamp{Expiry: read}); cut.Lease+cut.Slack != 2*sec {
		t.Errorf("a client that cuts its lease: %+v", cut)
	}
}

// A write that was held up after the step fits the old clock too, and would tighten it from the wrong
// side. It must not date or measure the step.
func TestWeakWriteAfterAStepDoesNotMeasureIt(t *testing.T) {
	e, read := newTestEstimator(t), time.Unix(1_770_000_000, 0)
	for i, s := range []Stamped{
		stampedAt(read, 0, 10*ms, 10*ms),
		stampedAt(read.Add(sec), -200*ms, 205*ms, sec), // weak: since the step, above −200 ms … +6 ms
		stampedAt(read.Add(3*sec), -200*ms, ms, ms),
	} {
		if err := e.Stamp(s); err != nil {
			t.Fatal(i, err)
		}
	}
	cs := e.Contradictions()
	if len(cs) != 1 || cs[0].By.High < -190*ms || !cs[0].By.Contains(-200*ms) || cs[0].By.Low > -210*ms {
		t.Errorf("got %v", cs)
	}
	if !cs[0].From.Before(read.Add(sec - 300*ms)) {
		t.Errorf("dated after the weak write: %v", cs)
	}
}

// The previous command of the write that shows a server's step backwards is dated by the clock before.
func TestUpperBoundAcrossAServersStepIsLeftOut(t *testing.T) {
	e, read := newTestEstimator(t), time.Unix(1_770_000_000, 0)
	if err := e.Stamp(stampedAt(read, 0, ms, ms)); err != nil {
		t.Fatal(err)
	}
	// The server goes back by 50 ms: the clock is 50 ms ahead from here on. 40 ms lay between the two
	// commands, and by the server's dates they would run backwards.
	s := stampedAt(read.Add(sec), 50*ms, -10*ms, 45*ms)
	s.Prev = read.Add(sec + 10*ms)
	if err := e.Stamp(s); err != nil {
		t.Fatal(err)
	}
	if got := e.Offset(read.Add(sec)); !got.Contains(50 * ms) {
		t.Errorf("50ms is not in %v: %v", got, e.Contradictions())
	}
}
