// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/testing/reel"
)

// screened is a filter and a census of what it lets through. MONITOR begins.
type screened struct {
	t      *testing.T
	cfg    Config
	filter *filter
	folded *census.Census
}

func newScreened(t *testing.T, cfg census.Config) *screened {
	t.Helper()
	folded, err := census.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &screened{t, filled(t, Config{Config: cfg}), nil, folded}
	s.filter = newFilter(s.cfg, func(string) {})
	folded.Add(reading.GapOf(census.SourceMonitor, at(0), 0, census.HoleBudget, "begins"))
	return s
}

func (s *screened) add(events ...offset.Observed) {
	for _, o := range events {
		s.folded.Add(o)
	}
}

// line shows a line of MONITOR.
func (s *screened) line(ms, database int, addr string, words ...string) []offset.Observed {
	out := s.filter.line(asServer(at(ms).UnixMicro(), database, addr, words...), nil)
	s.add(out...)
	return out
}

// sighted shows a round of markers.
func (s *screened) sighted(database, ms int) []offset.Observed {
	s.t.Helper()
	out := sighted(s.t, s.cfg, s.filter, database, ms)
	s.add(out...)
	return out
}

// quietBeside returns the window that MONITOR proves after two minutes. In the
// given database, an old client of d tries 20 times a second to take a lock
// that another client holds. With database -1 no client tries.
func quietBeside(t *testing.T, cfg census.Config, d dialect.Dialect, database int) (monitor time.Duration,
	e census.Evidence) {
	t.Helper()
	s, found := newScreened(t, cfg), map[string]bool{}
	s.filter.found = func(key string) { found[key] = true }
	key := keyOf(t, d, "lock:stock")
	if database == cfg.DB {
		s.add(offset.Observed{At: at(0), Kind: offset.ObservedLook, Key: key, Exists: true,
			Value: stampOf(t, d, at(0), time.Hour)})
	}
	for ms := 0; ms <= 120_000; ms += 50 {
		if database >= 0 {
			s.line(ms, database, "10.0.0.1:1", "SETNX", key, stampOf(t, d, at(ms), time.Minute))
		} else {
			s.line(ms, cfg.DB, "10.0.0.9:1", "PING")
		}
		if ms%1000 == 0 {
			s.add(offset.Observed{At: at(ms), Kind: offset.ObservedStep})
			s.sighted(cfg.DB, ms)
		}
	}
	e = evidenceOf(s.folded)
	_, monitor = e.Quiet()
	if database == cfg.DB != found[key] {
		t.Errorf("found %v", found)
	}
	return monitor, e
}

// Each encoding is played in each of two databases, with the dialect named and
// left to be recognized.
func TestWindowStaysShutWhileAnOldClientTries(t *testing.T) {
	const whole = 2 * time.Minute
	for _, e := range spellings {
		d := spelling(e)
		for _, said := range [][]dialect.Dialect{{d}, nil} {
			for _, watched := range []int{0, 3} {
				for _, tries := range []int{-1, 0, 3} {
					t.Run(fmt.Sprint(e, " ", len(said), " watched ", watched, " tries ", tries),
						func(t *testing.T) {
							monitor, evidence := quietBeside(t,
								census.Config{Match: "lock*", DB: watched, Dialects: said}, d, tries)
							want := whole
							if tries == watched {
								want = 0
							}
							if monitor != want {
								t.Errorf("MONITOR proves %v", monitor)
							}
							if tries == watched &&
								(evidence.LastFailed == nil || evidence.LastFailed.DB != watched ||
									evidence.LastFailed.Key != keyOf(t, d, "lock:stock")) {
								t.Errorf("the last failed attempt is %+v", evidence.LastFailed)
							}
						})
				}
			}
		}
	}
}

// The names only look like the pattern, and one is as long as possible.
func TestFilterDropsKeysOutsideTheScope(t *testing.T) {
	cfg := census.Config{Match: "lock*", DB: 3}
	filter := newFilter(filled(t, Config{Config: cfg}), func(string) {})
	for _, c := range []struct {
		db   int
		key  string
		want bool
	}{
		{3, "lock", true}, {0, "lock", false}, {3, "other", false},
		{3, "\xac\xed\x00\x05t\x00\x04lock", true}, {3, "\xac\xed\x00\x05t\x00\x05lock", false},
		{3, "\xac\xed\x00\x05t\x00\x05flock", false},
		{3, `"lock:x"`, true}, {3, `"flock"`, false}, {0, `"lock:x"`, false},
		// longer than what the filter keeps of a value
		{3, "\xac\xed\x00\x05t\x07\xd0lock" + fmt.Sprintf("%01996d", 0), true},
	} {
		got := whole(filter.line(asServer(at(0).UnixMicro(), c.db, "a:1", "SETNX", c.key, stamp(0)), nil))
		if (len(got) > 0) != c.want {
			t.Errorf("database %d, %.20q: %v", c.db, c.key, got)
		}
	}
}

// A dialect of bare tokens reads any text as a token.
func TestGetsetlockTokenOnMIsNoAttempt(t *testing.T) {
	cfg := census.Config{Match: "lock*", Dialects: []dialect.Dialect{dialect.SetDel()}}
	folded, err := census.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"{lock:x}:gsl": 0, "lock:x": 1} {
		filter := newFilter(filled(t, Config{Config: cfg}), func(string) {})
		if got := filter.line(asServer(at(0).UnixMicro(), 0, "a:1", "SET", key, "46pp_t56wMdRpwZ1BglSEg",
			"NX", "PX", "30000"), nil); len(got) != want {
			t.Errorf("%s: %+v", key, got)
		}
	}
	folded.Add(offset.Observed{At: at(1), Kind: offset.ObservedLook, Key: "{lock:y}:gsl", Exists: true,
		Value: "46pp_t56wMdRpwZ1BglSEg 1"})
	if e := evidenceOf(folded); e.LastWrite != nil || len(e.Keys) > 0 {
		t.Errorf("%+v", e.LastWrite)
	}
}

// Every command that changes or may change a key is followed, whichever
// database it was sent in: SWAPDB, MOVE, COPY and FLUSHDB may change another
// one. The next attempt on "lock" in database 3 shows what is known of it.
func TestCommandsAcrossDatabasesAreFollowed(t *testing.T) {
	held, gone := census.Counts{Acquisitions: 1, Failed: 1}, census.Counts{Acquisitions: 2}
	unknown := census.Counts{Acquisitions: 1}
	for _, c := range []struct {
		db    int
		words string
		want  census.Counts
	}{
		{3, "SETNX lock 1", held}, {0, "DEL lock", held}, {3, "DEL lock", gone}, {3, "DEL a lock", gone},
		{0, "FLUSHDB", held}, {3, "FLUSHDB", gone}, {0, "FLUSHALL", gone},
		{0, "SWAPDB 0 1", held}, {0, "SWAPDB 0 3", unknown}, {5, "SWAPDB 3 1", unknown},
		{0, "MOVE lock 3", unknown}, {3, "MOVE lock 0", unknown}, {0, "MOVE lock 1", held},
		{3, "MOVE other 0", held},
		{0, "COPY other lock DB 3 REPLACE", unknown}, {0, "COPY other lock", held},
		{3, "COPY other lock", unknown},
	} {
		s := newScreened(t, census.Config{DB: 3, Dialects: jedis()})
		s.add(offset.Observed{At: at(1), Kind: offset.ObservedLook, Key: "lock"})
		s.line(2, 3, "a:1", "SETNX", "lock", stamp(2))
		s.line(3, c.db, "c:1", strings.Fields(c.words)...)
		s.line(4, 3, "b:1", "SETNX", "lock", stamp(4))
		got := evidenceOf(s.folded).Counts
		got.Releases, got.Overruns = 0, 0
		if got != c.want {
			t.Errorf("database %d, %s: %+v", c.db, c.words, got)
		}
	}
}

// The watch uses only SCAN and looks.
func TestPollsFindKeysInEachSpelling(t *testing.T) {
	r, record := watched(t, Config{Config: census.Config{Match: "lock*"}}, func(w *redistest.World) {
		for _, e := range spellings {
			d := spelling(e)
			w.Mini.Set(keyOf(t, d, "lock:stock"), stampOf(t, d, w.Now(), time.Minute))
			w.Mini.Set(keyOf(t, d, "zz:lock"), stampOf(t, d, w.Now(), time.Minute))
		}
	})
	if n := len(r.Evidence.Keys); n != len(spellings) || r.Evidence.Counts.Acquisitions != int64(n) {
		t.Errorf("found %+v", r.Evidence.Keys)
	}
	if strings.Contains(record, "zz:lock") {
		t.Errorf("other keys were looked at: %s", record)
	}
}

// Any client that is no getsetlock client ends the window by a call that may be
// an attempt on a watched key, or by a read that waiters send. Many such calls
// yield few events, and the last counts.
func TestCallOnAWatchedKeyCutsTheWindow(t *testing.T) {
	const value, whole = "0f8fad5b-d9cb-469f-a165-70867728950e:1770000060001", 10 * time.Second
	const sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
	mark := "{lock:x}:gsl"
	long := strings.Fields("MSET " + strings.Repeat("a 1 ", 9) + "lock:x 1")
	for _, c := range []struct {
		addr string
		db   int
		want time.Duration
		args []string
	}{
		{"a:1", 3, 0, []string{"SETNX", "lock:x", value}}, {"a:1", 3, 0, []string{"GETSET", "lock:x", value}},
		{"a:1", 0, whole, []string{"SETNX", "lock:x", value}},
		{"a:1", 3, whole, []string{"SETNX", "other", value}},
		{"a:1", 3, 0, []string{"set", "lock:x", "1", "nx", "px", "1000"}},
		{"a:1", 3, 0, []string{"SET", "lock:x", "1", "GET"}},
		{"a:1", 3, 0, []string{"MSETNX", "a", "1", "lock:x", "1"}},
		{"a:1", 3, whole, []string{"MSETNX", "a", "lock:x"}},
		{"a:1", 3, whole, []string{"MSET", "a", "1", "b", "1", "c", "1", "d", "1", "e", "1"}},
		{"a:1", 3, 0, long},
		{"a:1", 3, 0, []string{"PSETEX", "lock:x", "1", "1"}}, {"a:1", 3, 0, []string{"GETDEL", "lock:x"}},
		{"a:1", 3, 0, []string{"RENAME", "a", "lock:x"}}, {"a:1", 3, 0, []string{"RENAMENX", "lock:x", "a"}},
		{"a:1", 3, 0, []string{"RESTORE", "lock:x", "0", "x"}},
		{"a:1", 0, 0, []string{"COPY", "a", "lock:x", "DB", "3"}},
		{"a:1", 3, whole, []string{"COPY", "a", "lock:x", "DB", "0"}},
		{"a:1", 3, 0, []string{"GET", "lock:x"}}, {"a:1", 3, 0, []string{"MGET", "a", "lock:x"}},
		{"a:1", 3, 0, []string{"WATCH", "lock:x"}}, {"a:1", 0, whole, []string{"GET", "lock:x"}},
		{"a:1", 3, whole, []string{"GETRANGE", "lock:x", "0", "1"}},
		{"a:1", 3, whole, []string{"DEL", "lock:x"}},
		// A getsetlock client's scripts name M; other scripts are unknown.
		{"EVALSHA " + sha + " 1 lock:x", 3, 0, []string{"SET", "lock:x", value, "PX", "1000"}},
		{"EVALSHA " + sha + " 1 lock:x", 3, 0, []string{"GET", "lock:x"}},
		{"EVALSHA " + sha + " 2 lock:x " + mark, 3, whole, []string{"SET", "lock:x", value, "PX", "1000"}},
		{"EVALSHA " + sha + " 2 lock:x " + mark, 3, whole, []string{"GET", "lock:x"}},
		// And getsetlock clients have keys of their own.
		{"a:1", 3, whole, []string{"SET", mark, "46pp_t56wMdRpwZ1BglSEg", "NX", "PX", "1000"}},
		{"a:1", 3, whole, []string{"MGET", mark}},
		{"a:1", 3, whole, []string{"GET", "lock:gsl-sight:" + strings.Repeat("A", 26)}},
		{"a:1", 3, whole, []string{"GET", "lock" + reading.TrialKey + "A"}},
	} {
		quiet, called := afterCalls(t, c.addr, c.db, c.args)
		if quiet != c.want || called > 101 || called > 0 != (c.want == 0) {
			t.Errorf("%s %q in database %d: quiet for %v, %d events", c.addr, c.args, c.db, quiet, called)
		}
	}
}

// afterCalls returns the window after ten seconds with a call each hundredth,
// and the number of events about calls. by is an address, or a script's words.
func afterCalls(t *testing.T, by string, database int, args []string) (quiet time.Duration, called int) {
	t.Helper()
	s := newScreened(t, census.Config{Match: "lock*", DB: 3, Dialects: jedis()})
	all := s.sighted(3, 0)
	for ms := 0; ms <= 10_000; ms += 10 {
		addr := by
		if script := strings.Fields(addr); len(script) > 1 {
			all = append(all, s.line(ms, database, "a:1", script...)...)
			addr = "lua"
		}
		all = append(all, s.line(ms, database, addr, args...)...)
	}
	for _, o := range append(all, s.sighted(3, 10_000)...) {
		if len(o.Args) > 0 && o.Args[0] == reading.Called {
			if called++; o.Args[1] != "lock:x" || len(o.Args) != 3 {
				t.Errorf("%q: the event is %q", args, o.Args)
			}
		}
	}
	e := evidenceOf(s.folded)
	_, quiet = e.Quiet()
	return quiet, called
}

// If all keys of a database are watched, most programs take no lock of the
// fleet. A call ends the window only if its key has held a lock, or if a
// dialect reads the value that it writes. Where no command is named, it is
// SETNX.
func TestOtherProgramsDoNotCutAWindowOfAllKeys(t *testing.T) {
	for _, c := range []struct {
		pattern, key, value string
		cuts                bool
	}{
		{"", "session:7", "1", false}, {"", "session:7", "anna", false}, {"", "lock:a", "1", true},
		{"", "session:7", "0f8fad5b-d9cb-469f-a165-70867728950e:1770000060001", true},
		{"", "session:7", `"1770000060001"`, true}, {"lock*", "lock:b", "1", true},
		{"lock*", "session:7", "1", false},
		{"", "SET session:7", "1", false}, {"", "SET session:7", "1770000060001", true},
		{"", "SET lock:a", "1", true}, {"", "SETEX session:7 60", "1770000060001", true},
		{"", "MSETNX session:6 1 session:7", "1770000060001", true},
		{"", "MSETNX session:6 1 session:7", "1", false},
		{"", "GET", "session:7", false}, {"", "GET", "lock:a", true},
	} {
		s := newScreened(t, census.Config{Match: c.pattern, Dialects: jedis()})
		s.sighted(0, 0)
		s.line(100, 0, "a:1", "SETNX", "lock:a", stamp(100))
		for ms := 200; ms < 10_000; ms += 50 {
			words := strings.Fields(c.key)
			if len(words) == 1 && c.key != "GET" {
				words = []string{"SETNX", c.key}
			}
			s.line(ms, 0, "b:1", append(words, c.value)...)
		}
		s.sighted(0, 10_000)
		e := evidenceOf(s.folded)
		if _, quiet := e.Quiet(); c.cuts != (quiet < time.Second) ||
			!c.cuts && quiet != 9900*time.Millisecond {
			t.Errorf("watching %q, SETNX %s %s: quiet for %v", c.pattern, c.key, c.value, quiet)
		}
	}
}

// A round of markers counts only if its lines are next to each other, in each
// spelling, in the watched database.
func TestWindowReachesToTheYoungestWholeRound(t *testing.T) {
	all := census.Config{Match: "lock:*", DB: 3}
	said := all
	said.Dialects = []dialect.Dialect{spelling(dialect.JDK)}
	for name, c := range map[string]struct {
		cfg      census.Config
		database int
		drop     int    // the line of the second round that never comes; -1: all come
		mixed    string // address of a PING in the middle of the round
		want     time.Duration
	}{
		"all spellings": {all, 3, -1, "", 2 * time.Second}, "one is missing": {all, 3, 2, "", 0},
		"another database": {all, 0, -1, "", 0}, "INFO is missing": {all, 3, 4, "", 0},
		"the last is missing": {all, 3, 5, "", 0},
		"the fleet's own":     {said, 3, -1, "", 2 * time.Second}, "that is missing": {said, 3, 1, "", 0},
		"a client between": {all, 3, -1, "10.0.0.8:1", 2 * time.Second},
		"a proxy between":  {all, 3, -1, "10.0.0.9:9", 0},
	} {
		s := newScreened(t, c.cfg)
		s.sighted(3, 2000)
		nonce := strings.Repeat("B", 26)
		mark, _ := s.cfg.scope().Sight(nonce)
		cmds, err := markers(mark, s.filter.sights.spellings)
		if err != nil {
			t.Fatal(err)
		}
		s.filter.sights.send(nonce)
		counted := calls{}
		for i, cmd := range cmds {
			if cmd.Args[0] == "commandstats" {
				counted = s.filter.calls
			}
			if i == len(cmds)-1 && c.mixed != "" {
				s.line(4000, 0, c.mixed, "PING")
			}
			if i != c.drop {
				s.line(4000, c.database, "10.0.0.9:9", cmd.Name, cmd.Args[0].(string))
			}
		}
		s.filter.sights.answered(nonce, "run", counted)
		// Events of other kinds prove nothing.
		s.line(9000, 3, "a:1", "GET", "lock:gsl-sight:"+strings.Repeat("A", 26))
		s.add(offset.Observed{At: at(9000), Kind: offset.ObservedStep},
			offset.Observed{At: at(9000), Kind: offset.ObservedLook, Key: "lock:y"})
		e := evidenceOf(s.folded)
		if from, quiet := e.Quiet(); quiet != c.want {
			t.Errorf("%s: quiet from %v for %v, of %+v", name, from, quiet, e.Covered(census.SourceMonitor))
		}
		if len(e.Keys) > 0 || e.LastWrite != nil || e.LastFailed != nil || e.LastCall != nil {
			t.Errorf("%s: a marker is taken for an act: %+v", name, e)
		}
	}
}

// The server counts calls that MONITOR does not show, or its counts begin anew.
func TestCallsThatMonitorMissedEndTheWindow(t *testing.T) {
	cfg := filled(t, Config{Config: census.Config{Match: "lock:*"}})
	for name, c := range map[string]struct {
		change func(f *filter, second *point)
		reason census.HoleReason
		says   string
	}{
		"two calls more": {func(_ *filter, p *point) { p.counted[3] += 2 }, census.HoleCounts,
			"the server counted 6 calls of SET, MONITOR showed 4"},
		"a count that fell": {func(f *filter, p *point) { p.counted[1]-- }, census.HoleReset,
			"CONFIG RESETSTAT"},
		"fewer than shown": {func(_ *filter, p *point) { p.counted[3]-- }, census.HoleCounts,
			"the server counted 3 calls of SET, MONITOR showed 4"},
		// Both resets leave the same counts of the other commands.
		"a reset": {func(_ *filter, p *point) { p.counted = calls{infoAt: 1} }, census.HoleReset,
			"RESETSTAT"},
		"a second reset": {func(_ *filter, p *point) { p.counted[infoAt] -= 2 }, census.HoleReset,
			"RESETSTAT"},
		"another server": {func(_ *filter, p *point) { p.run = "other" }, census.HoleReset, "another server"},
	} {
		first := point{at: at(0), run: "run", shown: calls{3: 7, infoAt: 5},
			counted: calls{3: 100, infoAt: 9}}
		second := point{at: at(2000), run: "run", shown: calls{3: 11, infoAt: 7},
			counted: calls{3: 104, infoAt: 11}}
		f := newFilter(cfg, func(string) {})
		if o := second.since(&first); o.Reason != "monitor proved" || o.For != 2*time.Second {
			t.Errorf("%s: before, %v", name, o)
		}
		c.change(f, &second)
		o := second.since(&first)
		if !strings.HasPrefix(o.Reason, "monitor "+string(c.reason)+" ") ||
			!strings.Contains(o.Reason, c.says) ||
			!o.At.Equal(at(0)) || o.For != 2*time.Second {
			t.Errorf("%s: %v", name, o)
		}
	}
}

// A record that reveals no key still proves the same window, and who ended it.
func TestWindowIsReplayedFromAHashedRecord(t *testing.T) {
	cfg := filled(t, Config{Config: census.Config{Match: "secret:*"}, Hash: []byte("x")})
	var out strings.Builder
	cfg.Record = &out
	r := newRecorder(cfg)
	r.event(reading.GapOf(census.SourceMonitor, at(0), 0, census.HoleBudget, "begins"))
	f := newFilter(cfg, func(string) {})
	events := sighted(t, cfg, f, 0, 0)
	events = f.line(asServer(at(500).UnixMicro(), 0, "a:1", "MSETNX", "secret:1", "1"), events)
	for _, o := range append(events, sighted(t, cfg, f, 0, 2000)...) {
		r.event(o)
	}
	again, err := Replay(strings.NewReader(out.String()), Config{})
	if err != nil || r.err != nil {
		t.Fatal(err, r.err)
	}
	e := again.Evidence
	if _, quiet := e.Quiet(); quiet != 1500*time.Millisecond || strings.Contains(out.String(), "secret") ||
		e.LastCall == nil || e.LastCall.Detail != "MSETNX" || e.LastCall.Addr != "a:1" {
		t.Errorf("quiet for %v after %+v by\n%s", quiet, e.LastCall, out.String())
	}
}

// A replay must know to which database SWAPDB, MOVE and COPY move a key.
func TestHashedRecordKeepsDatabases(t *testing.T) {
	r := newRecorder(Config{Hash: []byte("x")})
	for words, want := range map[string]string{
		"SWAPDB 0 3": "SWAPDB 0 3", "MOVE lock 3": "MOVE " + r.key("lock") + " 3",
		"COPY a b DB 3": "COPY " + r.key("a") + " " + r.key("b") + " DB 3",
		"SETNX lock":    "SETNX " + r.key("lock"),
	} {
		o := r.hashed(offset.Observed{Kind: offset.ObservedCommand, Args: strings.Fields(words)})
		if got := strings.Join(o.Args, " "); got != want {
			t.Errorf("%s is recorded as %s", words, got)
		}
	}
}

// filled returns cfg with its defaults.
func filled(t testing.TB, cfg Config) Config {
	t.Helper()
	cfg, err := cfg.filled()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func evidenceOf(c *census.Census) census.Evidence {
	e, _ := c.Evidence()
	return e
}

// A replay of the record comes to the same run id and bounds as the watch.
func TestRecordCarriesTheRunAndTheBounds(t *testing.T) {
	cfg := census.Config{Lease: time.Minute, Gap: time.Second,
		Dialects: jedis()}
	c, err := census.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := reel.New(func(o offset.Observed) { c.Add(o) })
	f.Begin()
	f.ServerIs(-99_000, "first")
	f.Look(-2000, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(-5000))
	f.ServerIs(100, "second")
	f.Do(200, anna, "SETNX", "stock", stamp(-7000))
	f.Do(2200, anna, "SETNX", "stock", stamp(-5000))
	f.Do(70_000, anna, "SETNX", "stock", stamp(63_000)) // longer than a lease after the run began
	var record strings.Builder
	watch := Config{Config: cfg, Record: &record}
	rec := newRecorder(watch)
	for _, o := range f.Events {
		rec.event(o)
	}
	again, err := Replay(strings.NewReader(record.String()), watch)
	live := evidenceOf(c)
	if err != nil || rec.err != nil || again.Evidence.Run != "second" ||
		again.Evidence.Behind != live.Behind || again.Evidence.Ahead != live.Ahead ||
		live.Behind.AtLeast < 5*time.Second {
		t.Errorf("%v %v\nagain %+v\nlive %+v", err, rec.err, again.Evidence.Behind, live.Behind)
	}
}
