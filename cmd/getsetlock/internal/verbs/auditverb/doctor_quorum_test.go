package auditverb

import (
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

func TestDoctorSaysThatAllServersVote(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	on[0].Mini.Set("lock:1", "1")
	got := s.Run("doctor", "--quorum")
	if got.Code != 0 || got.Errors != "" || !strings.Contains(got.Out, "\nOK: all 3 servers vote.\n") ||
		!strings.Contains(got.Out, on[2].URL()+"  votes  7.0.15   -         run-3") {
		t.Errorf("exit %d\n%s%s", got.Code, got.Out, got.Errors)
	}
}

// Each server is at fault in a way of its own.
func TestDoctorSaysWhyServersDoNotVote(t *testing.T) {
	for _, c := range []struct {
		says              []string // fields of INFO of the second server
		code              int
		state, kind, what string
	}{
		{[]string{"connected_slaves", "1"}, 1, memberRefused, "member_refused", "it has replicas"},
		{[]string{"role", "slave"}, 1, memberRefused, "member_refused", "it is a replica"},
		{[]string{"second_repl_offset", "77"}, 1, memberRefused, "member_refused", "it was a replica"},
		{[]string{"maxmemory", "1000000", "maxmemory_policy", "allkeys-lru"}, 1, memberRefused,
			"member_refused", "it may evict keys"},
		{[]string{"run_id", ""}, 1, memberRefused, "member_refused", "a proxy"},
		{[]string{"uptime_in_seconds", "2"}, 0, memberWaits, "member_waits", "; it votes in "},
		{[]string{"redis_version", "6.2.0"}, 0, memberVotes, "versions", "2 different versions"},
	} {
		s, on := clitest.Quorum(t, 3)
		on[1].Says(c.says...)
		got := s.Run("doctor", "--quorum", "--json")
		doc := clitest.DocumentOf[DoctorDocument](t, got)
		if len(doc.Members) != 3 || doc.Members[1].State != c.state || doc.Members[2].State != memberVotes {
			t.Errorf("%s: %+v", c.says, doc.Members)
		}
		found := false
		for _, f := range doc.Findings {
			found = found || f.Kind == c.kind && strings.Contains(f.What, c.what) &&
				(c.kind == "versions" || strings.Contains(f.What, on[1].URL()))
		}
		if !found || got.Code != c.code || (c.state == memberWaits) != (doc.Members[1].VotesAt != nil) {
			t.Errorf("%s: exit %d: %+v", c.says, got.Code, doc.Findings)
		}
	}
}

// Another server in its place would want a password too.
func TestDoctorAdvisesAPasswordAndNoOtherServer(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	on[1].Mini.RequireAuth("pw")
	got := s.Run("doctor", "--quorum")
	if got.Code != 1 || !strings.Contains(got.Out, on[1].URL()+": could not ask the server who it is: ") ||
		!strings.Contains(got.Out, "mend that") || strings.Contains(got.Out, "name another server") {
		t.Errorf("exit %d\n%s", got.Code, got.Out)
	}
}

// Two addresses of one server have one vote, whichever of them was asked first.
func TestDoctorNamesAServerWithTwoAddresses(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	on[1].Says("run_id", "run-1")
	got := s.Run("doctor", "--quorum", "--json")
	doc := clitest.DocumentOf[DoctorDocument](t, got)
	states := doc.Members[0].State + " " + doc.Members[1].State
	if got.Code != 1 || states != "refused votes" && states != "votes refused" ||
		len(doc.Findings) == 0 || !strings.Contains(doc.Findings[0].What, on[0].URL()) ||
		!strings.Contains(doc.Findings[0].What, on[1].URL()) {
		t.Errorf("exit %d: %s: %+v", got.Code, states, doc.Findings)
	}
}

func TestDoctorSaysThatNoLockCanBeTaken(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	away := on[2].URL()
	on[2].Mini.Close()
	got := s.Run("doctor", "--quorum")
	if got.Code != 1 || !strings.Contains(got.Out, away+"  away") ||
		strings.Contains(got.Out, "no lock can be taken") {
		t.Errorf("exit %d\n%s", got.Code, got.Out)
	}
	on[1].Says("uptime_in_seconds", "2")
	got = s.Run("doctor", "--quorum", "--greatest", "5s")
	if got.Code != 1 ||
		!strings.Contains(got.Out, "1 of 3 servers vote, and a majority is 2: no lock can be taken now") ||
		!strings.Contains(got.Out, "votes in 5") && !strings.Contains(got.Out, "votes in 4") {
		t.Errorf("exit %d\n%s", got.Code, got.Out)
	}
}

// What else doctor finds of a server is about old clients and fail-over.
func TestDoctorTriesTheRightsOnEachServer(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	on[1].Mini.RequireUserAuth("app", "s3cret")
	s.Vars["GETSETLOCK_PASSWORD"] = ""
	got := s.Run("doctor", "--quorum", "--json")
	doc := clitest.DocumentOf[DoctorDocument](t, got)
	if got.Code != 1 || doc.Members[1].State == memberVotes {
		t.Errorf("exit %d: %+v", got.Code, doc)
	}
	for _, f := range []string{"--match", "--lease", "--watch"} {
		s.Want(s.Run("doctor", "--quorum", f, "1s"), 2, "", f+" is not for --quorum")
	}
	s.Want(s.Run("doctor", "--quorum", "--fix"), 2, "", "--fix is not for --quorum")
}
