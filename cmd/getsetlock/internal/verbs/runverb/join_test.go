// SPDX-License-Identifier: Apache-2.0

//go:build unix

package runverb

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

const outlived = "no longer holds that key for the token of the outer run"

// runAround sets the variables of a run around the next one. list are the locks
// of all runs around, if one of another key lies between.
func runAround(s *clitest.Stage, token, list string) {
	s.Vars[envKey], s.Vars[envToken], s.Vars[envFence], s.Vars[envHeld] = "k", token, "17", ""
	if list != "" {
		s.Vars[envKey], s.Vars[envToken], s.Vars[envFence], s.Vars[envHeld] = "between", "x", "", list
	}
}

// wantJoins runs a command under the lock of an outer run, which holds "k" by
// that token. The lock is found in the variables, and in the list.
func wantJoins(s *clitest.Stage, flags, token string) {
	s.T.Helper()
	for n, list := range []string{"", `[["k","` + token + `","17"],["between","x",""]]`} {
		runAround(s, token, list)
		s.Run(clitest.TokenScript(flags+" --wait 0", "k", "echo inner")...)
		if len(s.Replaced) != n+1 || strings.Join(s.Replaced[n], " ") != "sh -c echo inner" {
			s.T.Fatalf("%q: became %q", flags, s.Replaced)
		}
		for _, v := range []string{envKey + "=k", envToken + "=" + token, envFence + "=17"} {
			if !slices.Contains(s.Environ, v) {
				s.T.Errorf("%q: joined without %s: %q", flags, v, s.Environ)
			}
		}
	}
}

// The variables may be left from a run that has ended. So each opening asks its
// server whose token holds the key.
func TestRunInsideARunJoinsAfterComparingTheToken(t *testing.T) {
	for _, flags := range []string{"-q", "-q --protocol legacy", "-q --mode verbatim", "-q --protocol dual"} {
		s := clitest.NewStage(t)
		st, in, line := heldLine(t, s, flags)
		wantJoins(s, flags, line[1])
		s.Want(s.Run(clitest.TokenScript(flags+" --wait 0", "other", "echo other")...), 0, "other\n", "")
		// Verbatim sleeps after its last attempt too, and time would have to
		// pass.
		if flags != "-q --mode verbatim" {
			runAround(s, clitest.Token, "")
			s.Want(s.Run(clitest.TokenScript(flags[2:]+" --wait 0", "k", "echo no")...), 124, "", outlived)
			runAround(s, line[1], "")
			s.Want(s.Run(clitest.TokenScript(flags+" --wait 0 --no-join", "k", "echo no")...), 124, "",
				"held")
		}
		in.Close()
		<-st.Done
		runAround(s, line[1], "")
		s.Want(s.Run(clitest.TokenScript(flags[2:], "k", "echo anew")...), 0, "anew\n", outlived)
	}
}

func TestInnerRunJoinsTheLockOfAStore(t *testing.T) {
	s, m := onMemory(t)
	m.Take("k", "mine")
	wantJoins(s, "--target mem://here", "mine")
	runAround(s, "old", "")
	s.Vars["GETSETLOCK_TARGET"] = "mem://here"
	s.Want(s.Run("run", "--wait", "0", "k", "--", "true"), 124, "", outlived)
}

// A majority decides, so one server that lost the token does not matter.
func TestInnerRunJoinsTheLockOfAQuorum(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	clitest.Vote(t, "k", clitest.Token+" host7 sh", time.Minute, on[0], on[2])
	wantJoins(s, "--quorum", clitest.Token)
	on[2].Mini.Del("k")
	runAround(s, clitest.Token, "")
	s.Want(s.Run(clitest.TokenScript("--quorum", "k", "echo ran")...), 0, "ran\n", outlived)
}

func TestEmptyTokenJoinsNothing(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.Set("k", "")
	s.Vars[envKey], s.Vars[envHeld] = "k", `[["k",""]]`
	s.Want(s.Run(clitest.TokenScript("--wait 0", "k", "echo no")...), 124, "", "held")
}

func TestJoinThatStaysPassesSignalsAndCodesOn(t *testing.T) {
	s := clitest.NewStage(t)
	s.Stays = true
	s.World.Mini.Set("k", clitest.Token+" host8 job")
	runAround(s, clitest.Token, "")
	for _, code := range []int{0, 2, 3, 124, 125} {
		s.Want(s.Run(clitest.TokenScript("", "k", "exit "+strconv.Itoa(code))...), code, "", "")
	}
	st := s.Start(clitest.TokenScript("", "k", obeys)...)
	st.Out.Await("ready")
	s.Signal(syscall.SIGTERM)
	s.Want(<-st.Done, 0, "ready\ntold\n", "")
}
