// SPDX-License-Identifier: Apache-2.0

package census

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// within reports whether a bound is what it must be: never less, and more by at
// most the resolution of a stamp.
func within(got, want time.Duration) bool { return got >= want && got <= want+2*time.Millisecond }

// Each source gives bounds in its own way.
func TestLookBoundsByItselfAndTheLookBefore(t *testing.T) {
	cfg := Config{Lease: time.Minute, Gap: dialect.Zero,
		Dialects: []dialect.Dialect{dialect.Jedis()}}
	f := polledFilm(t, cfg)
	f.Look(0, "stock", stamp(-3_600_000)) // written at an unknown time
	f.Look(100, "stock", "")
	f.Look(400, "stock", stamp(200+30_000))
	e := f.result().Evidence
	// The stamp was executed between 100 and 400, by a clock that read 30,200.
	// The bounds also allow for a step of the server's clock in between that is
	// too small to be noticed.
	const unseen = unseenStep + 300*time.Microsecond
	if high := e.Writers[0].Offset.High; e.Behind.Writes != 1 || e.Behind.AtLeast != 0 ||
		e.Behind.Span.Known() || e.Ahead.Span.Known() ||
		!within(high, 30_100*time.Millisecond+unseen) {
		t.Errorf("behind %+v, ahead %+v, at most %v", e.Behind, e.Ahead, high)
	}
	if a := e.Ahead.AtLeast; a > 29_800*time.Millisecond-unseen || a < 29_798*time.Millisecond-unseen {
		t.Errorf("proved ahead: %v", a)
	}
}

// However the leases are configured, the same stamps have the same leads, and
// the bounds follow from them.
func TestLeadsAssumeNoLease(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no lease":    {},
		"its lease":   {Lease: time.Minute},
		"two leases":  {Lease: 30 * time.Second, Greatest: 2 * time.Minute},
		"with a gap":  {Lease: time.Minute, Gap: 5 * time.Second},
		"a long one":  {Lease: time.Hour},
		"a claim too": {Lease: time.Minute, Behind: time.Second},
	} {
		cfg.Dialects = []dialect.Dialect{dialect.Jedis()}
		f := on(t, cfg, "first")
		f.Do(0, anna, "SETNX", "lock:a", stamp(-120_000)) // a minute past
		f.Do(100, bert, "SETNX", "lock:b", stamp(100))
		e := f.result().Evidence
		near := func(d, want time.Duration) bool { return (d - want).Abs() <= time.Millisecond }
		if !near(e.Behind.Lead, -time.Minute) || !near(e.Ahead.Lead, time.Minute) ||
			e.Spread.Leads > 2*time.Minute {
			t.Errorf("%s: leads %v and %v, %v apart", name, e.Behind.Lead, e.Ahead.Lead, e.Spread.Leads)
		}
		if cfg.Greatest == 0 && e.Spread.Leads < 2*time.Minute-50*time.Millisecond {
			t.Errorf("%s: leads are %v apart", name, e.Spread.Leads)
		}
		if lease, gap := cfg.Lease, dialect.Bound(cfg.Gap); lease > 0 && gap > 0 &&
			e.Behind.AtLeast != lease-gap-e.Behind.Lead {
			t.Errorf("%s: %v behind, by a lead of %v", name, e.Behind.AtLeast, e.Behind.Lead)
		}
	}
	f := on(t, Config{Greatest: time.Minute, Dialects: []dialect.Dialect{dialect.Jedis()}}, "first")
	f.Do(0, anna, "SETNX", "lock:a", stamp(0))
	if e := f.result().Evidence; e.Behind.Lead != offset.NoLow || e.Ahead.Lead != offset.NoLow {
		t.Errorf("without a smallest lease: %v and %v", e.Behind.Lead, e.Ahead.Lead)
	}
}

func TestAnotherServerVoidsTheBounds(t *testing.T) {
	f := on(t, Config{Lease: time.Minute, Gap: time.Second}, "first")
	f.Look(-2000, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(-5000))
	f.ServerIs(10, "first") // reported again, without a change
	if e := f.result().Evidence; e.Behind.Writes != 1 {
		t.Errorf("%+v", e.Behind)
	}
	f.ServerIs(2000, "second")
	e := f.result().Evidence
	if e.Run != "second" || e.Behind.Writes != 0 || e.Behind.AtLeast != offset.NoLow {
		t.Errorf("run %q, %+v", e.Run, e.Behind)
	}
	f.Do(3000, bert, "SETNX", "stock", stamp(3000))
	f.Do(4000, bert, "SETNX", "stock", stamp(4000))
	if e := f.result().Evidence; e.Behind.AtLeast != 0 || e.Behind.Writes != 2 {
		t.Errorf("%+v", e.Behind)
	}
}

// What was seen of the clients that wrote says nothing of those that did not.
// So however long a fleet is watched, Behind and Ahead stay unknown without a
// claim, and what was seen refutes a smaller claim, also one that was true
// until the server's clock stepped or a slower client came.
func TestNothingSeenBecomesABound(t *testing.T) {
	for name, play := range map[string]func(f *film){
		"a client joins": func(f *film) { f.Do(7_200_000, bert, "SETNX", "stock", stamp(7_200_000-120_000)) },
		"the server steps": func(f *film) {
			f.Add(offset.Observed{At: at(7_200_000), Kind: offset.ObservedStep, For: 2 * time.Minute})
			f.Do(7_210_000, anna, "SETNX", "stock", stamp(7_210_000-120_000))
		},
	} {
		for _, behind := range []time.Duration{0, time.Second, 3 * time.Minute} {
			f := on(t, Config{Lease: time.Minute, Gap: 500 * time.Millisecond, Behind: behind}, "first")
			f.Look(-2000, "stock", "")
			for hour := range 2 {
				f.Do(hour*3_600_000, anna, "SETNX", "stock", stamp(hour*3_600_000))
				f.Do(hour*3_600_000+50, anna, "DEL", "stock")
			}
			if e := f.result().Evidence; e.Behind.Span.Known() != (behind > 0) || e.Ahead.Span.Known() ||
				e.Behind.AtLeast != 0 {
				t.Errorf("%s, %v claimed: %+v %+v", name, behind, e.Behind, e.Ahead)
			}
			play(f)
			e := f.result().Evidence
			if e.Behind.Span.Known() != (behind == 3*time.Minute) ||
				!within(119500*time.Millisecond, e.Behind.AtLeast) {
				t.Errorf("%s, %v claimed: %+v", name, behind, e.Behind)
			}
		}
	}
}

func TestClaimsHoldUntilRefuted(t *testing.T) {
	play := func(behind, ahead time.Duration, off int) *found {
		f := on(t, Config{Lease: time.Minute, Gap: time.Second, Behind: behind, Ahead: ahead}, "first")
		f.Look(-2000, "stock", "")
		f.Do(0, anna, "SETNX", "stock", stamp(off))
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

// A pause or a smaller lease would explain the writes as well as a clock that
// is behind. As long as that is open, the claim is refuted and nothing is
// proved.
func TestClaimOfBehindIsRefutedWithoutProof(t *testing.T) {
	for name, c := range map[string]struct {
		cfg    Config
		off    int
		unless string
	}{
		"no gap":        {Config{Lease: time.Minute}, -120_000, "unless an attempt takes longer than 1s"},
		"doubted lease": {Config{Lease: time.Minute, Gap: time.Second}, -30_000, "unless a lease is 30s"},
		"confirmed lease": {Config{Lease: time.Minute, Gap: time.Second, LeaseChecked: true}, -30_000,
			"was seen"},
		"small": {Config{Lease: time.Minute}, -1500, ""},
	} {
		c.cfg.Behind = time.Second
		f := on(t, c.cfg, "first")
		f.Look(-2000, "stock", "")
		f.Do(0, anna, "SETNX", "stock", stamp(c.off))
		r := f.result()
		i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Kind == "claim_refuted" })
		if (i < 0) != (c.unless == "") || i >= 0 && !strings.HasSuffix(r.Findings[i].What, c.unless) ||
			r.Evidence.Behind.Span.Known() != (c.unless == "") {
			t.Errorf("%s: %+v, %+v", name, r.Evidence.Behind, r.Findings)
		}
	}
}

// What the greatest lease alone proves needs no smallest lease.
func TestGreatestLeaseAloneProvesAhead(t *testing.T) {
	f := on(t, Config{Greatest: time.Minute, Ahead: time.Second}, "first")
	f.Look(-2000, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(10_000))
	if e := f.result().Evidence; e.Ahead.Proved() < 9*time.Second || e.Ahead.Span.Known() ||
		e.Behind.Proved() != 0 {
		t.Errorf("behind %+v, ahead %+v", e.Behind, e.Ahead)
	}
}

func TestSpreadOfZeroIsAClaim(t *testing.T) {
	f := newFilm(t, Config{Lease: time.Minute, Spread: dialect.Zero, Gap: dialect.Zero})
	f.Look(-2000, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(0))
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
		f.Add(offset.Observed{At: at(ms), Kind: offset.ObservedLook, Key: key, Value: value, Exists: true,
			HasTTL: true, TTL: 30 * time.Second})
	}
	monitored := on(t, Config{Lease: time.Minute, Gap: time.Second}, "first")
	monitored.Look(-10, "stock", "")
	monitored.Do(0, bert, "EVALSHA", "0123", "2", "stock")
	monitored.Do(0, "lua", "SET", "stock", ours(0), "PX", "30000")
	monitored.Do(0, "lua", "SET", "{stock}:gsl", "AAECAwQFBgcICQoLDA0ODw "+ours(0), "PX", "30000")
	monitored.Do(100, "lua", "SETNX", "other", ours(100))
	polled := polledFilm(t, Config{Lease: time.Minute, Gap: time.Second})
	polled.ServerIs(-99_000, "first")
	polled.Look(-10, "stock", "")
	px(polled, 0, "stock", ours(0))
	px(polled, 1, "{stock}:gsl", "AAECAwQFBgcICQoLDA0ODw "+ours(0))
	polled.Look(10, "lone", "")
	polled.Look(20, "lone", ours(20))
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
	f := polledFilm(t, Config{Lease: 15 * time.Second, Dialects: []dialect.Dialect{d}})
	look := func(ms int, ahead, ttl time.Duration) {
		f.Add(offset.Observed{At: at(ms), Kind: offset.ObservedLook, Key: "k",
			Value: stampOf(t, d, at(ms), ahead), Exists: true, HasTTL: true, TTL: ttl})
	}
	f.Look(0, "k", "")
	look(10, 15*time.Second, 15*time.Second)
	f.Look(20, "k", "")
	look(30, 24*time.Hour+15*time.Second, 16*time.Second)
	if n := f.result().Evidence.Counts.Acquisitions; n != 1 {
		t.Errorf("%d acquisitions", n)
	}
}

// Dialects that write the same form add different slacks. An unknown slack
// widens the intervals by the difference.
func TestUnknownSlackWidensTheInterval(t *testing.T) {
	least := dialect.Jedis()
	most := least
	most.Name, most.Slack = "Slacker", 300*time.Millisecond
	const wide = 299 * time.Millisecond
	for _, slack := range []time.Duration{least.Slack, most.Slack} {
		f := newFilm(t, Config{Lease: time.Minute, Gap: 100 * time.Millisecond,
			Dialects: []dialect.Dialect{least, most}})
		f.Look(-2000, "stock", "")
		f.Do(0, anna, "SETNX", "stock", strconv.FormatInt(at(0).Add(time.Minute+slack).UnixMilli(), 10))
		o := writerOf(t, f.result().Evidence, anna).Offset
		if !o.Contains(0) || o.Width() < wide+100*time.Millisecond {
			t.Errorf("with a slack of %v: %v", slack, o.Interval)
		}
	}
}

// The server's clock steps by ten seconds, and so do all clients' offsets. The
// clients' clocks are no further apart for that, but the guaranteed spread must
// cover both times.
func TestStepOfTheServerIsNoSpread(t *testing.T) {
	f := on(t, Config{Lease: time.Minute, Gap: time.Second}, "first")
	beat := func(ms int, by time.Duration) {
		f.Add(offset.Observed{At: at(ms), Kind: offset.ObservedStep, For: by})
	}
	f.Look(-2000, "stock", "")
	beat(-1000, 0)
	f.Do(0, anna, "SETNX", "stock", stamp(0))
	f.Do(10, bert, "SETNX", "stock", stamp(2010))
	beat(1000, 0)
	f.Do(12_000, anna, "SETNX", "stock", stamp(2000))
	beat(12_500, 10*time.Second)
	f.Do(13_000, bert, "SETNX", "stock", stamp(5000))
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
			f, back := polledFilm(t, Config{Lease: time.Minute, Gap: dialect.Zero,
				Dialects: []dialect.Dialect{dialect.Jedis()}}), int(step.Milliseconds())
			noticed := func() {
				if step > unseenStep {
					f.Add(offset.Observed{At: at(300 - back), Kind: offset.ObservedStep, For: -step})
				}
			}
			f.Look(100, "stock", "")
			if first {
				noticed()
			}
			f.Look(400-back, "stock", stamp(101-back))
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
			f := polledFilm(t, Config{Match: "lock:*", Dialects: []dialect.Dialect{dialect.Jedis()}})
			if burst {
				f.Add(reading.GapOf(SourceMonitor, at(-1000), time.Hour, HoleBudget, "until the next burst"))
			}
			f.ServerIs(0, "one")
			f.Look(1000, "lock:42", stamp(900))
			f.Look(2000, "lock:42", "")
			for _, s := range []Source{SourceStats, SourceMonitor} {
				f.Add(reading.GapOf(s, at(2000), time.Second, HoleReset, "the server was restarted"))
			}
			f.ServerIs(3000, "two")
			f.Look(3100, "lock:42", "")
			f.Look(9000, "lock:42", stamp(8900))
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
		"on a key that was free": func(f *film) { f.Look(900, "lock:42", "") },
		"on a key never seen":    func(*film) {},
		"after its own DEL":      func(f *film) { f.Do(900, anna, "DEL", "lock:42") },
		"over another stamp":     func(f *film) { f.Look(900, "lock:42", stamp(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFilm(t, Config{Match: "lock:*"})
			f.Do(0, anna, "SETNX", "lock:1", stamp(0))
			play(f)
			f.Add(reading.GapOf(SourceMonitor, at(1000), time.Second, HoleAbsent, "the connection ended"))
			f.Look(2100, "lock:42", stamp(1500))
			e := f.result().Evidence
			if e.LastWrite == nil || !e.LastWrite.At.Equal(at(2100)) || e.LastWrite.Key != "lock:42" {
				t.Errorf("the last write is %+v", e.LastWrite)
			}
		})
	}
	for name, play := range map[string]func(*film){
		"the stamp stood before the hole": func(f *film) {
			f.Look(900, "lock:42", stamp(800))
			f.Add(reading.GapOf(SourceMonitor, at(1000), time.Second, HoleAbsent, "the connection ended"))
			f.Look(2100, "lock:42", stamp(800))
		},
		"MONITOR had no hole": func(f *film) { f.Look(2100, "lock:42", stamp(-100_001)) },
		"MONITOR shows the attempt": func(f *film) {
			f.Do(2000, bert, "SETNX", "lock:42", stamp(2000))
			f.Look(2100, "lock:42", stamp(2000))
		},
		"a getsetlock client wrote it": func(f *film) {
			f.Add(reading.GapOf(SourceMonitor, at(1000), time.Second, HoleAbsent, "the connection ended"))
			f.Add(offset.Observed{At: at(2100), Kind: offset.ObservedLook, Key: "lock:42", Value: ours,
				Exists: true, HasTTL: true, TTL: time.Minute})
		},
		"a command moved the key there": func(f *film) {
			f.Look(900, "lock:42", "")
			f.Do(1000, bert, "RESTORE", "lock:42", "0", "x")
			f.Look(2100, "lock:42", stamp(500))
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
