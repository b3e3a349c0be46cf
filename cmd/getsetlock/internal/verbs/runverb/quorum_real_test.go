// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package runverb

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// The command holds a lock on three servers. One is killed, and the lock goes
// on with the votes of the others. It comes back empty, and does not vote.
func TestRunHoldsALockWhileAServerRestarts(t *testing.T) {
	on := clitest.RealVoters(t, 3)
	s := clitest.OnReal(t, on[0])
	servers := "--quorum"
	for _, one := range on {
		servers += " --redis " + one.URL()
	}
	run := func(flags, text string) []string {
		return clitest.TokenScript(servers+" --ttl 6s "+flags, "nightly", text)
	}
	file := filepath.Join(t.TempDir(), "go")
	nightly := s.Start(run("", untilTold(file, `echo "backup $GETSETLOCK_KEY"`))...)
	nightly.Out.Await("backup nightly")
	awaitRenewal(t, on...) // the late vote is confirmed by now
	on[0].Kill()
	awaitRenewal(t, on[1:]...)
	s.Want(s.Run(run("--wait 0", "echo no")...), out.CodeRunHeld, "", `host7 sh"`)
	on[0].Start()
	touch(t, file)
	// Whether it also warns depends on who was first, the server or the
	// command's end.
	if got := <-nightly.Done; got.Code != 0 || got.Out != "backup nightly\n" {
		t.Errorf("code %d, printed %q, said %q", got.Code, got.Out, got.Errors)
	}
	for _, one := range on {
		if one.Do("EXISTS", "nightly").(int64) != 0 {
			t.Errorf("%s has a vote", one.Addr())
		}
	}

	// Two servers vote no more: one is away, and one restarted.
	on[1].Kill()
	on[0].Restart()
	s.Want(s.Run(run("--wait 1s", "echo no")...), out.CodeRunServer, "",
		"it may have forgotten votes when it started")
}

// awaitRenewal waits until each server has prolonged its vote once more.
func awaitRenewal(t *testing.T, on ...*redistest.Server) {
	t.Helper()
	last, renewed := make([]int64, len(on)), make([]bool, len(on))
	clitest.Until(t, "every server renews", func() bool {
		for i, one := range on {
			now := one.Do("PTTL", "nightly").(int64) // negative before the vote came
			renewed[i] = renewed[i] || last[i] > 0 && now > last[i]
			last[i] = now
		}
		return !slices.Contains(renewed, false)
	})
}
