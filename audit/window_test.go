package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// spellings are those that Spring's serializers give to keys and values.
var spellings = []dialect.Encoding{dialect.Plain, dialect.JDK, dialect.JSON}

// spelling is the dialect of a RedisTemplate with one serializer for keys and
// values.
func spelling(e dialect.Encoding) dialect.Dialect {
	d := dialect.Template()
	d.KeyEncoding, d.ValueEncoding = e, e
	return d
}

func keyOf(t *testing.T, d dialect.Dialect, name string) string {
	t.Helper()
	key, err := d.EncodeKey(name)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// quietBeside is the window that MONITOR and the server's counters prove after
// two minutes. An old client of d tries 20 times a second in a database, for a
// lock that another holds; database -1 is none, and nobody tries.
func quietBeside(t *testing.T, cfg Config, d dialect.Dialect, database int) (monitor, stats time.Duration, e Evidence) {
	t.Helper()
	census, err := NewCensus(cfg)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	filter := newFilter(census.cfg, census, func(key string) { found[key] = true })
	key, calls := keyOf(t, d, "lock:stock"), int64(0)
	census.Add(gapOf(SourceMonitor, at(0), 0, HoleBudget, "begins"))
	if database == cfg.DB {
		census.Add(skew.Observed{At: at(0), Kind: skew.ObservedLook, Key: key, Exists: true, Value: stampOf(t, d, at(0), time.Hour)})
	}
	for ms := 0; ms <= 120_000; ms += 50 {
		text := asServer(at(ms).UnixMicro(), cfg.DB, "10.0.0.9:1", "PING")
		if database >= 0 {
			calls++
			text = asServer(at(ms).UnixMicro(), database, "10.0.0.1:1", "SETNX", key, stampOf(t, d, at(ms), time.Minute))
		}
		for _, o := range filter.line(text, nil) {
			census.Add(o)
		}
		if ms%1000 == 0 {
			census.Add(skew.Observed{At: at(ms), Kind: skew.ObservedStep})
			for _, name := range []string{"setnx", "getset"} {
				census.Add(skew.Observed{At: at(ms), Kind: skew.ObservedStats, Event: name, Count: calls})
			}
		}
	}
	e = census.Result().Evidence
	_, monitor = e.Quiet(SourceMonitor)
	_, stats = e.Quiet(SourceStats)
	if database == cfg.DB != found[key] {
		t.Errorf("found %v", found)
	}
	return monitor, stats, e
}

// TestWindowStaysShutWhileAnOldClientTries plays each spelling in each of two
// databases, with the dialect said and left to be found out.
func TestWindowStaysShutWhileAnOldClientTries(t *testing.T) {
	const whole = 2 * time.Minute
	for _, e := range spellings {
		d := spelling(e)
		for _, said := range [][]dialect.Dialect{{d}, nil} {
			for _, watched := range []int{0, 3} {
				for _, tries := range []int{-1, 0, 3} {
					t.Run(fmt.Sprint(e, " ", len(said), " watched ", watched, " tries ", tries), func(t *testing.T) {
						monitor, stats, evidence := quietBeside(t, Config{Match: "lock*", DB: watched, Dialects: said}, d, tries)
						want := whole
						if tries == watched {
							want = 0
						}
						if monitor != want {
							t.Errorf("MONITOR proves %v", monitor)
						}
						// The server counts calls in all databases
						// together.
						if nobody := tries < 0; stats != 0 != nobody {
							t.Errorf("the counters prove %v", stats)
						}
						if tries == watched && (evidence.LastFailed == nil || evidence.LastFailed.DB != watched || evidence.LastFailed.Key != keyOf(t, d, "lock:stock")) {
							t.Errorf("the last failed attempt is %+v", evidence.LastFailed)
						}
					})
				}
			}
		}
	}
}

// TestFilterLeavesOutWhatIsNotAskedAbout sends names that only look like the
// pattern, and one in full length.
func TestFilterLeavesOutWhatIsNotAskedAbout(t *testing.T) {
	census, err := NewCensus(Config{Match: "lock*", DB: 3, Keys: []string{"given"}})
	if err != nil {
		t.Fatal(err)
	}
	filter := newFilter(census.cfg, census, func(string) {})
	for _, c := range []struct {
		db   int
		key  string
		want bool
	}{
		{3, "lock", true}, {0, "lock", false}, {3, "given", true}, {0, "given", false}, {3, "other", false},
		{3, "\xac\xed\x00\x05t\x00\x04lock", true}, {3, "\xac\xed\x00\x05t\x00\x05lock", false}, {3, "\xac\xed\x00\x05t\x00\x05flock", false},
		{3, `"lock:x"`, true}, {3, `"flock"`, false}, {0, `"lock:x"`, false},
		{3, "\xac\xed\x00\x05t\x07\xd0lock" + fmt.Sprintf("%01996d", 0), true}, // longer than what is kept of a value
	} {
		got := filter.line(asServer(at(0).UnixMicro(), c.db, "a:1", "SETNX", c.key, stamp(0)), nil)
		if (len(got) > 0) != c.want {
			t.Errorf("database %d, %.20q: %v", c.db, c.key, got)
		}
	}
}

// TestTokenOnOurMarkIsNoAttempt: a dialect of bare tokens reads any text as one
// of its own.
func TestTokenOnOurMarkIsNoAttempt(t *testing.T) {
	census, err := NewCensus(Config{Match: "lock*", Dialects: []dialect.Dialect{dialect.SetDel()}})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"{lock:x}:gsl": 0, "lock:x": 1} {
		filter := newFilter(census.cfg, census, func(string) {})
		if got := filter.line(asServer(at(0).UnixMicro(), 0, "a:1", "SET", key, "46pp_t56wMdRpwZ1BglSEg", "NX", "PX", "30000"), nil); len(got) != want {
			t.Errorf("%s: %+v", key, got)
		}
	}
	census.Add(skew.Observed{At: at(1), Kind: skew.ObservedLook, Key: "{lock:y}:gsl", Exists: true, Value: "46pp_t56wMdRpwZ1BglSEg 1"})
	if e := census.Result().Evidence; e.LastWrite != nil || len(e.Keys) > 0 {
		t.Errorf("%+v", e.LastWrite)
	}
}

// TestGuardsAndTombstonesAreReadInEachSpelling: they are ours, and no old
// client's write.
func TestGuardsAndTombstonesAreReadInEachSpelling(t *testing.T) {
	for _, e := range spellings {
		d := spelling(e)
		f := newFilm(t, Config{Dialects: []dialect.Dialect{d}})
		for i, text := range []string{"4611686018427387999", d.Tombstone()} {
			value, err := d.EncodeValue(text)
			if err != nil {
				t.Fatal(err)
			}
			f.do(i, anna, "SET", keyOf(t, d, "lock"), value)
		}
		if r := f.wants(Counts{Guards: 1, Tombstones: 1}); r.Evidence.LastWrite != nil {
			t.Errorf("%s: an old client wrote %+v", e, r.Evidence.LastWrite)
		}
	}
}

// TestCommandsAcrossDatabasesAreFollowed: SWAPDB, MOVE, COPY and FLUSHDB change
// keys of a database in which they are not sent, or of another one than that.
func TestCommandsAcrossDatabasesAreFollowed(t *testing.T) {
	for _, c := range []struct {
		db            int
		words         string
		known, exists bool // of "lock" in database 3 afterwards
	}{
		{3, "SETNX lock 1", true, true}, {0, "DEL lock", true, true}, {3, "DEL lock", true, false}, {3, "DEL a lock", true, false},
		{0, "FLUSHDB", true, true}, {3, "FLUSHDB", true, false}, {0, "FLUSHALL", true, false},
		{0, "SWAPDB 0 1", true, true}, {0, "SWAPDB 0 3", false, true}, {5, "SWAPDB 3 1", false, true},
		{0, "MOVE lock 3", false, true}, {3, "MOVE lock 0", false, true}, {0, "MOVE lock 1", true, true}, {3, "MOVE other 0", true, true},
		{0, "COPY other lock DB 3 REPLACE", false, true}, {0, "COPY other lock", true, true}, {3, "COPY other lock", false, true},
	} {
		census, err := NewCensus(Config{DB: 3, Dialects: []dialect.Dialect{dialect.Jedis()}})
		if err != nil {
			t.Fatal(err)
		}
		filter := newFilter(census.cfg, census, func(string) {})
		census.Add(gapOf(SourceMonitor, at(-2), 0, HoleBudget, "begins"))
		census.Add(skew.Observed{At: at(-1), Kind: skew.ObservedLook, Key: "lock"})
		for _, text := range []string{
			asServer(at(0).UnixMicro(), 3, "a:1", "SETNX", "lock", stamp(0)), asServer(at(1).UnixMicro(), c.db, "a:1", strings.Fields(c.words)...),
		} {
			for _, o := range filter.line(text, nil) {
				census.Add(o)
			}
		}
		if k := census.keys[keyID{3, "lock"}]; k.known != c.known || k.exists != c.exists {
			t.Errorf("database %d, %s: known %v, exists %v", c.db, c.words, k.known, k.exists)
		}
	}
}

// TestPollsFindKeysInEachSpelling watches a server by SCAN and looks alone.
func TestPollsFindKeysInEachSpelling(t *testing.T) {
	r, record := watched(t, Config{Match: "lock*"}, func(w *redistest.World) {
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

// TestAttemptInAnUnknownFormCutsTheWindow: an old client of another dialect
// than was said, or another program, calls SETNX on a key that is watched. Many
// such calls make few events, and the last one counts.
func TestAttemptInAnUnknownFormCutsTheWindow(t *testing.T) {
	const value = "0f8fad5b-d9cb-469f-a165-70867728950e:1770000060001"
	for _, c := range []struct {
		addr, name, key string
		db              int
		want            time.Duration
	}{
		{"a:1", "SETNX", "lock:x", 3, 100 * time.Millisecond}, {"a:1", "GETSET", "lock:x", 3, 100 * time.Millisecond}, {"lua", "GETSET", "lock:x", 3, 100 * time.Millisecond},
		{"a:1", "SETNX", "lock:x", 0, 10 * time.Second}, {"a:1", "SETNX", "other", 3, 10 * time.Second}, {"a:1", "GET", "lock:x", 3, 10 * time.Second},
	} {
		census, err := NewCensus(Config{Match: "lock*", DB: 3, Dialects: []dialect.Dialect{dialect.Jedis()}})
		if err != nil {
			t.Fatal(err)
		}
		filter := newFilter(census.cfg, census, func(string) {})
		census.Add(gapOf(SourceMonitor, at(0), 0, HoleBudget, "begins"))
		events := 0
		for ms := 0; ms <= 10_000; ms += 10 {
			line := asServer(at(ms).UnixMicro(), c.db, c.addr, c.name, c.key, value)
			for _, o := range filter.line(line, nil) {
				census.Add(o)
				events++
				if len(o.Args) > 2 {
					t.Errorf("%s: the value of another program is kept: %q", c.name, o.Args)
				}
			}
		}
		census.Add(skew.Observed{At: at(10_000), Kind: skew.ObservedStep})
		e := census.Result().Evidence
		if _, quiet := e.Quiet(SourceMonitor); quiet > c.want || quiet < c.want-100*time.Millisecond || events > 101 || e.Counts != (Counts{}) {
			t.Errorf("%s %s by %s in database %d: quiet for %v, %d events, %+v", c.name, c.key, c.addr, c.db, quiet, events, e.Counts)
		}
		for _, o := range filter.tellOther(nil) {
			census.Add(o)
		}
		e = census.Result().Evidence
		if _, quiet := e.Quiet(SourceMonitor); c.want < time.Second && quiet != 0 {
			t.Errorf("%s: at the end quiet for %v", c.name, quiet)
		}
	}
}

// TestAttemptCountsBeforeItsOutcomeIsKnown: a client of SET NX tries once on a
// key that nobody has looked at.
func TestAttemptCountsBeforeItsOutcomeIsKnown(t *testing.T) {
	d := dialect.SetDel()
	f := newFilm(t, Config{Dialects: []dialect.Dialect{d}})
	f.do(1000, anna, "SET", "lock", d.Constant, "NX", "EX", "30")
	f.add(skew.Observed{At: at(5000), Kind: skew.ObservedStep})
	e := f.result().Evidence
	if _, quiet := e.Quiet(SourceMonitor); quiet != 4*time.Second || e.LastFailed == nil || e.LastFailed.Key != "lock" {
		t.Errorf("quiet for %v, last failed %+v", quiet, e.LastFailed)
	}
}

// TestReplayKeepsToThePattern plays a record of all keys for those of one
// pattern.
func TestReplayKeepsToThePattern(t *testing.T) {
	for _, e := range spellings {
		d := spelling(e)
		f := newFilm(t, Config{Match: "lock*", Dialects: []dialect.Dialect{d}})
		for i, name := range []string{"lock:a", "stock", "lock:b"} {
			f.look(10*i, keyOf(t, d, name), stampOf(t, d, at(10*i), time.Minute))
			f.do(10*i+5, anna, "SETNX", keyOf(t, d, name+"2"), stampOf(t, d, at(10*i), time.Minute))
		}
		if keys := f.census.keys; len(keys) != 4 || len(f.result().Evidence.Keys) != 2 {
			t.Errorf("%s: %+v", e, keys)
		}
	}
}

// TestProbeAndDoctorLookAtEachSpelling: they look at the keys of the pattern,
// and at no others, in database 3.
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

// TestHashedRecordKeepsDatabases: a replay has to know where SWAPDB, MOVE and
// COPY leave a key.
func TestHashedRecordKeepsDatabases(t *testing.T) {
	census, err := NewCensus(Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder(Config{Hash: []byte("x")}, census)
	for words, want := range map[string]string{
		"SWAPDB 0 3": "SWAPDB 0 3", "MOVE lock 3": "MOVE " + r.key("lock") + " 3", "COPY a b DB 3": "COPY " + r.key("a") + " " + r.key("b") + " DB 3",
		"SETNX lock": "SETNX " + r.key("lock"),
	} {
		o := r.hashed(skew.Observed{Kind: skew.ObservedCommand, Args: strings.Fields(words)})
		if got := strings.Join(o.Args, " "); got != want {
			t.Errorf("%s is recorded as %s", words, got)
		}
	}
}
