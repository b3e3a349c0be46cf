// SPDX-License-Identifier: Apache-2.0

//go:build unix

package runverb

import (
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// A code that getsetlock itself uses for something else stays as it was asked
// for, too.
func TestBusyExitReplaces124AndQuietSaysNothing(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.Set("k", clitest.StampOf(redistest.Start.Add(time.Minute)))
	for _, code := range []int{0, 1, 2, 3, 75, 122, 124, 125, 255} {
		flags := "--wait 0 --busy-exit " + strconv.Itoa(code)
		s.Want(s.Run(clitest.Script(flags, "k", "echo no")...), code, "",
			`getsetlock run: not acquired at the first try: key "k" is held`)
		s.Want(s.Run(clitest.Script("-q "+flags, "k", "echo no")...), code, "", "")
		s.Want(s.Run(clitest.TokenScript("-q "+flags, "k", "echo no")...), code, "", "")
	}
}

// Only a held lock is expected. Trouble is printed, and has its own code.
func TestBusyExitLeavesOtherEndsAlone(t *testing.T) {
	s := clitest.NewStage(t)
	s.Want(s.Run(clitest.Script("-q --busy-exit 0", "k", "exit 124")...), 124, "", "")
	s.Want(s.Run(clitest.Script("-q --busy-exit 0 --grace 1h", "k", ":")...), 125, "", "--grace")
	s.Vars["GETSETLOCK_REDIS"] = "redis://127.0.0.1:1"
	s.Want(s.Run(clitest.Script("-q --wait 0 --busy-exit 0", "k", ":")...), 122, "", "connection refused")
}
