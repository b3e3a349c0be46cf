package cli

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/legacy"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s (go test -run '%s' -update writes it anew):\n%s", file, t.Name(), got)
	}
}

const (
	aToken  = "46pp_t56wMdRpwZ1BglSEg"
	aUUID   = "0f8fad5b-d9cb-469f-a165-70867728950e"
	springs = "\xac\xed\x00\x05t\x00\x05stock"
)

// furnished has a lock of every kind that ls tells apart, all written around the beginning of time.
func furnished(t *testing.T) *stage {
	s := newStage(t)
	m := s.world.Mini
	at := func(d time.Duration) string { return stampOf(redistest.Start.Add(d)) }
	for key, value := range map[string]string{
		"stock":       at(50 * time.Second),
		springs:       at(40 * time.Second),
		`"stock"`:     at(30 * time.Second),
		"crashed":     at(-time.Hour),
		"ruby":        decimal(redistest.Start.Add(time.Minute).Unix()),
		"floats":      decimal(redistest.Start.Add(time.Minute).Unix()) + ".25",
		"nanos":       decimal(redistest.Start.Add(time.Minute).UnixNano()),
		"uuid":        aUUID + ":" + at(time.Minute),
		"far":         at(9 * 365 * 24 * time.Hour),
		"tombstone":   "9223372036854775807",
		"guarded":     "4611686018427387904",
		"bare":        "lock",
		"empty":       "",
		"text":        "hello, world",
		"bytes\xff\n": "\x00\x01",
		"ours":        at(30*time.Second + time.Millisecond),
		"token":       aToken,
		"noted":       aToken + " host7 backup.sh",
		"almost":      "46pp_t56wMdRpwZ1BglSEh", // bits to spare that are not zero
		"half":        aToken,                   // as the half-modern dialects write it
		"broken":      aToken[:9] + "\n" + aToken[9:],
		"forever":     aToken, // no lock of ours is without a TTL
		"gsl:fence:":  "1772452800000000",
		"gsl:fence:x": "no number",
		"gsl:wait:":   "",
	} {
		if err := m.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	for key, ttl := range map[string]time.Duration{"ours": 31 * time.Second, "token": 20 * time.Second, "guarded": 30 * time.Second,
		"noted": 25 * time.Second, "almost": time.Minute, "broken": time.Minute, "half": 30 * time.Second} {
		m.SetTTL(key, ttl)
	}
	for key, value := range map[string]string{
		legacy.MarkKey("ours"):    aToken + " " + at(30*time.Second+time.Millisecond),
		legacy.MarkKey("guarded"): aToken + " 4611686018427387904",
		legacy.MarkKey("half"):    aToken + " " + aToken,
		legacy.MarkKey("lost"):    aToken + " " + at(30*time.Second),
		"{other}:gsl":             "something else",
	} {
		if err := m.Set(key, value); err != nil {
			t.Fatal(err)
		}
		m.SetTTL(key, 30*time.Second)
	}
	m.ZAdd("gsl:queue::token", 1, "p "+aToken)
	m.ZAdd("gsl:alive::token", 1, "p "+aToken)
	if err := m.Set("gsl:gives::token", " "+aToken); err != nil {
		t.Fatal(err)
	}
	m.HSet("hash", "a", "b")
	m.HSet("{tombstone}:gsl:x", "a", "b")
	return s
}

// stampOf is how jedis-lock writes an instant.
func stampOf(t time.Time) string { return decimal(t.UnixMilli()) }

func TestLsShowsWhatLooksLikeALock(t *testing.T) {
	s := furnished(t)
	got := s.run("ls")
	s.want(got, 0, got.out, "")
	golden(t, "ls.txt", got.out)
	got = s.run("ls", "--json")
	s.want(got, 0, got.out, "")
	golden(t, "ls.json", got.out)
}

func TestLsWithAPatternShowsAllThatMatches(t *testing.T) {
	s := furnished(t)
	got := s.run("ls", "*", "--json")
	s.want(got, 0, got.out, "")
	golden(t, "ls-all.json", got.out)
	for pattern, want := range map[string][]string{
		"stock":         {`"stock"`, `\xac\xed\x00\x05t\x00\x05stock`, "stock"},
		"sto*":          {`"stock"`, `\xac\xed\x00\x05t\x00\x05stock`, "stock"},
		"lost":          {"{lost}:gsl"},
		"los?":          {"{lost}:gsl"},
		"ours":          {"ours"},
		"hash":          {"hash"},
		`bytes\xff\x0a`: {`bytes\xff\x0a`},
		`[e]mpty`:       {"empty"},
		"absent":        {},
	} {
		var answer lsAnswer
		if err := json.Unmarshal([]byte(s.run("ls", pattern, "--json").out), &answer); err != nil {
			t.Fatal(err)
		}
		keys := []string{}
		for _, l := range answer.Locks {
			keys = append(keys, l.Key)
		}
		slices.Sort(keys)
		if !slices.Equal(keys, want) {
			t.Errorf("%s: %q, want %q", pattern, keys, want)
		}
	}
}

func TestLsBelievesTheDialectItIsTold(t *testing.T) {
	s := newStage(t)
	s.world.Mini.Set("k", decimal(redistest.Start.Unix()))
	// The comparison decides: by RedisMutex a stamp of this very second has expired, by Page not.
	for name, state := range map[string]string{"redis-mutex": "expired", "page": "held"} {
		var answer lsAnswer
		if err := json.Unmarshal([]byte(s.run("ls", "--json", "--dialect", name).out), &answer); err != nil {
			t.Fatal(err)
		}
		if len(answer.Locks) != 1 || answer.Locks[0].State != state || plainName(*answer.Locks[0].Dialect) != plainName(name) {
			t.Errorf("%s: %+v", name, answer.Locks)
		}
	}
}

func TestLsGoesThroughTheKeysInSlices(t *testing.T) {
	s := newStage(t)
	for i := range 1200 {
		s.world.Mini.Set("key"+decimal(int64(i)), "x")
	}
	s.world.Mini.Set("k", stampOf(redistest.Start))
	wire := s.world.Wire()
	s.vars["GETSETLOCK_REDIS"] = "redis://" + wire.Listen()
	if got := s.run("ls"); strings.Count(got.out, "\n") != 2 {
		t.Errorf("%+v", got)
	}
	for _, c := range wire.Sent() {
		if c.Is("KEYS") || c.Is("SCAN") && !strings.Contains(c.String(), "COUNT") {
			t.Errorf("sent %s", c)
		}
	}
}

func TestNoLocksIsAnAnswer(t *testing.T) {
	s := newStage(t)
	s.want(s.run("ls"), 0, "", "no locks found")
	s.want(s.run("ls", "-q"), 0, "", "")
	s.want(s.run("ls", "--json"), 0, "{\n  \"schema\": \"getsetlock.ls/1\",\n  \"locks\": []\n}\n", "")
}

func TestLsOfAServerThatIsAwayIs3(t *testing.T) {
	s := newStage(t)
	s.vars["GETSETLOCK_REDIS"] = "redis://:s3cret@127.0.0.1:1"
	s.want(s.run("ls"), 3, "", "listing the keys of redis://:***@127.0.0.1:1: ")
}

func TestUnlockComparesAndDeletes(t *testing.T) {
	s := furnished(t)
	stock, _ := s.world.Mini.Get("stock")
	s.want(s.run("unlock", "stock", "--value", "1"), 1, "", "it holds "+stock)
	s.want(s.run("unlock", "stock", "--value", stock), 0, "deleted stock\n", "")
	s.want(s.run("unlock", "stock", "--value", stock), 1, "", "it is free")
	s.want(s.run("unlock", "hash", "--value", "x"), 1, "", "it holds a hash")
	s.want(s.run("unlock", "ours", "--value", aToken), 0, "deleted ours with the token of ours that held it\n", "")
	s.want(s.run("unlock", "lost", "--value", aToken), 0, "deleted lost with the token of ours that held it\n", "")
	s.want(s.run("unlock", `bytes\xff\x0a`, "--value", `\x00\x01`), 0, "deleted bytes\\xff\\x0a\n", "")
	s.want(s.run("unlock", escaped(springs), "--value", stampOf(redistest.Start.Add(40*time.Second))), 0,
		"deleted "+escaped(springs)+"\n", "")
	s.want(s.run("unlock", "half", "--value", aToken), 0, "deleted half with the token of ours that held it\n", "")
	s.want(s.run("unlock", "noted", "--value", "x"), 1, "", "it holds "+aToken+" host7 backup.sh")
	s.want(s.run("unlock", "noted", "--value", aToken), 0, "deleted noted\n", "")
	s.want(s.run("unlock", "token", "--value", aToken), 0, "deleted token\n", "")
	s.want(s.run("unlock", "token", "--value", aToken), 1, "", "it is free")
	s.world.Mini.Set("noted", aToken+" host8")
	s.world.Mini.SetTTL("noted", time.Minute)
	s.want(s.run("unlock", "noted", "--value", aToken+" host7"), 1, "", "it holds "+aToken+" host8")
	s.want(s.run("unlock", "noted", "--value", aToken+" host8"), 0, "deleted noted\n", "")
	for _, key := range []string{"stock", "noted", "token", "ours", legacy.MarkKey("ours"), legacy.MarkKey("lost"), springs, "bytes\xff\n"} {
		if s.world.Mini.Exists(key) {
			t.Errorf("%q still exists", key)
		}
	}
	if !s.world.Mini.Exists("ruby") {
		t.Error("more was deleted than asked for")
	}
}

func TestUnlockAsksAndShowsTheHolder(t *testing.T) {
	s := furnished(t)
	s.interactive = true
	s.stdin = "n\n"
	s.want(s.run("unlock", "ours"), 1, "", "ours is held, by "+aToken+", in dialect Jedis, value 1772452830001, its lease runs until 2026-03-02T12:00:30.000Z and may be renewed\nIf its holder is alive")
	s.stdin = ""
	s.want(s.run("unlock", "ours"), 1, "", "nothing was deleted")
	if !s.world.Mini.Exists("ours") {
		t.Fatal("deleted without a yes")
	}
	s.stdin = "y\n"
	s.want(s.run("unlock", "ours"), 0, "deleted ours with the token of ours that held it\n", "Delete it? [y/N] ")
	s.want(s.run("unlock", "lost"), 0, "deleted lost with the token of ours that held it\n", "Delete it?")
	s.want(s.run("unlock", "noted"), 0, "deleted noted\n",
		"noted is held, by "+aToken+", that is host7 backup.sh, value "+aToken+" host7 backup.sh, its lease runs until 2026-03-02T12:00:25.000Z and may be renewed\n"+
			"If its holder is alive, it works on without a lock until it is told, by a message from the server or at its next renewal")
	s.want(s.run("unlock", "absent"), 0, "absent is free\n", "")
	s.want(s.run("unlock", "hash"), 1, "", "holds a hash")
	s.world.Mini.Set("long", strings.Repeat("x", 2000))
	s.want(s.run("unlock", "long"), 1, "", "2000 bytes long")
}

// The end is told for what it is, and never as a bound on how long it is held.
func TestUnlockSaysWhoseEndItIs(t *testing.T) {
	s := furnished(t)
	s.world.Mini.Set(legacy.MarkKey("stock"), aToken+" 1") // its holder was robbed by an old client
	s.interactive = true
	s.stdin = "n\n"
	for key, want := range map[string]string{
		"uuid":    ", its stamp ends at 2026-03-02T12:01:00.000Z by its writer's clock\nIf its",
		"stock":   ", its stamp ends at 2026-03-02T12:00:50.000Z by its writer's clock\nIf its",
		"crashed": ", its stamp ended at 2026-03-02T11:00:00.000Z by its writer's clock\nIf its",
		"ours":    ", its lease runs until 2026-03-02T12:00:30.000Z and may be renewed\nIf its",
		"token":   ", its lease runs until 2026-03-02T12:00:20.000Z and may be renewed\nIf its",
		"guarded": ", its lease runs until 2026-03-02T12:00:30.000Z and may be renewed\nIf its",
		"lost":    ", its lease ends at 2026-03-02T12:00:30.000Z and is not renewed\nIf its",
		"bare":    ", value lock\nIf its",
	} {
		s.want(s.run("unlock", key), 1, "", want)
	}
}

func TestUnlockDoesNotDeleteWhatChangedWhileItAsked(t *testing.T) {
	s := furnished(t)
	s.interactive = true
	in := make(chan string)
	st := s.startReading(reader(in), "unlock", "stock")
	st.errors.await("[y/N]")
	s.world.Mini.Set("stock", "another")
	in <- "y\n"
	s.want(<-st.done, 1, "", "it holds another")
}

func TestAnInterruptionEndsTheQuestion(t *testing.T) {
	s := furnished(t)
	s.interactive = true
	in := make(chan string)
	st := s.startReading(reader(in), "unlock", "stock")
	st.errors.await("[y/N]")
	s.signal(os.Interrupt)
	s.want(<-st.done, 130, "", "nothing was deleted: interrupted by ^C")
	in <- "\n" // the reader that was left behind ends
}

// reader reads what is sent to it.
type reader chan string

func (r reader) Read(p []byte) (int, error) { return copy(p, <-r), nil }

// TestLsFindsOurKeyBesideEachSpelling has keys of ours whose old keys are gone, in database 3.
func TestLsFindsOurKeyBesideEachSpelling(t *testing.T) {
	s := newStage(t)
	s.vars["GETSETLOCK_REDIS"] += "/3"
	wrapped := []string{"lost", "\xac\xed\x00\x05t\x00\x04lost", `"lost"`}
	for _, l := range wrapped {
		s.world.Mini.DB(3).Set(legacy.MarkKey(l), aToken+" 1")
		s.world.Mini.DB(3).SetTTL(legacy.MarkKey(l), time.Minute)
		s.world.Mini.Set(legacy.MarkKey(l+"2"), aToken+" 1")
	}
	for _, pattern := range []string{"lost", "lo*", "los?", "*t"} {
		var answer lsAnswer
		if err := json.Unmarshal([]byte(s.run("ls", pattern, "--json").out), &answer); err != nil {
			t.Fatal(err)
		}
		if len(answer.Locks) != len(wrapped) {
			t.Errorf("%s: %+v", pattern, answer.Locks)
		}
	}
}

// A getsetlock client's stamp lies a day beyond its lock's end.
func TestLsShowsTheEndOfOursAndNotItsStamp(t *testing.T) {
	s := newStage(t)
	m := s.world.Mini
	ahead := stampOf(redistest.Start.Add(24*time.Hour + 30*time.Second))
	m.Set("ours", ahead)
	m.SetTTL("ours", 35*time.Second)
	m.Set(legacy.MarkKey("ours"), aToken+" "+ahead)
	m.SetTTL(legacy.MarkKey("ours"), 30*time.Second)
	m.Set("unmarked", ahead)
	m.SetTTL("unmarked", 20*time.Second)
	m.Set("old", stampOf(redistest.Start.Add(40*time.Second)))
	m.HSet("{ours}:gsl:look", "bytes", ahead)
	var answer lsAnswer
	if err := json.Unmarshal([]byte(s.run("ls", "*", "--json").out), &answer); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"ours": "30000", "unmarked": "20000", "old": "40000"}
	for _, l := range answer.Locks {
		if l.Left == nil || want[l.Key] == "" || l.Left.String() != want[l.Key] || l.State != stateHeld {
			t.Errorf("%s: %s, left %v", l.Key, l.State, l.Left)
		}
	}
	if len(answer.Locks) != len(want) {
		t.Errorf("%+v", answer.Locks)
	}
	s.interactive, s.stdin = true, "n\n"
	s.want(s.run("unlock", "ours"), 1, "", "until "+redistest.Start.Add(30*time.Second).UTC().Format("2006-01-02T15:04:05.000Z"))
}
