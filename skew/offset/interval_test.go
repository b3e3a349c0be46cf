package offset

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/seeds"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// wireWorld writes as an old client does, by a clock that only the test knows,
// and feeds an estimator with what a server would have seen.
type wireWorld struct {
	t       testing.TB
	random  *rand.Rand
	dialect dialect.Dialect
	lease   time.Duration // the client's own lease
	assumed time.Duration // the lease that the estimator is given
	key     string
	now     time.Time // true time; the server's clock is serverNow
	offset  time.Duration
	ppm     float64
	start   time.Time
	server  time.Duration // how far the server's clock is ahead of true time
	pauses  float64       // chance of a pause at each delay
	prev    time.Time     // the previous command, by the server's clock
}

func newWireWorld(t testing.TB, seed uint64) *wireWorld {
	w := &wireWorld{t: t, random: rand.New(rand.NewPCG(seed, 5)), dialect: dialect.Jedis(),
		lease: time.Minute, key: "stock"}
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
	w.now = w.now.Add(100*time.Microsecond +
		time.Duration(w.random.ExpFloat64()*float64(200*time.Microsecond)))
	if w.random.Float64() < w.pauses {
		w.now = w.now.Add(time.Duration(w.random.Int64N(int64(20 * time.Second))))
	}
}

// poll is one attempt: sleep, stamp, SETNX. Its GET is the next poll's previous
// command.
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
	e, err := newEstimator(0)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// With pauses, drift and every unit, the true offset is in the interval and on
// the line, at every write of every run.
func TestIntervalContainsTrueOffsetInEveryRun(t *testing.T) {
	dialects := []dialect.Dialect{dialect.Jedis(), dialect.Page(), dialect.Machinery(), dialect.RedisPy(),
		dialect.Errorception()}
	for seed := range seeds.Range(t, 0, 300) {
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
				t.Fatalf("seed %d (%s), write %d: %v is not on %+v, %v", seed, w.dialect, i, w.theta(), line,
					ok)
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

func TestIntervalIsNarrowAfterTwentyPollsOnLAN(t *testing.T) {
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

// Over five minutes the rate error alone would move an offset by far more than
// the width of the line.
func TestLineIsNarrowOverLongWindow(t *testing.T) {
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

func TestImpossibleWritesNameTheField(t *testing.T) {
	now := time.Unix(1_770_000_000, 0)
	good := Stamped{Expiry: now, Unit: ms, Lease: sec, At: now}
	for field, change := range map[string]func(*Stamped){
		"Unit": func(s *Stamped) { s.Unit = 0 }, "Lease": func(s *Stamped) { s.Lease = -1 },
		"Slack": func(s *Stamped) { s.Slack = -1 }, "Slept": func(s *Stamped) { s.Slept = -1 },
		"At":     func(s *Stamped) { s.At = time.Time{} },
		"Expiry": func(s *Stamped) { s.Expiry = time.Unix(1e12, 0) },
		"Prev":   func(s *Stamped) { s.Prev = time.Unix(-1, 0) },
	} {
		s, e := good, newTestEstimator(t)
		change(&s)
		var parameter *skew.ParameterError
		if err := e.Stamp(s); !errors.As(err, &parameter) || parameter.Field != field || e.Writes() != 0 {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := newEstimator(-1); err == nil {
		t.Error("negative rate taken")
	}
}

func TestEstimatorMemoryIsBounded(t *testing.T) {
	w := newWireWorld(t, 2)
	e := newTestEstimator(t)
	for range 3000 {
		w.offset += time.Duration(w.random.Int64N(int64(sec))) // the clock steps at each write
		w.poll(e)
	}
	if len(e.tracks) > mostTracks || len(e.runs) > mostRuns || len(e.Contradictions()) == 0 {
		t.Errorf("%d tracks, %d runs", len(e.tracks), len(e.runs))
	}
}

// FuzzInterval draws the whole run from bytes: whatever the delays are, a
// steady clock stays inside.
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

// stampedAt is a write by a clock that is ahead by offset, read at the true
// instant read.
func stampedAt(read time.Time, offset, since, until time.Duration) Stamped {
	clock := read.Add(offset).Truncate(ms)
	return Stamped{
		Expiry: clock.Add(time.Minute + ms), Unit: ms, Lease: time.Minute, Slack: ms,
		Prev: read.Add(-since), At: read.Add(until),
	}
}

func TestOneWriteProvesTheFormulasInterval(t *testing.T) {
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
