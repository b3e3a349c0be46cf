// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

func TestRunTakesALockOnTheServersOfAQuorum(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	got := s.Run(clitest.TokenScript("--quorum", "nightly", `echo "$GETSETLOCK_KEY $GETSETLOCK_REDIS"; test "$GETSETLOCK_FENCE" -gt 0 && test -n "$GETSETLOCK_TOKEN"`)...)
	s.Want(got, 0, "nightly "+s.Vars["GETSETLOCK_REDIS"]+"\n", "")
	for _, w := range on {
		if w.Mini.Exists("nightly") {
			t.Error("a vote stayed")
		}
	}
	away := on[1].URL()
	on[1].Mini.Close() // a majority is left
	wantWarning(s, 7, "warning: "+away+" does not vote: ",
		clitest.TokenScript("--quorum", "nightly", "exit 7")...)
	on[2].Mini.Close()
	s.Want(s.Run(clitest.TokenScript("--quorum --wait 0", "nightly", "true")...), out.CodeRunServer, "",
		" of 3 members vote, and a lock needs 2") // the third may not have answered yet
}

// A busy machine may be too slow for one attempt (--wait 0), which ends soon.
func TestRunRefusesServersWithReplicasInAQuorum(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	on[0].Says("connected_slaves", "1")
	wantWarning(s, 0, "warning: "+on[0].URL()+" does not vote: the server can be no member of a quorum: it has replicas",
		clitest.TokenScript("--quorum --wait 1m", "nightly", "true")...)
	s.Want(s.Run(clitest.TokenScript("--quorum --wait 1m -q", "nightly", "true")...), 0, "", "")
	on[1].Says("connected_slaves", "1")
	s.Want(s.Run(clitest.TokenScript("--quorum --wait 1m", "nightly", "true")...), out.CodeRunServer, "",
		"it has replicas")
}

// wantWarning runs the command until it has printed a warning. A short command
// may have ended before the server that the warning names has answered.
func wantWarning(s *clitest.Stage, code int, warning string, args ...string) {
	got := s.Run(args...)
	for range 100 {
		if got.Code != code || got.Errors != "" {
			break
		}
		got = s.Run(args...)
	}
	s.Want(got, code, "", warning)
}

func TestRunNamesWhoHoldsAMajority(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	value := clitest.Token + " host3 backup"
	clitest.Vote(t, "nightly", value, time.Minute, on[0], on[2])
	s.Want(s.Run(clitest.TokenScript("--quorum --wait 0", "nightly", "true")...), out.CodeRunHeld, "",
		`is held by "`+value+`", its lease runs until `) // as on one server
	s.Want(s.Run(clitest.TokenScript("--quorum --wait 0 --busy-exit 9 -q", "nightly", "true")...), 9, "", "")
}

// Servers that restarted with their keys do not vote until the greatest TTL has
// passed, and run says until when it waits.
func TestRunWaitsForServersThatRestarted(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	on[0].Restarts()
	on[1].Restarts()
	s.Want(s.Run(clitest.TokenScript("--quorum --wait 0", "nightly", "true")...), out.CodeRunServer, "",
		"enough vote from 12:00:30Z on")
	run := s.Start(clitest.TokenScript("--quorum --wait 5m", "nightly", "echo ran")...)
	run.Errors.Await("waiting: fewer than a majority of 3 servers vote, since some restarted; a majority does from 12:00:")
	s.Signal(os.Interrupt)
	<-run.Done
}

func TestHoldAndWaitWorkOnAQuorum(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	got := s.Run("hold", "--quorum", "deploy")
	if got.Code != 0 || !strings.HasPrefix(got.Out, "held ") || strings.HasSuffix(got.Out, " -\n") {
		t.Errorf("%+v", got)
	}
	s.Want(s.Run("wait", "--quorum", "--wait", "0", "deploy"), 0, "", "")
	clitest.Vote(t, "deploy", clitest.Token+" host3 sh", time.Minute, on[0], on[1])
	s.Want(s.Run("wait", "--quorum", "--wait", "0", "deploy"), out.CodeRunHeld, "", `held by "host3 sh"`)
}

// A client with another greatest TTL or epoch than the servers' record is
// refused by the flag's name.
func TestRunOfAnotherQuorumIsRefused(t *testing.T) {
	s, _ := clitest.Quorum(t, 3)
	for flags, says := range map[string]string{
		"--greatest 90s": "the greatest TTL in ms is 30000 there, and 90000 here; use the same servers, names, greatest TTL and epoch",
	} {
		s.Want(s.Run(clitest.TokenScript("--quorum "+flags, "k", "true")...), out.CodeRunServer, "", says)
	}
}
