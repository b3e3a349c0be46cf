package offset

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/seeds"
)

func kinds(cs []Contradiction) string {
	var out []string
	for _, c := range cs {
		out = append(out, string(c.Kind))
	}
	return strings.Join(out, " ")
}

func TestStepIsReportedAndFollowed(t *testing.T) {
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

func TestClockSetForwardAndBackStepsTwice(t *testing.T) {
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

// Two machines share one address, and their writes alternate.
func TestTwoProcessesAtOneAddressAreReported(t *testing.T) {
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

// One process locks one key for a minute and another for 30 s.
func TestSecondLeaseOfOneProcessIsWrongLease(t *testing.T) {
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
		if len(cs) != 1 || cs[0].Kind != WrongLease ||
			!(cs[0].By.Contains(30*sec) || cs[0].By.Contains(-30*sec)) {
			t.Fatalf("seed %d: %v", seed, cs)
		}
	}
}

// The lease is 30 s and the estimator was given a minute. Stamps alone only
// show another offset, but the client's own takeovers do not fit it.
func TestTakeoversProveLeaseWrong(t *testing.T) {
	for seed := range uint64(100) {
		w := newWireWorld(t, seed)
		w.lease = 30 * sec
		e := newTestEstimator(t)
		for range 10 {
			w.poll(e)
			// A foreign stamp has just expired by this client's clock.
			j := Judged{Expiry: w.clientNow().Truncate(w.dialect.Unit.Step()).Add(-time.Millisecond),
				Unit: time.Millisecond, Expired: true}
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

func TestJudgementsWithRightLeaseContradictNothing(t *testing.T) {
	for seed := range seeds.Range(t, 0, 100) {
		w := newWireWorld(t, seed)
		e := newTestEstimator(t)
		for range 30 {
			w.poll(e)
			away := time.Duration(w.random.IntN(5)-2) * ms
			j := Judged{Expiry: w.clientNow().Truncate(w.dialect.Unit.Step()).Add(away), Unit: ms,
				At: w.serverNow()}
			w.delay()
			if j.Expired = w.clientNow().Truncate(w.dialect.Unit.Step()).After(j.Expiry); j.Expired {
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

func TestSnapLeaseNeedsOneClearlyNearestLease(t *testing.T) {
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

// A write that was delayed after the step also fits the old clock, and would
// tighten its bounds from the wrong side. It must not date or measure the step.
func TestWeakWriteDoesNotMeasureTheStepBeforeIt(t *testing.T) {
	e, read := newTestEstimator(t), time.Unix(1_770_000_000, 0)
	for i, s := range []Stamped{
		stampedAt(read, 0, 10*ms, 10*ms),
		stampedAt(read.Add(sec), -200*ms, 205*ms, sec), // weak: after the step, it allows −200 ms … +6 ms
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

// A write shows that the server stepped backwards; its previous command is
// dated by the clock before the step.
func TestUpperBoundAcrossServerStepIsLeftOut(t *testing.T) {
	e, read := newTestEstimator(t), time.Unix(1_770_000_000, 0)
	if err := e.Stamp(stampedAt(read, 0, ms, ms)); err != nil {
		t.Fatal(err)
	}
	// The server goes back by 50 ms, so the client's clock is 50 ms ahead from
	// here on. 40 ms lay between the two commands, so by the server's dates
	// they run backwards.
	s := stampedAt(read.Add(sec), 50*ms, -10*ms, 45*ms)
	s.Prev = read.Add(sec + 10*ms)
	if err := e.Stamp(s); err != nil {
		t.Fatal(err)
	}
	if got := e.Offset(read.Add(sec)); !got.Contains(50 * ms) {
		t.Errorf("50ms is not in %v: %v", got, e.Contradictions())
	}
}

// With a proxy under load, the bounds of each write are a little off, so that
// no two writes fit one track. They still jump back and forth.
func TestJumpsBackAndForthAreTwoProcesses(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1_770_000_000+int64(s), 0).UTC() }
	step := func(from int, low, high time.Duration) Contradiction {
		return Contradiction{Kind: Step, From: at(from), Until: at(from + 1), By: Interval{low, high}}
	}
	jumps := func(cs []Contradiction) (out []jump) {
		for _, c := range cs {
			out = append(out, jump{c, direction(c.By)})
		}
		return out
	}
	to, fro := step(0, 2*sec, 3*sec), step(1, NoLow, -2500*ms)
	third := step(2, 2400*ms, 2800*ms)
	away := step(3, -1300*ms, -1200*ms)
	for _, c := range []struct {
		steps, want []Contradiction
	}{
		{nil, nil},
		{[]Contradiction{to, fro}, []Contradiction{to, fro}},
		{[]Contradiction{to, third, to}, []Contradiction{to, third, to}},
		{[]Contradiction{to, fro, third},
			[]Contradiction{{Kind: TwoProcesses, From: at(0), Until: at(3),
				By: Interval{2500 * ms, 2800 * ms}}}},
		{[]Contradiction{fro, to, fro, third},
			[]Contradiction{{Kind: TwoProcesses, From: at(1), Until: at(3),
				By: Interval{-2800 * ms, -2500 * ms}}}},
		{[]Contradiction{third, to, fro, third, third, away},
			[]Contradiction{third, {
				Kind: TwoProcesses, From: at(0), Until: at(3), By: Interval{2500 * ms, 2800 * ms}}, third,
				away}},
	} {
		if got := toAndFro(jumps(c.steps)); !slices.Equal(got, c.want) {
			t.Errorf("%v\nbecome %v\nwant %v", c.steps, got, c.want)
		}
	}
}
