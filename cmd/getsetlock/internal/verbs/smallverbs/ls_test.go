// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
)

// furnished has a lock of every kind that ls distinguishes, all written around
// the beginning of time.
func furnished(t *testing.T) *clitest.Stage {
	s := clitest.NewStage(t)
	m := s.World.Mini
	at := func(d time.Duration) string { return clitest.StampOf(redistest.Start.Add(d)) }
	for key, value := range map[string]string{
		"stock":         at(50 * time.Second),
		clitest.Springs: at(40 * time.Second),
		`"stock"`:       at(30 * time.Second),
		"crashed":       at(-time.Hour),
		"ruby":          clitest.Decimal(redistest.Start.Add(time.Minute).Unix()),
		"floats":        clitest.Decimal(redistest.Start.Add(time.Minute).Unix()) + ".25",
		"nanos":         clitest.Decimal(redistest.Start.Add(time.Minute).UnixNano()),
		"uuid":          clitest.UUID + ":" + at(time.Minute),
		"far":           at(9 * 365 * 24 * time.Hour),
		"tombstone":     "9223372036854775807",
		"guarded":       "4611686018427387904",
		"bare":          "lock",
		"empty":         "",
		"text":          "hello, world",
		"bytes\xff\n":   "\x00\x01",
		"ours":          at(30*time.Second + time.Millisecond),
		"token":         clitest.Token,
		"noted":         clitest.Token + " host7 backup.sh",
		"almost":        "46pp_t56wMdRpwZ1BglSEh", // its spare bits are not zero
		"half":          clitest.Token,            // as the half-modern dialects write it
		"broken":        clitest.Token[:9] + "\n" + clitest.Token[9:],
		"forever":       clitest.Token, // a getsetlock client's lock always has a TTL
		"gsl:fence:x":   "no number",
		"gsl:wait::{a}": "",
	} {
		if err := m.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	for key, ttl := range map[string]time.Duration{
		"ours": 31 * time.Second, "token": 20 * time.Second, "guarded": 30 * time.Second,
		"noted": 25 * time.Second, "almost": time.Minute, "broken": time.Minute, "half": 30 * time.Second} {
		m.SetTTL(key, ttl)
	}
	for key, value := range map[string]string{
		legacy.MarkKey("ours"):    clitest.Token + " " + at(30*time.Second+time.Millisecond),
		legacy.MarkKey("guarded"): clitest.Token + " 4611686018427387904",
		legacy.MarkKey("half"):    clitest.Token + " " + clitest.Token,
		legacy.MarkKey("lost"):    clitest.Token + " " + at(30*time.Second),
		"{other}:gsl":             "something else",
	} {
		if err := m.Set(key, value); err != nil {
			t.Fatal(err)
		}
		m.SetTTL(key, 30*time.Second)
	}
	_ = m.Set(names.OfSlot("gsl:fence::", "token"), "1772452800000000")
	_ = m.Set(names.OfSlot("gsl:fence::", "ours"), "1772452800000008")
	m.ZAdd("gsl:queue::{token}", 1, "p "+clitest.Token)
	m.ZAdd("gsl:alive::{token}", 1, "p "+clitest.Token)
	m.HSet("hash", "a", "b")
	m.HSet("{tombstone}:gsl:x", "a", "b")
	return s
}

func TestLsShowsWhatLooksLikeALock(t *testing.T) {
	s := furnished(t)
	got := s.Run("ls")
	s.Want(got, 0, got.Out, "")
	golden.Check(t, "testdata/ls.txt", got.Out)
	got = s.Run("ls", "--json")
	s.Want(got, 0, got.Out, "")
	golden.Check(t, "testdata/ls.json", got.Out)
}

func TestLsShowsAllThatMatchAPattern(t *testing.T) {
	s := furnished(t)
	got := s.Run("ls", "*", "--json")
	s.Want(got, 0, got.Out, "")
	golden.Check(t, "testdata/ls-all.json", got.Out)
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
		keys := []string{}
		for _, l := range clitest.AnswerOf(t, s.Run("ls", pattern, "--json")).All("locks") {
			keys = append(keys, fmt.Sprint(l.At("key")))
		}
		slices.Sort(keys)
		if !slices.Equal(keys, want) {
			t.Errorf("%s: %q, want %q", pattern, keys, want)
		}
	}
}

func TestLsBelievesTheDialectItIsTold(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.Set("k", clitest.Decimal(redistest.Start.Unix()))
	// The comparison decides: a stamp of this very second has expired for
	// RedisMutex, and not for Page.
	for name, state := range map[string]string{"redis-mutex": "expired", "page": "held"} {
		locks := clitest.AnswerOf(t, s.Run("ls", "--json", "--dialect", name)).All("locks")
		if len(locks) != 1 || locks[0].At("state") != state ||
			dialect.Fold(fmt.Sprint(locks[0].At("dialect"))) != dialect.Fold(name) {
			t.Errorf("%s: %v", name, locks)
		}
	}
}

func TestLsGoesThroughTheKeysInSlices(t *testing.T) {
	s := clitest.NewStage(t)
	s.Timeout = time.Minute // a slice of the embedded server takes seconds on a busy machine
	for i := range 1200 {
		s.World.Mini.Set("key"+clitest.Decimal(int64(i)), "x")
	}
	s.World.Mini.Set("k", clitest.StampOf(redistest.Start))
	wire := s.World.Wire()
	s.Vars["GETSETLOCK_REDIS"] = "redis://" + wire.Listen()
	if got := s.Run("ls"); strings.Count(got.Out, "\n") != 2 {
		t.Errorf("%+v", got)
	}
	for _, c := range wire.Sent() {
		if c.Is("KEYS") || c.Is("SCAN") && !strings.Contains(c.String(), "COUNT") {
			t.Errorf("sent %s", c)
		}
	}
}

func TestLsSaysThatThereAreNoLocks(t *testing.T) {
	s := clitest.NewStage(t)
	s.Want(s.Run("ls"), 0, "", "no locks found")
	s.Want(s.Run("ls", "-q"), 0, "", "")
	s.Want(s.Run("ls", "--json"), 0, "{\n  \"schema\": \"getsetlock.ls/1\",\n  \"locks\": []\n}\n", "")
}

func TestLsOfAMissingServerIsExitCode3(t *testing.T) {
	s := clitest.NewStage(t)
	s.Vars["GETSETLOCK_REDIS"] = "redis://:s3cret@127.0.0.1:1"
	s.Want(s.Run("ls"), 3, "", "listing the keys of redis://:***@127.0.0.1:1: ")
}

func TestUnlockComparesAndDeletes(t *testing.T) {
	s := furnished(t)
	stock, _ := s.World.Mini.Get("stock")
	s.Want(s.Run("unlock", "stock", "--value", "1"), 1, "", "it holds "+stock)
	s.Want(s.Run("unlock", "stock", "--value", stock), 0, "deleted stock\n", "")
	s.Want(s.Run("unlock", "stock", "--value", stock), 1, "", "it is free")
	s.Want(s.Run("unlock", "hash", "--value", "x"), 1, "", "it holds a hash")
	s.Want(s.Run("unlock", "ours", "--value", clitest.Token), 0,
		"deleted ours and the getsetlock client's token that held it\n", "")
	s.Want(s.Run("unlock", "lost", "--value", clitest.Token), 0,
		"deleted lost and the getsetlock client's token that held it\n", "")
	s.Want(s.Run("unlock", `bytes\xff\x0a`, "--value", `\x00\x01`), 0, "deleted bytes\\xff\\x0a\n", "")
	s.Want(s.Run("unlock", out.Escaped(clitest.Springs), "--value",
		clitest.StampOf(redistest.Start.Add(40*time.Second))), 0,
		"deleted "+out.Escaped(clitest.Springs)+"\n", "")
	s.Want(s.Run("unlock", "half", "--value", clitest.Token), 0,
		"deleted half and the getsetlock client's token that held it\n", "")
	s.Want(s.Run("unlock", "noted", "--value", "x"), 1, "", "it holds "+clitest.Token+" host7 backup.sh")
	s.Want(s.Run("unlock", "noted", "--value", clitest.Token), 0, "deleted noted\n", "")
	s.Want(s.Run("unlock", "token", "--value", clitest.Token), 0, "deleted token\n", "")
	s.Want(s.Run("unlock", "token", "--value", clitest.Token), 1, "", "it is free")
	s.World.Mini.Set("noted", clitest.Token+" host8")
	s.World.Mini.SetTTL("noted", time.Minute)
	s.Want(s.Run("unlock", "noted", "--value", clitest.Token+" host7"), 1, "",
		"it holds "+clitest.Token+" host8")
	s.Want(s.Run("unlock", "noted", "--value", clitest.Token+" host8"), 0, "deleted noted\n", "")
	for _, key := range []string{"stock", "noted", "token", "ours", legacy.MarkKey("ours"),
		legacy.MarkKey("lost"), clitest.Springs, "bytes\xff\n"} {
		if s.World.Mini.Exists(key) {
			t.Errorf("%q still exists", key)
		}
	}
	if !s.World.Mini.Exists("ruby") {
		t.Error("more was deleted than asked for")
	}
}

func TestUnlockAsksAndShowsTheHolder(t *testing.T) {
	s := furnished(t)
	s.Interactive = true
	s.Stdin = "n\n"
	s.Want(s.Run("unlock", "ours"), 1, "", "ours is held, by "+clitest.Token+", in dialect Jedis, value 1772452830001, its lease runs until 2026-03-02T12:00:30.000Z and may be renewed\nIf its holder is alive")
	s.Stdin = ""
	s.Want(s.Run("unlock", "ours"), 1, "", "nothing was deleted")
	if !s.World.Mini.Exists("ours") {
		t.Fatal("deleted without a yes")
	}
	s.Stdin = "y\n"
	s.Want(s.Run("unlock", "ours"), 0, "deleted ours and the getsetlock client's token that held it\n",
		"Delete it? [y/N] ")
	s.Want(s.Run("unlock", "lost"), 0, "deleted lost and the getsetlock client's token that held it\n",
		"Delete it?")
	s.Want(s.Run("unlock", "noted"), 0, "deleted noted\n",
		"noted is held, by "+clitest.Token+", note host7 backup.sh, value "+clitest.Token+
			" host7 backup.sh, its lease runs until 2026-03-02T12:00:25.000Z and may be renewed\n"+
			"If its holder is alive, it goes on working without a lock until it learns of the loss, by a message from the server or at its next renewal")
	s.Want(s.Run("unlock", "absent"), 0, "absent is free\n", "")
	s.Want(s.Run("unlock", "hash"), 1, "", "holds a hash")
	s.World.Mini.Set("long", strings.Repeat("x", 2000))
	s.Want(s.Run("unlock", "long"), 1, "", "2000 bytes long")
}

// The message names the clock of the end, and does not present the end as a
// bound on the hold.
func TestUnlockSaysWhoseEndItIs(t *testing.T) {
	s := furnished(t)
	s.World.Mini.Set(legacy.MarkKey("stock"), clitest.Token+" 1") // an old client robbed its holder
	s.Interactive = true
	s.Stdin = "n\n"
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
		s.Want(s.Run("unlock", key), 1, "", want)
	}
}

func TestUnlockLeavesAValueThatChangedAlone(t *testing.T) {
	s := furnished(t)
	s.Interactive = true
	in := make(chan string)
	st := s.StartReading(reader(in), "unlock", "stock")
	st.Errors.Await("[y/N]")
	s.World.Mini.Set("stock", "another")
	in <- "y\n"
	s.Want(<-st.Done, 1, "", "it holds another")
}

func TestInterruptEndsTheQuestion(t *testing.T) {
	s := furnished(t)
	s.Interactive = true
	in := make(chan string)
	st := s.StartReading(reader(in), "unlock", "stock")
	st.Errors.Await("[y/N]")
	s.Signal(os.Interrupt)
	s.Want(<-st.Done, 130, "", "nothing was deleted: interrupted by ^C")
	in <- "\n" // ends the reader that was left waiting
}

// reader reads what is sent to it.
type reader chan string

func (r reader) Read(p []byte) (int, error) { return copy(p, <-r), nil }

// The keys M exist, and their keys L are gone, in database 3.
func TestLsFindsKeyMOfEachSpelling(t *testing.T) {
	s := clitest.NewStage(t)
	s.Vars["GETSETLOCK_REDIS"] += "/3"
	wrapped := []string{"lost", "\xac\xed\x00\x05t\x00\x04lost", `"lost"`}
	for _, l := range wrapped {
		s.World.Mini.DB(3).Set(legacy.MarkKey(l), clitest.Token+" 1")
		s.World.Mini.DB(3).SetTTL(legacy.MarkKey(l), time.Minute)
		s.World.Mini.Set(legacy.MarkKey(l+"2"), clitest.Token+" 1")
	}
	for _, pattern := range []string{"lost", "lo*", "los?", "*t"} {
		locks := clitest.AnswerOf(t, s.Run("ls", pattern, "--json")).All("locks")
		if len(locks) != len(wrapped) {
			t.Errorf("%s: %v", pattern, locks)
		}
	}
}

// A getsetlock client's stamp lies a day beyond its lock's end.
func TestLsShowsALocksEndAndNotItsStamp(t *testing.T) {
	s := clitest.NewStage(t)
	m := s.World.Mini
	ahead := clitest.StampOf(redistest.Start.Add(24*time.Hour + 30*time.Second))
	m.Set("ours", ahead)
	m.SetTTL("ours", 35*time.Second)
	m.Set(legacy.MarkKey("ours"), clitest.Token+" "+ahead)
	m.SetTTL(legacy.MarkKey("ours"), 30*time.Second)
	m.Set("unmarked", ahead)
	m.SetTTL("unmarked", 20*time.Second)
	m.Set("old", clitest.StampOf(redistest.Start.Add(40*time.Second)))
	m.HSet("{ours}:gsl:look", "bytes", ahead)
	locks := clitest.AnswerOf(t, s.Run("ls", "*", "--json")).All("locks")
	want := map[any]any{"ours": 30000.0, "unmarked": 20000.0, "old": 40000.0}
	for _, l := range locks {
		if left, known := want[l.At("key")]; !known || l.At("left_ms") != left || l.At("state") != StateHeld {
			t.Error(l)
		}
	}
	if len(locks) != len(want) {
		t.Error(locks)
	}
	s.Interactive, s.Stdin = true, "n\n"
	s.Want(s.Run("unlock", "ours"), 1, "",
		"until "+redistest.Start.Add(30*time.Second).UTC().Format("2006-01-02T15:04:05.000Z"))
}
