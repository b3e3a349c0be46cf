// SPDX-License-Identifier: Apache-2.0

//go:build unix

package runverb

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// The script waits for the line, so nothing would ever end the input.
func TestHoldEndsWhenItsLineIsNotPrinted(t *testing.T) {
	s := clitest.NewStage(t)
	s.Stdout = clitest.Full{}
	r, w := net.Pipe()
	defer w.Close()
	got := <-s.StartReading(r, "hold", "k").Done
	if got.Code != 125 || !strings.Contains(got.Errors, "no space left on device") {
		t.Errorf("%+v", got)
	}
	if s.World.Mini.Exists("k") {
		t.Error("not given back")
	}
}

// A message's look and the verb's own look may end together.
func TestLooksOfAWaitMayMeet(t *testing.T) {
	l := &looks{clock: lock.Machine}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for i := range 100 {
				l.sight("k", legacy.Observation{Observation: dialect.Observation{Value: strconv.Itoa(i)}},
					dialect.Terms{})
			}
		})
	}
	both.Wait()
}

// A script that died has closed its end of every pipe. SIGPIPE would end hold
// at its line, with the lock held for 30 s more.
func TestDeadScriptsLockIsGivenBack(t *testing.T) {
	m, binary := miniredis.RunT(t), clitest.Built(t)
	for verb, want := range map[string]int{"hold k": 125, "run k -- sh -c :": 0} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		read.Close()
		// The key in another spelling makes run print a warning.
		m.Set("\"k\"", "1")
		cmd := exec.Command(binary, append(strings.Fields(verb)[:1], append([]string{"--redis",
			"redis://" + m.Addr()}, strings.Fields(verb)[1:]...)...)...)
		cmd.Stdout, cmd.Stderr = write, write
		if err := cmd.Run(); cmd.ProcessState == nil {
			t.Fatal(err)
		}
		write.Close()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: exit %d (%v), want %d", verb, got, cmd.ProcessState, want)
		}
		if m.Exists("k") {
			t.Errorf("%s: not given back", verb)
		}
		m.FlushAll()
	}
}
