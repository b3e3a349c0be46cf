// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// Whatever contradicts a claimed Behind, no lock is deleted by it, not even one
// that the watch saw nobody use.
func TestDoctorDeletesNothingByAContradictedBehind(t *testing.T) {
	behind := func(by int) func(*film) { // a client takes a lock and releases it
		return func(f *film) {
			f.Do(0, anna, "SETNX", "lock:b", stamp(-by))
			f.Do(900, anna, "DEL", "lock:b")
		}
	}
	for name, c := range map[string]struct {
		deeds func(*film)
		says  string // empty: nothing contradicts the claim
	}{
		"a right clock":                {behind(500), ""},
		"a clock two minutes behind":   {behind(120_000), "at least 1m59s behind"},
		"a clock seconds behind":       {behind(5_000), "at least 3.999s behind"},
		"the start of a lease":         {behind(60_001), "at least 59s behind"},
		"a value that was found live":  {foundLiveLate, "took a value for live 1m0s after its time"},
		"a value that was found ended": {foundEnded, ""},
	} {
		cfg := census.Config{Lease: time.Minute, Gap: time.Second, Behind: time.Second, LeaseChecked: true}
		f := newFilm(t, cfg)
		c.deeds(f)
		e := f.evidence()
		w := redistest.New(t)
		pastBy(w, "lock:a", time.Hour)
		got := examined(t, w, Config{Match: "lock:*", Dialects: jedis(), Lease: time.Minute,
			Behind: time.Second, Evidence: e})
		want := "lock:a: past"
		if c.says == "" {
			want = "lock:a: dead fix delete"
		}
		if complaintsOf(got) != want || !strings.Contains(got[0].Advice, c.says) ||
			c.says != "" && !strings.Contains(got[0].Advice, "--behind 1s does not count") {
			t.Errorf("%s: %s %+v", name, complaintsOf(got), got)
		}
	}
}

// Without a lease, a bound of the clock says nothing about the start of one.
func TestDoctorDoubtsBehindAmongStartTimes(t *testing.T) {
	cfg := Config{Dialects: []dialect.Dialect{dialect.Page()}, Behind: time.Second,
		Evidence: &census.Evidence{
			Writers: []census.Writer{{Client: census.Client{Addr: anna}, Starts: true}}}}
	if got := cfg.doubt(); !strings.Contains(got, anna+": no time that it wrote was ahead") {
		t.Error(got)
	}
	cfg.Evidence.Writers[0].Starts = false
	if got := cfg.doubt(); got != "" {
		t.Error(got)
	}
}

// A client reads a value a minute after its end, and waits.
func foundLiveLate(f *film) {
	value := stamp(-120_000)
	f.Look(-10, "lock:b", value)
	f.Do(0, bert, "SETNX", "lock:b", stamp(0))
	f.Do(1, bert, "GET", "lock:b")
	f.Do(200_000, anna, "SETNX", "lock:c", stamp(200_000))
}

// A client reads a value a minute after its end, and takes it over.
func foundEnded(f *film) {
	value := stamp(-120_000)
	f.Look(-10, "lock:b", value)
	f.Do(0, bert, "SETNX", "lock:b", stamp(0))
	f.Do(1, bert, "GET", "lock:b")
	f.Do(2, bert, "GETSET", "lock:b", stamp(0))
}

// The time in a value may be the start of a lease, as long as nobody says which
// dialect wrote it.
func TestDoctorNeedsADialectForBehind(t *testing.T) {
	w := redistest.New(t)
	pastBy(w, "lock:a", 10*time.Second)
	cfg := Config{Match: "lock:*", Lease: time.Minute, Behind: time.Second}
	got := examined(t, w, cfg)
	if complaintsOf(got) != "lock:a: past" ||
		!strings.Contains(got[0].Advice, "--behind 1s does not count: no dialect is named (--dialect)") {
		t.Errorf("%+v", got)
	}
	cfg.Dialects = jedis()
	if got := complaintsOf(examined(t, w, cfg)); got != "lock:a: dead fix delete" {
		t.Errorf("named: %s", got)
	}
}

// What a watch saw permits nothing where nothing is claimed.
func TestWatchWithoutAClaimFreesNothing(t *testing.T) {
	f := newFilm(t, census.Config{Lease: time.Minute, Gap: time.Second})
	f.Do(0, anna, "SETNX", "lock:b", stamp(0))
	f.Do(100_000, anna, "DEL", "lock:b")
	e := f.evidence()
	w := redistest.New(t)
	pastBy(w, "lock:a", time.Hour)
	got := complaintsOf(examined(t, w, Config{Match: "lock:*", Dialects: jedis(), Lease: time.Minute,
		Evidence: e}))
	if got != "lock:a: past" {
		t.Error(got)
	}
}

// A stamp that is further ahead than the claimed lease explains was written by
// a fast clock, or by a client whose lease is longer. A look must be older by
// as much.
func TestDoctorWaitsForALeaseThatWasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		ahead int // of the server's clock, in ms, when the stamp was written
		claim time.Duration
		want  string
	}{
		"as long as claimed":         {59_900, 0, "lock:a: dead fix delete"},
		"longer":                     {90_000, 0, "lock:a: past"},
		"longer by less than Ahead":  {90_000, 31 * time.Second, "lock:a: dead fix delete"},
		"longer by more, less Ahead": {90_000, 20 * time.Second, "lock:a: past"},
	} {
		cfg := census.Config{Lease: time.Minute, Gap: time.Second, Ahead: c.claim, LeaseChecked: true}
		f := newFilm(t, cfg)
		f.Do(0, anna, "SETNX", "lock:b", stamp(c.ahead-60_001))
		f.Do(900, anna, "DEL", "lock:b")
		e := f.evidence()
		w := redistest.New(t)
		doctor := Config{Match: "lock:*", Dialects: jedis(), Lease: time.Minute, Ahead: c.claim,
			Evidence: e}
		runID(w, "first")
		value, when := pastBy(w, "lock:a", time.Hour), w.ServerNow().Add(-80*time.Second)
		w.Mini.HSet(lookKey("lock:a"), "bytes", value, "sec", fmt.Sprint(when.Unix()), "usec", "0", "run",
			"first", "boot", "b/1", "up", "5")
		if got := complaintsOf(examined(t, w, doctor)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Locks at the end of a scan are freed by the same call as those at its start.
func TestDoctorFreesMoreLocksThanItLists(t *testing.T) {
	w := redistest.New(t)
	const dead = mostComplaints + 700
	value := fmt.Sprint(w.ServerNow().Add(-time.Hour).UnixMilli())
	for i := range dead {
		w.Mini.Set(fmt.Sprint("lock:", i), value)
	}
	pool := w.Pool()
	defer pool.Close()
	d, err := Examine(t.Context(), pool, Config{Match: "lock:*", Dialects: jedis(), Behind: dialect.Zero,
		Hurry: true})
	if err != nil || d.More != 700 || len(d.Fixes) != dead {
		t.Fatalf("%d more, %d fixes, %v", d.More, len(d.Fixes), err)
	}
	applied(t, w, d.Fixes)
	if left := len(w.Mini.Keys()); left > 0 {
		t.Errorf("%d locks are left", left)
	}
}
