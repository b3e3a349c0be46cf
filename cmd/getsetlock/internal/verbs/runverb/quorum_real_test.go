//go:build real && unix

package runverb

import (
	"path/filepath"
	"strings"
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
	words := strings.Fields(servers)
	run := func(flags, text string) []string {
		return clitest.TokenScript(servers+" --ttl 6s "+flags, "nightly", text)
	}
	s.Want(s.Run(run("--keep 10m --greatest 10m", ":")...), 0, "", "")
	s.Want(s.Run(append([]string{"unlock", "--yes", "nightly"}, words...)...), 0,
		"deleted nightly on 3 of 3 servers\n", "host7 sh")

	file := filepath.Join(t.TempDir(), "go")
	nightly := s.Start(run("", untilTold(file, `echo "backup $GETSETLOCK_KEY"`))...)
	nightly.Out.Await("backup nightly")
	awaitRenewal(t, on...) // a vote that came late counts after a renewal
	on[0].Kill()
	awaitRenewal(t, on[1:]...)
	s.Want(s.Run(run("--wait 0", "echo no")...), out.CodeRunHeld, "", `host7 sh"`)
	ls := s.Run(append([]string{"ls"}, words...)...)
	if ls.Code != 0 || !strings.Contains(ls.Out, "nightly  held       2 ") ||
		!strings.Contains(ls.Errors, "warning: "+on[0].URL()) {
		t.Errorf("ls: %+v", ls)
	}
	on[0].Start()
	doctor := s.Run(append([]string{"doctor", "--greatest", "1h"}, words...)...)
	if !strings.Contains(doctor.Out, on[0].URL()+"  waits") || !strings.Contains(doctor.Out, "it votes in ") {
		t.Errorf("doctor: %+v", doctor)
	}
	touch(t, file)
	s.Want(<-nightly.Done, 0, "backup nightly\n", "")
	for _, one := range on {
		if one.Do("EXISTS", "nightly").(int64) != 0 {
			t.Errorf("%s has a vote", one.Addr())
		}
	}

	// Two servers vote no more: one is away, and one restarted. The second one
	// votes 8 s after that, and run says so.
	on[1].Kill()
	on[0].Restart()
	got := s.Run(run("--ttl 6s --greatest 6s --wait 1m", "echo ran")...)
	s.Want(got, 0, "ran\n",
		"waiting: fewer than a majority of 3 servers vote, since some restarted; a majority does from ")
	s.Want(got, 0, "ran\n", "warning: "+on[1].URL()+" is away: ")
	s.Want(s.Run(run("--greatest 1h --wait 1s", "echo no")...), out.CodeRunServer, "", "; enough vote from ")
}

// awaitRenewal waits until each server has prolonged its vote once more.
func awaitRenewal(t *testing.T, on ...*redistest.Server) {
	t.Helper()
	last := make([]int64, len(on))
	waiting := len(on)
	clitest.Until(t, "every server renews", func() bool {
		for i, one := range on {
			if last[i] < 0 {
				continue // it has
			}
			now := one.Do("PTTL", "nightly").(int64)
			if last[i] > 0 && now > last[i] {
				now, waiting = -1, waiting-1
			}
			last[i] = now
		}
		return waiting == 0
	})
}
