package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/offset"
)

// quietBeside returns the windows that MONITOR and the server's counters prove
// after two minutes. In the given database, an old client of d tries 20 times a
// second to take a lock that another client holds. With database -1 no client
// tries.
func quietBeside(t *testing.T, cfg Config, d dialect.Dialect, database int) (monitor, stats time.Duration,
	e census.Evidence) {
	t.Helper()
	folded, err := census.New(cfg.Config)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	filter := newFilter(filled(t, cfg), func(key string) { found[key] = true })
	key, calls := keyOf(t, d, "lock:stock"), int64(0)
	folded.Add(reading.GapOf(census.SourceMonitor, at(0), 0, census.HoleBudget, "begins"))
	if database == cfg.DB {
		folded.Add(offset.Observed{At: at(0), Kind: offset.ObservedLook, Key: key, Exists: true,
			Value: stampOf(t, d, at(0), time.Hour)})
	}
	for ms := 0; ms <= 120_000; ms += 50 {
		text := asServer(at(ms).UnixMicro(), cfg.DB, "10.0.0.9:1", "PING")
		if database >= 0 {
			calls++
			text = asServer(at(ms).UnixMicro(), database, "10.0.0.1:1", "SETNX", key,
				stampOf(t, d, at(ms), time.Minute))
		}
		for _, o := range filter.line(text, nil) {
			folded.Add(o)
		}
		if ms%1000 == 0 {
			folded.Add(offset.Observed{At: at(ms), Kind: offset.ObservedStep})
			for _, o := range sighted(t, filled(t, cfg), filter, cfg.DB, ms) {
				folded.Add(o)
			}
			for _, name := range []string{"setnx", "getset"} {
				folded.Add(offset.Observed{At: at(ms), Kind: offset.ObservedStats, Event: name, Count: calls})
			}
		}
	}
	e = evidenceOf(folded)
	_, monitor = e.Quiet(census.SourceMonitor)
	_, stats = e.Quiet(census.SourceStats)
	if database == cfg.DB != found[key] {
		t.Errorf("found %v", found)
	}
	return monitor, stats, e
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
							monitor, stats, evidence := quietBeside(t,
								Config{Config: census.Config{Match: "lock*", DB: watched, Dialects: said}}, d,
								tries)
							want := whole
							if tries == watched {
								want = 0
							}
							if monitor != want {
								t.Errorf("MONITOR proves %v", monitor)
							}
							// INFO counts the calls in all databases together.
							if nobody := tries < 0; stats != 0 != nobody {
								t.Errorf("the counters prove %v", stats)
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
	cfg := census.Config{Match: "lock*", DB: 3, Keys: []string{"given"}}
	filter := newFilter(filled(t, Config{Config: cfg}), func(string) {})
	for _, c := range []struct {
		db   int
		key  string
		want bool
	}{
		{3, "lock", true}, {0, "lock", false}, {3, "given", true}, {0, "given", false}, {3, "other", false},
		{3, "\xac\xed\x00\x05t\x00\x04lock", true}, {3, "\xac\xed\x00\x05t\x00\x05lock", false},
		{3, "\xac\xed\x00\x05t\x00\x05flock", false},
		{3, `"lock:x"`, true}, {3, `"flock"`, false}, {0, `"lock:x"`, false},
		// longer than what the filter keeps of a value
		{3, "\xac\xed\x00\x05t\x07\xd0lock" + fmt.Sprintf("%01996d", 0), true},
	} {
		got := filter.line(asServer(at(0).UnixMicro(), c.db, "a:1", "SETNX", c.key, stamp(0)), nil)
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

// Every command that changes or may change the key reaches the census,
// whichever database it was sent in.
func TestFilterPassesOnCommandsOfAllDatabases(t *testing.T) {
	for _, c := range []struct {
		db            int
		words         string
		unknown, gone bool // what happens to "lock" in database 3
	}{
		{3, "SETNX lock 1", false, false}, {0, "DEL lock", false, false}, {3, "DEL lock", false, true},
		{3, "DEL a lock", false, true},
		{0, "FLUSHDB", false, false}, {3, "FLUSHDB", false, true}, {0, "FLUSHALL", false, true},
		{0, "SWAPDB 0 1", false, false}, {0, "SWAPDB 0 3", true, false}, {5, "SWAPDB 3 1", true, false},
		{0, "MOVE lock 3", true, false}, {3, "MOVE lock 0", true, false}, {0, "MOVE lock 1", false, false},
		{3, "MOVE other 0", false, false},
		{0, "COPY other lock DB 3 REPLACE", true, false}, {0, "COPY other lock", false, false},
		{3, "COPY other lock", true, false},
	} {
		filter := newFilter(filled(t,
			Config{Config: census.Config{DB: 3, Dialects: []dialect.Dialect{dialect.Jedis()}}}),
			func(string) {})
		filter.line(asServer(at(0).UnixMicro(), 3, "a:1", "SETNX", "lock", stamp(0)), nil)
		got := filter.line(asServer(at(1).UnixMicro(), c.db, "a:1", strings.Fields(c.words)...), nil)
		if n := len(got); n == 0 && (c.unknown || c.gone) ||
			n > 0 && strings.Join(got[n-1].Args, " ") != c.words {
			t.Errorf("database %d, %s: passed on %+v", c.db, c.words, got)
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

// An old client of an unnamed dialect, or another program, calls SETNX on a
// watched key. Many such calls yield few events, and the last call counts.
func TestAttemptInAnUnknownFormCutsTheWindow(t *testing.T) {
	const value = "0f8fad5b-d9cb-469f-a165-70867728950e:1770000060001"
	for _, c := range []struct {
		addr, name, key string
		db              int
		want            time.Duration
	}{
		{"a:1", "SETNX", "lock:x", 3, 0}, {"a:1", "GETSET", "lock:x", 3, 0},
		{"lua", "GETSET", "lock:x", 3, 0},
		{"a:1", "SETNX", "lock:x", 0, 10 * time.Second}, {"a:1", "SETNX", "other", 3, 10 * time.Second},
		{"a:1", "GET", "lock:x", 3, 10 * time.Second},
	} {
		cfg := census.Config{Match: "lock*", DB: 3, Dialects: []dialect.Dialect{dialect.Jedis()}}
		folded, err := census.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		filter := newFilter(filled(t, Config{Config: cfg}), func(string) {})
		folded.Add(reading.GapOf(census.SourceMonitor, at(0), 0, census.HoleBudget, "begins"))
		events := 0
		for ms := 0; ms <= 10_000; ms += 10 {
			line := asServer(at(ms).UnixMicro(), c.db, c.addr, c.name, c.key, value)
			for _, o := range filter.line(line, nil) {
				folded.Add(o)
				events++
				if len(o.Args) > 2 {
					t.Errorf("%s: the value of another program is kept: %q", c.name, o.Args)
				}
			}
		}
		for _, o := range sighted(t, filled(t, Config{Config: cfg}), filter, 3, 10_000) {
			folded.Add(o)
		}
		e := evidenceOf(folded)
		if _, quiet := e.Quiet(census.SourceMonitor); quiet != c.want || events > 101 ||
			e.Counts != (census.Counts{}) {
			t.Errorf("%s %s by %s in database %d: quiet for %v, %d events, %+v", c.name, c.key, c.addr, c.db,
				quiet, events, e.Counts)
		}
	}
}

// If all keys of a database are watched, most programs that call SETNX there
// take no lock of the fleet. A SETNX ends the window only if some dialect reads
// its value, or if its key has held a lock.
func TestOtherProgramsDoNotCutAWindowOfAllKeys(t *testing.T) {
	for _, c := range []struct {
		pattern, key, value string
		cuts                bool
	}{
		{"", "session:7", "1", false}, {"", "session:7", "anna", false}, {"", "lock:a", "1", true},
		{"", "session:7", "0f8fad5b-d9cb-469f-a165-70867728950e:1770000060001", true},
		{"", "session:7", `"1770000060001"`, true}, {"lock*", "lock:b", "1", true},
		{"lock*", "session:7", "1", false},
	} {
		cfg := Config{Config: census.Config{Match: c.pattern, Dialects: []dialect.Dialect{dialect.Jedis()}}}
		folded, err := census.New(cfg.Config)
		if err != nil {
			t.Fatal(err)
		}
		filter := newFilter(filled(t, cfg), func(string) {})
		folded.Add(reading.GapOf(census.SourceMonitor, at(0), 0, census.HoleBudget, "begins"))
		lines := []string{asServer(at(100).UnixMicro(), 0, "a:1", "SETNX", "lock:a", stamp(100))}
		for ms := 200; ms < 10_000; ms += 50 {
			lines = append(lines, asServer(at(ms).UnixMicro(), 0, "b:1", "SETNX", c.key, c.value))
		}
		for _, text := range lines {
			for _, o := range filter.line(text, nil) {
				folded.Add(o)
			}
		}
		for _, o := range sighted(t, filled(t, cfg), filter, 0, 10_000) {
			folded.Add(o)
		}
		e := evidenceOf(folded)
		if _, quiet := e.Quiet(census.SourceMonitor); c.cuts != (quiet < time.Second) ||
			!c.cuts && quiet != 9900*time.Millisecond {
			t.Errorf("watching %q, SETNX %s %s: quiet for %v", c.pattern, c.key, c.value, quiet)
		}
	}
}

// A window by MONITOR grows only with markers that came back in each encoding.
func TestWindowReachesToTheYoungestMarker(t *testing.T) {
	all := Config{Config: census.Config{Match: "lock:*", DB: 3}}
	said := all
	said.Dialects = []dialect.Dialect{spelling(dialect.JDK)}
	for name, c := range map[string]struct {
		cfg      Config
		database int
		drop     int // the line of the second round that never comes; -1: all come
		want     time.Duration
	}{
		"all spellings": {all, 3, -1, 4 * time.Second}, "one is missing": {all, 3, 1, 2 * time.Second},
		"another database": {all, 0, -1, 2 * time.Second},
		"the fleet's own":  {said, 3, -1, 4 * time.Second}, "that is missing": {said, 3, 0, 2 * time.Second},
	} {
		cfg := filled(t, c.cfg)
		folded, err := census.New(cfg.Config)
		if err != nil {
			t.Fatal(err)
		}
		filter := newFilter(cfg, func(string) {})
		folded.Add(reading.GapOf(census.SourceMonitor, at(0), 0, census.HoleBudget, "begins"))
		events := sighted(t, cfg, filter, 3, 2000)
		for i, o := range sighted(t, cfg, filter, c.database, 4000) {
			if i != c.drop {
				events = append(events, o)
			}
		}
		// Later events of other kinds prove nothing.
		events = append(events, filter.line(
			asServer(at(9000).UnixMicro(), 3, "a:1", "GET", "lock:gsl-sight:"+strings.Repeat("A", 26)),
			nil)...)
		events = append(events, offset.Observed{At: at(9000), Kind: offset.ObservedStep},
			offset.Observed{At: at(9000), Kind: offset.ObservedLook, Key: "lock:y"})
		for _, o := range events {
			folded.Add(o)
		}
		e := evidenceOf(folded)
		if from, quiet := e.Quiet(census.SourceMonitor); quiet != c.want {
			t.Errorf("%s: quiet from %v for %v, of %+v", name, from, quiet, e.Covered(census.SourceMonitor))
		}
		if len(e.Keys) > 0 || e.LastWrite != nil || e.LastFailed != nil || e.LastCall != nil {
			t.Errorf("%s: a marker is taken for an act: %+v", name, e)
		}
	}
}

// A record that reveals no key still proves the same window.
func TestMarkersAreReplayedFromAHashedRecord(t *testing.T) {
	cfg := filled(t, Config{Config: census.Config{Match: "secret:*"}, Hash: []byte("x")})
	var out strings.Builder
	cfg.Record = &out
	r := newRecorder(cfg)
	r.event(reading.GapOf(census.SourceMonitor, at(0), 0, census.HoleBudget, "begins"))
	for _, o := range sighted(t, cfg, newFilter(cfg, func(string) {}), 0, 2000) {
		r.event(o)
	}
	again, err := Replay(strings.NewReader(out.String()), Config{})
	if err != nil || r.err != nil {
		t.Fatal(err, r.err)
	}
	if _, quiet := again.Evidence.Quiet(census.SourceMonitor); quiet != 2*time.Second ||
		strings.Contains(out.String(), "secret") {
		t.Errorf("quiet for %v by\n%s", quiet, out.String())
	}
}

// Both look at the keys that match the pattern, in database 3 only.
func TestProbeAndDoctorLookAtEachSpelling(t *testing.T) {
	w := redistest.New(t)
	for _, e := range spellings {
		d := spelling(e)
		for _, name := range []string{"lock:a", "zz:lock"} {
			_ = w.Mini.DB(3).Set(keyOf(t, d, name), stampOf(t, d, w.ServerNow().Add(-time.Hour), time.Minute))
		}
		_ = w.Mini.Set(keyOf(t, d, "lock:zero"), stampOf(t, d, w.ServerNow().Add(-time.Hour), time.Minute))
	}
	pool := w.Pool(redis.DialDatabase(3))
	p, err := Probe(t.Context(), pool, ProbeConfig{Match: "lock*", DB: 3, Hurry: true})
	if err != nil || p.Keys != 3 {
		t.Errorf("the probe looked at %d keys, %v", p.Keys, err)
	}
	d, err := Doctor(t.Context(), pool, DoctorConfig{Match: "lock*", DB: 3, Behind: time.Second, Hurry: true})
	dead := map[string]bool{}
	for _, c := range d.Complaints {
		if c.Kind == "dead" && c.DB == 3 {
			dead[c.Key] = true
		}
	}
	if err != nil || d.Keys != 3 || len(dead) != 3 {
		t.Errorf("the doctor looked at %d keys and found %v, %v", d.Keys, dead, err)
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
	cfg := census.Config{Lease: time.Minute, Gap: time.Second, Idle: time.Second,
		Dialects: []dialect.Dialect{dialect.Jedis()}}
	f := on(t, cfg, "first")
	f.look(-2000, "stock", "")
	f.do(0, anna, "SETNX", "stock", stamp(-5000))
	f.serverIs(100, "second")
	f.do(200, anna, "SETNX", "stock", stamp(-7000))
	f.do(2200, anna, "SETNX", "stock", stamp(-5000))
	f.do(70_000, anna, "SETNX", "stock", stamp(63_000)) // longer than a lease after the run began
	var record strings.Builder
	watch := Config{Config: cfg, Record: &record}
	rec := newRecorder(watch)
	for _, o := range f.events {
		rec.event(o)
	}
	again, err := Replay(strings.NewReader(record.String()), watch)
	live := f.result().Evidence
	if err != nil || rec.err != nil || again.Evidence.Run != "second" ||
		again.Evidence.Behind != live.Behind || again.Evidence.Ahead != live.Ahead ||
		!live.Behind.Span.Known() {
		t.Errorf("%v %v\nagain %+v\nlive %+v", err, rec.err, again.Evidence.Behind, live.Behind)
	}
}
