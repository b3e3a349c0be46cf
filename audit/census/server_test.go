package census

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/internal/testing/seeds"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/offset"
)

// within reports whether a bound is what it must be: never less, and more by at
// most the resolution of a stamp.
func within(got, want time.Duration) bool { return got >= want && got <= want+2*time.Millisecond }

// Each write is sound by itself: clocks step and drift between the writes,
// executions are late, leases differ, and the bounds still contain every true
// offset.
func TestBoundsHoldForEveryClockOfASimulatedFleet(t *testing.T) {
	for seed := range seeds.Range(t, 0, 60) {
		r := rand.New(rand.NewPCG(seed, 13))
		const gap = 2 * time.Second
		cfg := Config{Lease: 30 * time.Second, Greatest: time.Minute, Gap: gap, Idle: time.Second}
		f := on(t, cfg, "first")
		f.look(-10, "stock", "")
		var least, most time.Duration = 1 << 60, -1 << 60
		for i := range 200 {
			now := at(i * 1000).Add(time.Duration(r.Int64N(int64(time.Second))))
			ahead := time.Duration(r.Int64N(int64(20*time.Second))) - 10*time.Second
			least, most = min(least, ahead), max(most, ahead)
			lease := []time.Duration{30 * time.Second, 45 * time.Second, time.Minute}[r.IntN(3)]
			text, err := dialect.Jedis().Stamp(now.Add(ahead), lease, "")
			if err != nil {
				t.Fatal(err)
			}
			late := now.Add(time.Duration(r.Int64N(int64(gap)))).Truncate(time.Microsecond)
			if r.IntN(2) == 0 {
				f.add(offset.Observed{
					At: late, Kind: offset.ObservedCommand, Addr: anna,
					Args: []string{"SETNX", "stock", text}})
				continue
			}
			f.add(offset.Observed{At: late, Kind: offset.ObservedCommand, Addr: bert,
				Args: []string{"GETSET", fmt.Sprint("k", i), text}})
		}
		e := f.result().Evidence
		if e.Behind.AtMost < -least || e.Ahead.AtMost < most || e.Behind.AtLeast > -least ||
			e.Ahead.AtLeast > most {
			t.Fatalf("seed %d: behind %+v, ahead %+v, and clocks were from %v to %v", seed, e.Behind, e.Ahead,
				least, most)
		}
	}
}

func TestOneWriteBoundsItsClock(t *testing.T) {
	f := on(t, Config{Lease: time.Minute, Gap: 500 * time.Millisecond, Idle: time.Second}, "first")
	f.look(-2000, "stock", "")
	f.do(0, anna, "SETNX", "stock", stamp(-120_000))
	e := f.result().Evidence
	if !within(e.Behind.AtMost, 120*time.Second) ||
		e.Behind.Span != (Span{Value: e.Behind.AtMost, Basis: Measured, At: e.Until}) {
		t.Errorf("behind %+v", e.Behind)
	}
	if b := e.Behind.AtLeast; b > 119500*time.Millisecond || b < 119498*time.Millisecond {
		t.Errorf("proved: %v", b)
	}
	if e.Ahead.AtMost != 0 || e.Ahead.Span.Basis != Measured || e.Run != "first" || e.Spread.Proved != 0 {
		t.Errorf("ahead %+v, run %q, spread %+v", e.Ahead, e.Run, e.Spread)
	}
}

// Each source gives bounds in its own way.
func TestLookBoundsByItselfAndTheLookBefore(t *testing.T) {
	cfg := Config{Lease: time.Minute, Gap: dialect.Zero, Idle: 100 * time.Millisecond,
		Dialects: []dialect.Dialect{dialect.Jedis()}}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &film{t: t, census: c}
	f.look(0, "stock", stamp(-3_600_000)) // written at an unknown time
	f.look(100, "stock", "")
	f.look(400, "stock", stamp(200+30_000))
	e := f.result().Evidence
	// The stamp was executed between 100 and 400, by a clock that read 30,200.
	// The bounds also allow for a step of the server's clock in between that is
	// too small to be noticed.
	const unseen = unseenStep + 300*time.Microsecond
	if e.Behind.Writes != 1 || e.Behind.AtMost != 0 ||
		!within(e.Ahead.AtMost, 30_100*time.Millisecond+unseen) {
		t.Errorf("behind %+v, ahead %+v", e.Behind, e.Ahead)
	}
	if a := e.Ahead.AtLeast; a > 29_800*time.Millisecond-unseen || a < 29_798*time.Millisecond-unseen {
		t.Errorf("proved ahead: %v", a)
	}
	if e.Behind.Span.Known() {
		t.Errorf("measured on a server without a name: %+v", e.Behind.Span)
	}
}

func TestBoundsAreUnknownUntilTheyAreMeasured(t *testing.T) {
	play := func(cfg Config) Evidence {
		f := on(t, cfg, "first")
		f.look(-2000, "stock", "")
		f.do(0, anna, "SETNX", "stock", stamp(-5000))
		return f.result().Evidence
	}
	full := Config{Lease: time.Minute, Gap: time.Second, Idle: 90 * time.Second}
	if e := play(full); e.Behind.Span.Basis != Measured || e.Ahead.Span.Basis != Measured {
		t.Errorf("%+v %+v", e.Behind, e.Ahead)
	}
	short := full
	short.Idle = 0
	if e := play(short); e.Behind.Span.Known() || e.Ahead.Span.Known() ||
		!within(e.Behind.AtMost, 5*time.Second) {
		t.Errorf("of clients whose pauses nobody knows: %+v %+v", e.Behind, e.Ahead)
	}
	noGap := full
	noGap.Gap = 0
	if e := play(noGap); e.Ahead.Span.Known() || e.Ahead.AtMost != offset.NoHigh ||
		e.Behind.AtLeast != offset.NoLow || !e.Behind.Span.Known() {
		t.Errorf("without a gap: %+v %+v", e.Behind, e.Ahead)
	}
	guessed := full
	guessed.Lease = 0
	if e := play(guessed); e.Behind.Span.Known() || e.Ahead.Span.Known() || !e.Behind.Guessed {
		t.Errorf("with a guessed lease: %+v %+v", e.Behind, e.Ahead)
	}
	guessed.Greatest = time.Minute
	if e := play(guessed); !e.Behind.Span.Known() || e.Ahead.Span.Known() {
		t.Errorf("with the greatest lease: %+v %+v", e.Behind, e.Ahead)
	}
}

// A pause between attempts that was longer than Idle requires a window of that
// length.
func TestLongestPauseSeenLengthensTheWindow(t *testing.T) {
	f := on(t, Config{Lease: time.Minute, Idle: time.Second}, "first")
	f.look(-2000, "stock", "")
	f.do(0, anna, "SETNX", "stock", stamp(0))
	f.do(1000, anna, "DEL", "stock")
	f.do(600_000, anna, "SETNX", "stock", stamp(600_000))
	if e := f.result().Evidence; e.Idle != 10*time.Minute || !e.Behind.Span.Known() {
		t.Errorf("idle %v, window %v", e.Idle, e.Window)
	}
	f.add(reading.GapOf(SourceMonitor, at(600_100), time.Second, HoleBudget, "a hole"))
	f.add(reading.GapOf(SourcePoll, at(600_100), time.Second, HoleAbsent, "a hole"))
	f.do(602_000, bert, "SETNX", "stock", stamp(602_000))
	if e := f.result().Evidence; e.Behind.Span.Known() {
		t.Errorf("after a hole: %+v of %v", e.Window, e.Idle)
	}
}

func TestAnotherServerVoidsTheBounds(t *testing.T) {
	f := on(t, Config{Lease: time.Minute, Gap: time.Second, Idle: time.Second}, "first")
	f.look(-2000, "stock", "")
	f.do(0, anna, "SETNX", "stock", stamp(-5000))
	f.serverIs(10, "first") // reported again, without a change
	if e := f.result().Evidence; e.Behind.Writes != 1 {
		t.Errorf("%+v", e.Behind)
	}
	f.serverIs(2000, "second")
	e := f.result().Evidence
	if e.Run != "second" || e.Behind.Span.Known() || e.Behind.Writes != 0 ||
		e.Behind.AtMost != offset.NoHigh {
		t.Errorf("run %q, %+v", e.Run, e.Behind)
	}
	f.do(3000, bert, "SETNX", "stock", stamp(3000))
	f.do(4000, bert, "SETNX", "stock", stamp(4000))
	if e := f.result().Evidence; e.Window != 2*time.Second || !within(e.Behind.AtMost, 0) ||
		e.Behind.Writes != 2 {
		t.Errorf("window %v, %+v", e.Window, e.Behind)
	}
}

// What the server's clock gains, its clients are behind from then on, and the
// reverse.
func TestStepOfTheServerMovesTheBounds(t *testing.T) {
	for step, want := range map[time.Duration][2]time.Duration{
		time.Minute:  {65 * time.Second, 0},
		-time.Minute: {5 * time.Second, 56 * time.Second},
	} {
		f := on(t, Config{Lease: time.Minute, Gap: time.Second, Idle: time.Second}, "first")
		f.look(-2000, "stock", "")
		f.do(0, anna, "SETNX", "stock", stamp(-5000))
		f.add(offset.Observed{At: at(100), Kind: offset.ObservedStep, For: step})
		e := f.result().Evidence
		if !within(e.Behind.AtMost, want[0]) || !within(e.Ahead.AtMost, want[1]) {
			t.Errorf("%v: behind %v, ahead %v", step, e.Behind.AtMost, e.Ahead.AtMost)
		}
	}
}

func TestClaimsHoldUntilRefuted(t *testing.T) {
	play := func(behind, ahead time.Duration, off int) *found {
		f := on(t, Config{Lease: time.Minute, Gap: time.Second, Behind: behind, Ahead: ahead}, "first")
		f.look(-2000, "stock", "")
		f.do(0, anna, "SETNX", "stock", stamp(off))
		return f.result()
	}
	refuted := func(r *found) bool {
		return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Kind == "claim_refuted" })
	}
	if r := play(dialect.Zero, 3*time.Second, 0); r.Evidence.Behind.Span != (Span{Basis: Claimed}) ||
		r.Evidence.Ahead.Span.Value != 3*time.Second || refuted(r) {
		t.Errorf("%+v %+v", r.Evidence.Behind, r.Evidence.Ahead)
	}
	if r := play(3*time.Second, 0, -10_000); r.Evidence.Behind.Span.Known() || !refuted(r) {
		t.Errorf("behind: %+v", r.Evidence.Behind)
	}
	if r := play(0, dialect.Zero, 10_000); r.Evidence.Ahead.Span.Known() || !refuted(r) {
		t.Errorf("ahead: %+v", r.Evidence.Ahead)
	}
}

func TestSpreadOfZeroIsAClaim(t *testing.T) {
	f := newFilm(t, Config{Lease: time.Minute, Spread: dialect.Zero, Gap: dialect.Zero})
	f.look(-2000, "stock", "")
	f.do(0, anna, "SETNX", "stock", stamp(0))
	if j := f.result().Evidence.LongestSafeJob; j.Basis != Claimed ||
		j.Value != time.Minute+time.Millisecond {
		t.Errorf("%+v", j)
	}
}

// ours returns what a getsetlock client writes on L: a stamp far ahead.
func ours(ms int) string {
	return strconv.FormatInt(at(ms).Add(24*time.Hour+30*time.Second).UnixMilli(), 10)
}

// A stamp of a getsetlock client is no evidence of an old client, whichever
// source shows it.
func TestStampsOfGetsetlockClientsAreNoEvidence(t *testing.T) {
	px := func(f *film, ms int, key, value string) {
		f.add(offset.Observed{At: at(ms), Kind: offset.ObservedLook, Key: key, Value: value, Exists: true,
			HasTTL: true, TTL: 30 * time.Second})
	}
	monitored := on(t, Config{Lease: time.Minute, Gap: time.Second}, "first")
	monitored.look(-10, "stock", "")
	monitored.do(0, bert, "EVALSHA", "0123", "2", "stock")
	monitored.do(0, "lua", "SET", "stock", ours(0), "PX", "30000")
	monitored.do(0, "lua", "SET", "{stock}:gsl", "AAECAwQFBgcICQoLDA0ODw "+ours(0), "PX", "30000")
	monitored.do(100, "lua", "SETNX", "other", ours(100))
	polled := &film{t: t}
	polled.census, _ = New(Config{Lease: time.Minute, Gap: time.Second})
	polled.serverIs(-99_000, "first")
	polled.look(-10, "stock", "")
	px(polled, 0, "stock", ours(0))
	px(polled, 1, "{stock}:gsl", "AAECAwQFBgcICQoLDA0ODw "+ours(0))
	polled.look(10, "lone", "")
	polled.look(20, "lone", ours(20))
	for name, f := range map[string]*film{"monitor": monitored, "poll": polled} {
		r := f.result()
		e := r.Evidence
		if e.Counts.Acquisitions != 0 || len(e.Writers) != 0 || e.Behind.Writes != 0 || e.Ahead.Writes != 0 ||
			e.LastWrite != nil {
			t.Errorf("%s: %+v, writers %+v, ahead %+v", name, e.Counts, e.Writers, e.Ahead)
		}
		i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Kind == "perhaps_ours" })
		if (i >= 0) != (name == "poll") || i >= 0 && r.Findings[i].Key != "lone" {
			t.Errorf("%s: %+v", name, r.Findings)
		}
	}
}

// The distance of its stamp from its TTL shows that an old client wrote it.
func TestStampThatEndsWithItsTTLIsAnOldClients(t *testing.T) {
	d := dialect.Gorlock()
	c, err := New(Config{Lease: 15 * time.Second, Dialects: []dialect.Dialect{d}})
	if err != nil {
		t.Fatal(err)
	}
	f := &film{t: t, census: c}
	look := func(ms int, ahead, ttl time.Duration) {
		f.add(offset.Observed{At: at(ms), Kind: offset.ObservedLook, Key: "k",
			Value: stampOf(t, d, at(ms), ahead), Exists: true, HasTTL: true, TTL: ttl})
	}
	f.look(0, "k", "")
	look(10, 15*time.Second, 15*time.Second)
	f.look(20, "k", "")
	look(30, 24*time.Hour+15*time.Second, 16*time.Second)
	if n := f.result().Evidence.Counts.Acquisitions; n != 1 {
		t.Errorf("%d acquisitions", n)
	}
}

// Dialects that write the same form add different slacks. An unknown slack
// widens the intervals by the difference.
func TestUnknownSlackWidensBothIntervals(t *testing.T) {
	least := dialect.Jedis()
	most := least
	most.Name, most.Slack = "Slacker", 300*time.Millisecond
	const wide = 299 * time.Millisecond
	for _, slack := range []time.Duration{least.Slack, most.Slack} {
		f := newFilm(t, Config{Lease: time.Minute, Gap: 100 * time.Millisecond,
			Dialects: []dialect.Dialect{least, most}})
		f.look(-2000, "stock", "")
		f.do(0, anna, "SETNX", "stock", strconv.FormatInt(at(0).Add(time.Minute+slack).UnixMilli(), 10))
		o := writerOf(t, f.result().Evidence, anna).Offset
		for name, i := range map[string]offset.Interval{"seen": o.Interval, "if steady": o.Steady.Interval} {
			if !i.Contains(0) || i.Width() < wide+100*time.Millisecond {
				t.Errorf("%s, with a slack of %v: %v", name, slack, i)
			}
		}
	}
}

// The server's clock steps by ten seconds, and so do all clients' offsets. The
// clients' clocks are no further apart for that, but the guaranteed spread must
// cover both times.
func TestStepOfTheServerIsNoSpread(t *testing.T) {
	f := on(t, Config{Lease: time.Minute, Gap: time.Second}, "first")
	beat := func(ms int, by time.Duration) {
		f.add(offset.Observed{At: at(ms), Kind: offset.ObservedStep, For: by})
	}
	f.look(-2000, "stock", "")
	beat(-1000, 0)
	f.do(0, anna, "SETNX", "stock", stamp(0))
	f.do(10, bert, "SETNX", "stock", stamp(2010))
	beat(1000, 0)
	f.do(12_000, anna, "SETNX", "stock", stamp(2000))
	beat(12_500, 10*time.Second)
	f.do(13_000, bert, "SETNX", "stock", stamp(5000))
	beat(14_000, 0)
	s := f.result().Evidence.Spread
	if s.Proved < 900*time.Millisecond || s.Proved > 2*time.Second || s.Guaranteed < 12*time.Second {
		t.Errorf("%+v, and the clients are two seconds apart", s)
	}
}

// The server's clock is set back between two looks, and a client whose clock
// agrees with it then writes at once. It is set back by 15 ms, which no watch
// notices, or by a minute, which is noticed before the look or after it.
func TestLooksAllowForStepsOfTheServer(t *testing.T) {
	for _, step := range []time.Duration{15 * time.Millisecond, time.Minute} {
		for _, first := range []bool{false, true} {
			c, err := New(Config{Lease: time.Minute, Gap: dialect.Zero, Idle: time.Second,
				Dialects: []dialect.Dialect{dialect.Jedis()}})
			if err != nil {
				t.Fatal(err)
			}
			f, back := &film{t: t, census: c}, int(step.Milliseconds())
			noticed := func() {
				if step > unseenStep {
					f.add(offset.Observed{At: at(300 - back), Kind: offset.ObservedStep, For: -step})
				}
			}
			f.look(100, "stock", "")
			if first {
				noticed()
			}
			f.look(400-back, "stock", stamp(101-back))
			if !first {
				noticed()
			}
			if o := f.result().Evidence.Writers[0].Offset; !o.Contains(0) || !o.Bounded() {
				t.Errorf("back by %v, noticed before the look %v: 0 is not in %v", step, first, o.Interval)
			}
		}
	}
}

// The server restarts while MONITOR is off: it was never on, or it is between
// two bursts. The counters report the restart as a hole of every source.
func TestPollsCountAfterTheServerRestarts(t *testing.T) {
	for name, burst := range map[string]bool{"without MONITOR": false, "between two bursts": true} {
		t.Run(name, func(t *testing.T) {
			c, err := New(Config{Match: "lock:*", Dialects: []dialect.Dialect{dialect.Jedis()}})
			if err != nil {
				t.Fatal(err)
			}
			f := &film{t: t, census: c}
			if burst {
				f.add(reading.GapOf(SourceMonitor, at(-1000), time.Hour, HoleBudget, "until the next burst"))
			}
			f.serverIs(0, "one")
			f.look(1000, "lock:42", stamp(900))
			f.look(2000, "lock:42", "")
			for _, s := range []Source{SourceStats, SourceMonitor} {
				f.add(reading.GapOf(s, at(2000), time.Second, HoleReset, "the server was restarted"))
			}
			f.serverIs(3000, "two")
			f.look(3100, "lock:42", "")
			f.look(9000, "lock:42", stamp(8900))
			e := f.result().Evidence
			// A look that has to guess sees an acquisition; one that MONITOR
			// should have explained sees a write.
			if w := e.LastWrite; w == nil || !w.At.Equal(at(9000)) || w.What != ActAcquired {
				t.Errorf("the last write is %+v", e.LastWrite)
			}
			if e.LongestPause.Value != 8*time.Second {
				t.Errorf("the longest pause is %v", e.LongestPause.Value)
			}
			if m := e.Covered(SourceMonitor); !burst && m.Missing == "" {
				t.Errorf("MONITOR was not turned on: %+v", m)
			}
		})
	}
}

// TestLookShowsAWriteThatMonitorMissed lets an old client write while MONITOR
// is away for a second. The first look afterwards shows its stamp.
func TestLookShowsAWriteThatMonitorMissed(t *testing.T) {
	ours := strconv.FormatInt(at(2000).Add(24*time.Hour+time.Minute).UnixMilli(), 10)
	for name, play := range map[string]func(*film){
		"on a key that was free": func(f *film) { f.look(900, "lock:42", "") },
		"on a key never seen":    func(*film) {},
		"after its own DEL":      func(f *film) { f.do(900, anna, "DEL", "lock:42") },
		"over another stamp":     func(f *film) { f.look(900, "lock:42", stamp(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFilm(t, Config{Match: "lock:*"})
			f.do(0, anna, "SETNX", "lock:1", stamp(0))
			play(f)
			f.add(reading.GapOf(SourceMonitor, at(1000), time.Second, HoleAbsent, "the connection ended"))
			f.look(2100, "lock:42", stamp(1500))
			e := f.result().Evidence
			if e.LastWrite == nil || !e.LastWrite.At.Equal(at(2100)) || e.LastWrite.Key != "lock:42" {
				t.Errorf("the last write is %+v", e.LastWrite)
			}
		})
	}
	for name, play := range map[string]func(*film){
		"the stamp stood before the hole": func(f *film) {
			f.look(900, "lock:42", stamp(800))
			f.add(reading.GapOf(SourceMonitor, at(1000), time.Second, HoleAbsent, "the connection ended"))
			f.look(2100, "lock:42", stamp(800))
		},
		"MONITOR had no hole": func(f *film) { f.look(2100, "lock:42", stamp(-100_001)) },
		"MONITOR shows the attempt": func(f *film) {
			f.do(2000, bert, "SETNX", "lock:42", stamp(2000))
			f.look(2100, "lock:42", stamp(2000))
		},
		"a getsetlock client wrote it": func(f *film) {
			f.add(reading.GapOf(SourceMonitor, at(1000), time.Second, HoleAbsent, "the connection ended"))
			f.add(offset.Observed{At: at(2100), Kind: offset.ObservedLook, Key: "lock:42", Value: ours,
				Exists: true, HasTTL: true, TTL: time.Minute})
		},
		"a command moved the key there": func(f *film) {
			f.look(900, "lock:42", "")
			f.do(1000, bert, "RESTORE", "lock:42", "0", "x")
			f.look(2100, "lock:42", stamp(500))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFilm(t, Config{Match: "lock:*"})
			play(f)
			if w := f.result().Evidence.LastWrite; w != nil && w.What == ActWrote {
				t.Errorf("a write that MONITOR missed: %+v", w)
			}
		})
	}
}
