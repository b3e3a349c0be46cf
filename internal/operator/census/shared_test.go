// SPDX-License-Identifier: Apache-2.0

package census

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// line is a command of a connection, at that many microseconds after the
// opening.
type line struct {
	micros int
	words  string
}

// polling returns what a client with its own connection sends while it waits in
// vain. Its clock is right.
func polling(micros int) []line {
	return []line{
		{micros, "SETNX stock " + stamp(micros/1000)}, {micros + 300, "GET stock"},
		{micros + 101_000, "SETNX stock " + stamp(micros/1000+101)}, {micros + 101_300, "GET stock"},
		{micros + 202_000, "SETNX stock " + stamp(micros/1000+202)}, {micros + 202_300, "GET stock"},
	}
}

func connection(t *testing.T, cfg Config, addr string, lines []line) *found {
	t.Helper()
	cfg.Lease = time.Minute
	f := newFilm(t, cfg)
	f.Look(-10, "stock", stamp(30_000))
	for _, l := range lines {
		f.Add(offset.Observed{
			At: at(0).Add(time.Duration(l.micros) * time.Microsecond), Kind: offset.ObservedCommand,
			Addr: addr, Args: strings.Fields(l.words),
		})
	}
	return f.result()
}

// Each case but the first two shows that several clients use the address. Then
// it has no clock that could step.
func TestMonitorShowsSharedAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		addr  string
		lines []line
		why   string
	}{
		"alone": {addr: bert, lines: polling(0)},
		"pinged": {addr: bert,
			lines: append(polling(0), line{900_000, "PING"}, line{910_000, "GET stock"})},
		"a second attempt": {bert,
			append(polling(0), line{400_000, "SETNX stock " + stamp(400)},
				line{400_100, "SETNX stock " + stamp(400)}), "a second attempt"},
		"another key": {bert,
			append(polling(0), line{400_000, "SETNX stock " + stamp(400)},
				line{400_100, "SETNX order " + stamp(400)}), "a second attempt"},
		"another key's value": {bert,
			append(polling(0), line{400_000, "SETNX stock " + stamp(400)}, line{400_100, "GET order"}),
			"a second attempt"},
		"too soon":      {bert, append(polling(0), line{230_000, "SETNX stock " + stamp(230)}), "sooner"},
		"a unix socket": {"unix:/run/redis.sock", polling(0), "unix socket"},
	} {
		w := writerOf(t, connection(t, Config{Gap: time.Second}, c.addr, c.lines).Evidence, c.addr)
		if o := w.Offset; !o.Contains(0) || o.Width() < time.Second || (w.Shared == "") != (c.why == "") ||
			!strings.Contains(w.Shared, c.why) || len(w.Steps) > 0 {
			t.Errorf("%s: %+v, %v", name, o, w.Steps)
		}
	}
}

// A clock that is set forward or back by more than an attempt may take is an
// alarm. A late write, a step of the server's clock and a new server are none.
func TestClockThatStepsIsAnAlarm(t *testing.T) {
	for name, c := range map[string]struct {
		off, moved int // of the second write, and of the server's clock before it, in ms
		says       string
	}{
		"steady":        {0, 0, ""},
		"forwards":      {10_000, 0, "clock stepped forwards by at least 8.9"},
		"back":          {-10_000, 0, "clock stepped back by at least 8.9"},
		"late":          {-900, 0, ""},
		"server's step": {-10_000, 10_000, ""},
	} {
		f := on(t, Config{Lease: time.Minute, Gap: time.Second}, "first")
		f.Look(-10, "stock", "")
		f.Do(0, bert, "SETNX", "stock", stamp(0))
		f.Do(90_000+c.moved, bert, "SETNX", "stock", stamp(90_000+c.moved+c.off))
		if c.moved > 0 {
			f.Add(offset.Observed{At: at(91_000 + c.moved), Kind: offset.ObservedStep,
				For: time.Duration(c.moved) * time.Millisecond})
		}
		r := f.result()
		i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Kind == "step" })
		if (i >= 0) != (c.says != "") || i >= 0 && (r.Findings[i].Severity != SeverityWarning ||
			!strings.Contains(r.Findings[i].What, c.says) ||
			!strings.Contains(r.Findings[i].What, "if no attempt takes longer than 1s")) {
			t.Errorf("%s: %+v", name, r.Findings)
		}
		if w := writerOf(t, r.Evidence, bert); len(w.Steps) > 1 || (len(w.Steps) == 1) != (c.says != "") {
			t.Errorf("%s: %v", name, w.Steps)
		}
	}
}

// Two clients on a unix socket have clocks 20 s apart, and no clock steps.
func TestTwoClocksOfASharedAddressAreNoStep(t *testing.T) {
	const socket = "unix:/run/redis.sock"
	var lines []line
	for i := range 20 {
		lines = append(lines, line{i * 1_000_000, "SETNX stock " + stamp(i*1000+i%2*20_000)},
			line{i*1_000_000 + 300, "GET stock"})
	}
	r := connection(t, Config{Gap: time.Second}, socket, lines)
	w := writerOf(t, r.Evidence, socket)
	if len(w.Steps) > 0 || !w.Offset.Contains(0) || !w.Offset.Contains(20*time.Second) {
		t.Errorf("%v, seen %v", w.Steps, w.Offset.Interval)
	}
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Kind == "shared_address" })
	if i < 0 || r.Findings[i].Severity != SeverityWarning ||
		!strings.Contains(r.Findings[i].What, "differ by at least 18.979s, or one of them stepped") {
		t.Errorf("%+v", r.Findings)
	}
	if slices.ContainsFunc(r.Findings,
		func(f Finding) bool { return f.Kind == "step" }) {
		t.Errorf("%+v", r.Findings)
	}
}

// A holder behind a shared address, whose clock is 20 s behind, releases in
// time by that clock: its own write decides, and no other client's.
func TestReleaseFromASharedAddressUsesItsOwnWrite(t *testing.T) {
	const socket = "unix:/run/redis.sock"
	for released, want := range map[int]Counts{
		25_000: {Acquisitions: 1, Failed: 1, Releases: 1},
		30_500: {Acquisitions: 1, Failed: 1, Overruns: 1},
	} {
		f := newFilm(t, Config{Lease: 30 * time.Second})
		f.Look(-10, "stock", "")
		f.Do(0, socket, "SETNX", "stock", stamp(-20_000-30_000))
		f.Do(5_000, socket, "SETNX", "stock", stamp(5_000-30_000))
		f.Do(5_001, socket, "GET", "stock")
		f.Do(released, socket, "DEL", "stock")
		f.wants(want)
	}
}

// A stamp that was there at the first look, or appeared between two looks far
// apart, may be old. So it fits any smaller lease.
func TestOldStampsRaiseNoDoubtOfALease(t *testing.T) {
	for _, first := range []bool{true, false} {
		f := polledFilm(t, Config{Lease: time.Minute, Gap: time.Second})
		if !first {
			f.Look(-30_500, "stock", "")
		}
		f.Look(0, "stock", stamp(-30_010))
		if e := f.result().Evidence; e.LeaseLooks.Known() {
			t.Errorf("at the first look %v: %+v", first, e.LeaseLooks)
		}
	}
}

// A client that seems 30 s behind with a lease of a minute may have a lease of
// 30 s. Then nothing that rests on the lease is guaranteed until the lease was
// checked.
func TestSmallerLeaseThatFitsBetterIsReported(t *testing.T) {
	for _, c := range []struct {
		lease   time.Duration
		off     int // of the clock, in ms
		checked bool
		doubted time.Duration // the lease that fits better; 0: none
	}{
		{time.Minute, 0, false, 0},
		{time.Minute, -3000, false, 0},
		{time.Minute, -30_020, false, 30 * time.Second},
		{time.Minute, -30_020, true, 0},
		{time.Minute, 30_000, false, 0},           // a greater lease
		{62 * time.Second, 2000, false, 0},        // the given lease
		{90 * time.Second, 0, false, time.Minute}, // stamps of a minute
	} {
		cfg := Config{Lease: c.lease, Gap: time.Second, LeaseChecked: c.checked}
		f := on(t, cfg, "first")
		f.Look(-60_000, "stock", "")
		f.Do(0, anna, "SETNX", "stock", stamp(c.off))
		f.Do(100_000, anna, "DEL", "stock")
		r := f.result()
		e := r.Evidence
		asked := slices.ContainsFunc(r.Findings, func(f Finding) bool {
			return f.Kind == "lease_doubted" && strings.Contains(f.Advice, "--lease-checked")
		})
		if e.LeaseLooks.Value != c.doubted || asked != (c.doubted > 0) || e.Spread.Sound() == asked ||
			e.Spread.Guessed != asked {
			t.Errorf("%+v: looks like %+v, spread %+v, %+v", c, e.LeaseLooks, e.Spread, r.Findings)
		}
		if asked && (e.Ahead.Proved() > 0 || e.Behind.Unless != "unless a lease is "+c.doubted.String()) {
			t.Errorf("%+v: behind %+v, ahead %+v", c, e.Behind, e.Ahead)
		}
	}
}

// Each lease is guessed from what its client writes; that of the third, whose
// clock is 7 s ahead, from the other clients of its dialect.
func TestGuessedLeasesAreMarkedAsGuessed(t *testing.T) {
	f := polledFilm(t, Config{})
	f.Begin()
	clients := []struct {
		addr  string
		lease time.Duration
		off   int // of the clock, in ms
	}{{anna, 10 * time.Second, 300}, {bert, 2 * time.Minute, -400}, {cleo, 10 * time.Second, 7000},
		{"10.0.0.4:4000", 10 * time.Second, 0}}
	for ms := 0; ms < 3000; ms += 100 {
		for _, c := range clients {
			f.Do(ms, c.addr, "SETNX", "stock", stampOf(t, dialect.Jedis(), at(ms+c.off), c.lease))
			f.Do(ms+1, c.addr, "GET", "stock")
		}
	}
	e := f.result().Evidence
	if e.SmallestLease.Value != 10*time.Second || e.GreatestLease.Value != 2*time.Minute ||
		e.SmallestLease.Basis != Inferred || e.SmallestLease.Note == "" {
		t.Errorf("leases %+v … %+v", e.SmallestLease, e.GreatestLease)
	}
	for _, c := range clients {
		if w := writerOf(t, e, c.addr); w.Lease.Value != c.lease || !w.Offset.LeaseGuessed ||
			w.Offset.Low > time.Duration(c.off)*time.Millisecond {
			t.Errorf("%+v: lease %+v, offset %v", c, w.Lease, w.Offset.Interval)
		}
	}
	if e.LongestSafeJob.Basis != Inferred || !strings.Contains(e.LongestSafeJob.Note, "guessed") {
		t.Errorf("safe job %+v", e.LongestSafeJob)
	}
}

// A stamp that a poll finds between two bursts is a nameless writer's, and
// counts in the spread. It is a finding only if no named client can have
// written it.
func TestWriterSeenByPollsCountsInTheSpread(t *testing.T) {
	for _, ahead := range []time.Duration{0, 50 * time.Second} {
		f := newFilm(t, Config{Lease: time.Minute, Gap: time.Second})
		for ms := 0; ms < 2000; ms += 100 {
			knows(f, ms, anna, "stock", 0)
		}
		f.Add(reading.GapOf(SourceMonitor, at(2000), time.Hour, HoleBudget, "between bursts"))
		f.Look(3000, "stock", "")
		f.Look(3100, "stock", stamp(3000+int(ahead.Milliseconds())))
		r := f.result()
		if s := r.Evidence.Spread; !s.Sound() || s.Guaranteed < ahead || s.Guaranteed > ahead+3*time.Second ||
			len(r.Evidence.Writers) != 2 {
			t.Errorf("%v ahead: %+v of %+v", ahead, s, r.Evidence.Writers)
		}
		off := func(f Finding) bool { return f.Kind == "clock_off" && f.Writer == "" }
		if slices.ContainsFunc(r.Findings, off) != (ahead > 0) {
			t.Errorf("%v ahead: findings %+v", ahead, r.Findings)
		}
	}
}
