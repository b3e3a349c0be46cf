// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
)

// shelf has two held locks, an expired one, and keys that no pattern may
// delete.
func shelf(t *testing.T) *clitest.Stage {
	s := clitest.NewStage(t)
	m := s.World.Mini
	m.Set("shop:1", clitest.StampOf(redistest.Start.Add(time.Minute)))
	m.Set("shop:2", clitest.Token+" host7 backup.sh")
	m.SetTTL("shop:2", time.Minute)
	m.Set("shop:3", clitest.StampOf(redistest.Start.Add(-time.Hour)))
	m.Set(legacy.MarkKey("shop:4"), clitest.Token+" 1") // its key L is gone
	m.SetTTL(legacy.MarkKey("shop:4"), time.Minute)
	m.Set("shop:text", "hello, world")
	m.Set("shop:long", strings.Repeat("x", 2000))
	m.HSet("shop:hash", "a", "b")
	m.Set("shop:sealed", "9223372036854775807")
	m.Set("other", clitest.StampOf(redistest.Start.Add(time.Minute)))
	return s
}

const shelfDeleted = "deleted shop:1\ndeleted shop:2\ndeleted shop:3\n" +
	"deleted {shop:4}:gsl, the token of a getsetlock client\n"

func remains(t *testing.T, s *clitest.Stage, keys ...string) {
	t.Helper()
	if got := strings.Join(s.World.Mini.Keys(), " "); got != strings.Join(keys, " ") {
		t.Errorf("the server has %s, want %q", got, keys)
	}
}

var notLocks = []string{"other", "shop:hash", "shop:long", "shop:sealed", "shop:text"}

// Everything is shown before the one question, and nothing else is deleted.
func TestUnlockByPatternShowsAllAndAsksOnce(t *testing.T) {
	s := shelf(t)
	s.Interactive, s.Stdin = true, "n\n"
	before := s.World.Mini.Keys()
	got := s.Run("unlock", "shop:*")
	s.Want(got, 1, "", "Delete 4 locks? [y/N] getsetlock unlock: nothing was deleted\n")
	for _, says := range []string{"\nshop:1 ", "\nshop:2 ", "host7 backup.sh", "\nshop:3 ", "\n{shop:4}:gsl ",
		"1 tombstone of a migration is left alone; getsetlock migrate sweep ends tombstones\n",
		"3 matching keys are no held locks and are left alone\n"} {
		if !strings.Contains(got.Errors, says) {
			t.Errorf("it does not say %q:\n%s", says, got.Errors)
		}
	}
	remains(t, s, before...)
	s.Stdin = "y\n"
	s.Want(s.Run("unlock", "shop:*"), 0, shelfDeleted, "Delete 4 locks?")
	remains(t, s, notLocks...)
	s.Want(s.Run("unlock", "shop:*"), 0, "no lock matches shop:*\n", "left alone")
	s.Want(s.Run("unlock", "nothing*"), 0, "no lock matches nothing*\n", "")
}

// Nobody can answer without a terminal, so a pattern needs --yes.
func TestUnlockByPatternNeedsYesWithoutATerminal(t *testing.T) {
	s := shelf(t)
	s.Want(s.Run("unlock", "shop:*"), 2, "", "give the value to delete by --value, as ls shows it, or --yes")
	got := s.Run("unlock", "shop:*", "--yes")
	s.Want(got, 0, shelfDeleted, "\nshop:1 ")
	if strings.Contains(got.Errors, "[y/N]") {
		t.Error("it asked")
	}
	remains(t, s, notLocks...)
	s.Want(s.Run("unlock", "other", "-y"), 0, "deleted other\n", "other is held, in dialect Jedis")
}

// What was shown decides. A lock that another client has taken since then is
// kept, and the exit code says so.
func TestUnlockByPatternKeepsWhatChanged(t *testing.T) {
	s := shelf(t)
	s.Interactive = true
	in := make(chan string)
	st := s.StartReading(reader(in), "unlock", "shop:*")
	st.Errors.Await("[y/N]")
	s.World.Mini.Set("shop:1", clitest.StampOf(redistest.Start.Add(2*time.Minute)))
	s.World.Mini.Set("shop:2", clitest.Token+" host8 backup.sh")
	s.World.Mini.SetTTL("shop:2", time.Minute)
	s.World.Mini.Del("shop:3")
	in <- "y\n"
	got := <-st.Done
	s.Want(got, 1, "deleted {shop:4}:gsl, the token of a getsetlock client\n",
		"getsetlock unlock: 3 locks were not deleted: what they hold is not what was shown\n")
	if strings.Count(got.Errors, "is kept, because it changed: it ") != 3 {
		t.Error(got.Errors)
	}
	remains(t, s, "other", "shop:1", "shop:2", "shop:hash", "shop:long", "shop:sealed", "shop:text")
}

// A key whose name has the characters of a pattern is reached by a backslash,
// by \xNN, and as it stands with --value.
func TestUnlockReachesKeysWithPatternCharacters(t *testing.T) {
	s := clitest.NewStage(t)
	stamp := clitest.StampOf(redistest.Start.Add(time.Minute))
	for _, args := range [][]string{
		{`a\*b?`, "-y"}, // the ? makes it a pattern, of which the star is a literal part
		{`a\x2ab\?`, "-y"}, {`a\*b\x3f`, "-y"}, {`a*b?`, "--value", stamp}, {`a\x2ab\x3f`, "--value", stamp},
		{`[a]\x2ab\?`, "-y"},
	} {
		s.World.Mini.Set("a*b?", stamp)
		s.World.Mini.Set("axb?", stamp)
		got := s.Run(append([]string{"unlock"}, args...)...)
		if got.Code != 0 || got.Out != "deleted a*b?\n" {
			t.Errorf("%q: %+v", args, got)
		}
		remains(t, s, "axb?")
	}
	s.World.Mini.Set(`a\b`, stamp)
	s.Want(s.Run("unlock", `a\\b`, "-y"), 0, "deleted a\\\\b\n", "is held")
	s.World.Mini.Set(`a\b`, stamp)
	s.Want(s.Run("unlock", `a\\?`, "-y"), 0, "deleted a\\\\b\n", "KEY")
	for pattern, keys := range map[string]int{
		`a\x2ab?`: 0, `ax\x62?`: 1, `a[x-z]b?`: 1, `a[\x5d\-x]b?`: 1, `a[^x]b?`: 0} {
		if locks := clitest.AnswerOf(t, s.Run("ls", pattern, "--json")).All("locks"); len(locks) != keys {
			t.Errorf("ls %s: %v", pattern, locks)
		}
	}
}
