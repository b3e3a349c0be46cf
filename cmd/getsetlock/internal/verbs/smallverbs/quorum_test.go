package smallverbs

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

const (
	other  = "56pp_t56wMdRpwZ1BglSEg"
	third  = "66pp_t56wMdRpwZ1BglSEg"
	noting = clitest.Token + " host7 backup"
)

func TestLsCountsTheVotesOfAQuorum(t *testing.T) {
	s, on := clitest.Quorum(t, 5)
	clitest.Vote(t, "nightly", noting, 10*time.Second, on[0])
	clitest.Vote(t, "nightly", noting, 9*time.Second, on[1])
	clitest.Vote(t, "nightly", noting, 8*time.Second, on[2], on[3])
	clitest.Vote(t, "nightly", other, 9*time.Second, on[4])
	clitest.Vote(t, "split", other, 5*time.Second, on[0], on[1])
	clitest.Vote(t, "split", third, 5*time.Second, on[2], on[3])
	got := s.Run("ls", "--quorum", "--json")
	doc := clitest.DocumentOf[Locks](t, got)
	type row struct {
		key, state, owner string
		votes, members    int64
		left              string
	}
	var rows []row
	for _, l := range doc.Locks {
		left := "-"
		if l.Left != nil {
			left = l.Left.String()
		}
		rows = append(rows, row{l.Key, l.State, *l.Owner, *l.Votes, int64(len(l.Members)), left})
	}
	want := []row{
		{"nightly", "held", clitest.Token, 4, 4, "8000"},
		{"nightly", "minority", other, 1, 1, "-"},
		{"split", "minority", other, 2, 2, "-"},
		{"split", "minority", third, 2, 2, "-"},
	}
	if len(rows) != len(want) || got.Code != 0 {
		t.Fatalf("exit %d: %+v\n%s", got.Code, rows, got.Errors)
	}
	for i := range want {
		if rows[i] != want[i] {
			t.Errorf("%+v, want %+v", rows[i], want[i])
		}
	}
	if m := doc.Locks[0].Members[1]; m.Redis != on[1].URL() || m.Left.String() != "9000" {
		t.Errorf("%+v", m)
	}
	table := s.Run("ls", "--quorum").Out
	if !strings.Contains(table, "VOTES") || !strings.Contains(table, "nightly  held          4  modern") {
		t.Error(table)
	}
}

// With one server away, two votes of three are a majority, and one may be.
func TestLsSaysWhatItCannotKnow(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	clitest.Vote(t, "two", noting, time.Minute, on[0], on[1])
	clitest.Vote(t, "one", noting, time.Minute, on[1])
	away := on[2].URL()
	on[2].Mini.Close()
	got := s.Run("ls", "--quorum")
	if got.Code != 0 || !strings.Contains(got.Errors, "warning: "+away+": ") ||
		!strings.Contains(got.Out, "one  unknown") || !strings.Contains(got.Out, "two  held") {
		t.Errorf("exit %d\n%s%s", got.Code, got.Out, got.Errors)
	}
	second := on[0].URL()
	on[0].Mini.Close()
	got = s.Run("ls", "--quorum")
	s.Want(got, 3, "", "1 of 3 servers answered, and a majority is 2: "+second+": ")
	if !strings.Contains(got.Errors, "; "+away+": ") {
		t.Error(got.Errors)
	}
}

func TestUnlockDeletesOnAllServersOfAQuorum(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	clitest.Vote(t, "nightly", noting, time.Minute, on[0], on[1])
	clitest.Vote(t, "nightly", other, time.Minute, on[2])
	s.Want(s.Run("unlock", "--quorum", "nightly", "--value", "elsewhere"), 1, "",
		`nothing was deleted: "nightly" has that value on no server`)
	s.Want(s.Run("unlock", "--quorum", "nightly", "--value", clitest.Token), 0,
		"deleted nightly on 2 of 3 servers\n", "")
	if on[0].Mini.Exists("nightly") || on[1].Mini.Exists("nightly") || !on[2].Mini.Exists("nightly") {
		t.Error("a value stayed, or another was deleted")
	}
	clitest.Vote(t, "nightly", noting, time.Minute, on[0], on[1])
	got := s.Run("unlock", "--quorum", "--yes", "nightly")
	if got.Code != 0 || got.Out != "deleted nightly on 2 of 3 servers\ndeleted nightly on 1 of 3 servers\n" ||
		!strings.Contains(got.Errors, "host7 backup") ||
		!strings.Contains(got.Errors, "until it learns of the loss, by a message from the servers or at its next renewal") {
		t.Errorf("exit %d\n%s%s", got.Code, got.Out, got.Errors)
	}
	s.Want(s.Run("unlock", "--quorum", "--yes", "nightly"), 0, "nightly is free\n", "")
	s.Want(s.Run("unlock", "--quorum", "--yes", "n*"), 0, "no lock matches n*\n", "")
}

// A majority without the value is enough to free the lock.
func TestUnlockNeedsAMajorityOfServers(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	clitest.Vote(t, "nightly", noting, time.Minute, on[0], on[1], on[2])
	away := on[2].URL()
	on[2].Mini.Close()
	s.Want(s.Run("unlock", "--quorum", "nightly", "--value", noting), 0,
		"deleted nightly on 2 of 3 servers\n", away+": ")
	clitest.Vote(t, "nightly", noting, time.Minute, on[0])
	on[1].Mini.Close()
	s.Want(s.Run("unlock", "--quorum", "nightly", "--value", noting), 3, "", "deleted on 1 of 3 servers")
	s.Want(s.Run("unlock", "--quorum", "--yes", "nightly"), 3, "", "1 of 3 servers answered")
}

func TestServersThatMakeNoQuorumAreRefused(t *testing.T) {
	s := clitest.NewStage(t)
	a, b, c, d := "redis://a:s3cret@a", "redis://b", "redis://c", "redis://d"
	for _, x := range []struct {
		args []string
		says string
	}{
		{[]string{"ls", "--redis", a, "--redis", b, "--redis", c},
			"--redis names 3 servers, and without --quorum"},
		{[]string{"ls", "--redis", a + " " + b}, "--redis names 2 servers"},
		{[]string{"ls", "--quorum", "--redis", a}, "and one is named"},
		{[]string{"unlock", "--yes", "k", "--quorum", "--redis", a, "--redis", b}, "a majority of 2 is both"},
		{[]string{"ls", "--quorum", "--redis", a, "--redis", b, "--redis", c, "--redis", d},
			"a majority of 4 is 3"},
		{[]string{"ls", "--quorum", "--redis", a, "--redis", b, "--redis", "redis://b:6379/3"},
			"redis://b:6379 and redis://b:6379/3 are the same server"},
		{[]string{"ls", "--quorum", "--redis", b, "--redis", c, "--redis", "redis+sentinel://x/m"},
			"is no member of a quorum: sentinels may lead to another server"},
		{[]string{"ls", "--quorum", "--redis", b, "--redis", c, "--redis", d, "--lease", "1s"},
			"--lease is not for --quorum"},
		{[]string{"audit", "--redis", b, "--redis", c}, "--redis names 2 servers"},
		{[]string{"migrate", "status", "--redis", b, "--redis", c}, "--redis names 2 servers"},
		{[]string{"rehearse", "--redis", b, "--redis", c}, "--redis names 2 servers"},
	} {
		got := s.Run(x.args...)
		s.Want(got, 2, "", x.says)
	}
	s.Vars["GETSETLOCK_REDIS"] = b + " " + c + " " + d
	s.Want(s.Run("ls"), 2, "", "$GETSETLOCK_REDIS names 3 servers, and without --quorum")
}
