// SPDX-License-Identifier: Apache-2.0

//go:build unix

package runverb

import (
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// heldLine starts hold with an open input, and returns what it printed.
func heldLine(t *testing.T, s *clitest.Stage, flags string) (*clitest.Started, io.Closer, []string) {
	t.Helper()
	r, w := io.Pipe()
	st := s.StartReading(r, append(append([]string{"hold"}, strings.Fields(flags)...), "k")...)
	st.Out.Await("\n")
	return st, w, strings.Fields(st.Out.String())
}

func TestHoldHoldsUntilItsInputEnds(t *testing.T) {
	for _, flags := range []string{"", "--protocol legacy", "--protocol dual"} {
		s := clitest.NewStage(t)
		st, in, line := heldLine(t, s, flags)
		if len(line) != 3 || line[0] != "held" || len(line[1]) != 22 ||
			(line[2] == "-") != (flags == "--protocol legacy") {
			t.Errorf("%q: %q", flags, line)
		}
		if !s.World.Mini.Exists("k") {
			t.Errorf("%q: nothing is held", flags)
		}
		in.Close()
		s.Want(<-st.Done, 0, st.Out.String(), "")
		if s.World.Mini.Exists("k") || s.World.Mini.Exists(legacy.MarkKey("k")) {
			t.Errorf("%q: not given back", flags)
		}
	}
}

// A script that died wants the lock no more, on whatever server it is.
func TestHoldGivesUpWhenItsInputEnds(t *testing.T) {
	const says = `waiting for "k", the lock was not taken: standard input has ended`
	s := clitest.NewStage(t)
	s.Patience = -1
	s.World.Mini.Set("k", clitest.Token)
	for _, protocol := range []string{"modern", "legacy"} {
		r, w := io.Pipe()
		st := s.StartReading(r, "hold", "--wait", "forever", "--protocol", protocol, "k")
		st.Errors.Await("waiting: ")
		w.Close()
		s.Want(<-st.Done, 125, "", says)
	}
	if got := s.World.Mini.Keys(); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}

	s, m := onMemory(t)
	m.Take("k", "other")
	s.Want(s.Run("hold", "--target", "mem://here", "--wait", "forever", "k"), 125, "", says)
}

func TestSignalEndsHoldAndGivesTheLockBack(t *testing.T) {
	s := clitest.NewStage(t)
	st, in, _ := heldLine(t, s, "")
	defer in.Close()
	s.Signal(syscall.SIGTERM)
	s.Want(<-st.Done, 143, st.Out.String(), "")
	if s.World.Mini.Exists("k") {
		t.Error("not given back")
	}
}

func TestStolenLockEndsHoldWith123(t *testing.T) {
	s := clitest.NewStage(t)
	st, in, _ := heldLine(t, s, "")
	defer in.Close()
	s.World.Mini.Set("k", clitest.Token)
	s.Want(passUntil(s, st.Done), 123, st.Out.String(), "the lock is held no longer (hold ended)")
}

// passUntil moves time until the program has ended. Each timer that fires makes
// the program arm another, or end.
func passUntil(s *clitest.Stage, done <-chan clitest.Screen) clitest.Screen {
	clock := s.Clock.(*redistest.Clock)
	clock.AwaitTimers(2)
	for {
		asked := clock.AskedTimes(clock.Asked() + 1)
		s.World.Tick()
		select {
		case <-asked:
		case got := <-done:
			return got
		}
	}
}

func TestHoldOfAHeldLockPrintsNoLine(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.Set("k", clitest.Token)
	s.Want(s.Run("hold", "--wait", "0", "k"), 124, "", "not acquired at the first try")
	s.Want(s.Run("hold", "-q", "--wait", "0", "--busy-exit", "75", "k"), 75, "", "")
	s.Vars["GETSETLOCK_REDIS"] = "redis://127.0.0.1:1"
	s.Want(s.Run("hold", "--wait", "0", "k"), 122, "", "connection refused")
}

func TestHoldInsideARunJoinsItsLock(t *testing.T) {
	s := clitest.NewStage(t)
	st, in, line := heldLine(t, s, "")
	s.Vars["GETSETLOCK_KEY"], s.Vars["GETSETLOCK_TOKEN"], s.Vars["GETSETLOCK_FENCE"] = "k", line[1], line[2]
	s.Want(s.Run("hold", "k"), 0, strings.Join(line, " ")+"\n", "")
	s.Want(s.Run("wait", "k"), 125, "", "wait would wait for itself")
	if !s.World.Mini.Exists("k") {
		t.Error("the inner hold gave the outer lock back")
	}
	in.Close()
	<-st.Done
}

func TestWaitEndsWhenTheLockIsFree(t *testing.T) {
	for flags, value := range map[string]string{
		"":                  clitest.Token + " host1 backup.sh",
		"--protocol legacy": clitest.StampOf(redistest.Start.Add(time.Hour)),
		"--protocol dual":   clitest.StampOf(redistest.Start.Add(time.Hour)),
	} {
		s := clitest.NewStage(t)
		s.Want(s.Run(append(strings.Fields("wait "+flags), "k")...), 0, "", "")
		s.World.Mini.Set("k", value)
		s.World.Mini.SetTTL("k", time.Hour)
		s.Want(s.Run(append(strings.Fields("wait --wait 0 "+flags), "k")...), 124, "",
			"not free within 0s: key")
		s.Want(s.Run(append(strings.Fields("wait -q --busy-exit 1 --wait 0 "+flags), "k")...), 1, "", "")
		s.Clock = lock.Machine // it polls, and no test timer controls that
		s.Patience = -1
		st := s.Start(append(strings.Fields("wait "+flags), "k")...)
		st.Errors.Await("waiting: key \"k\" is held")
		s.World.Mini.Del("k")
		s.Want(<-st.Done, 0, "", "waiting")
		if len(s.World.Mini.Keys()) > 0 {
			t.Errorf("%q: took %v", flags, s.World.Mini.Keys())
		}
	}
}

// wait calls a lock free when run would take it over, and not before.
func TestWaitJudgesAPastStampAsATakeover(t *testing.T) {
	s := crashed(t)
	s.Want(s.Run("wait", "--dialect", "jedis", "--behind", "1s", "--wait", "0", "k"), 0, "", "")
	s.Want(s.Run("wait", "--lease", "1m", "--wait", "0", "k"), 124, "", "an old client's timestamp")
	st := s.Start("wait", "-q", "--lease", "1m", "k")
	clock := s.Clock.(*redistest.Clock)
	clock.AwaitTimers(1)
	s.World.Pass(50 * time.Second)
	clock.AwaitTimers(1)
	select {
	case got := <-st.Done:
		t.Fatalf("free too soon: %+v", got)
	default:
	}
	s.World.Pass(11 * time.Second)
	s.Want(<-st.Done, 0, "", "")
}

func TestWaitOnAMissingServerIsExitCode122(t *testing.T) {
	s := clitest.NewStage(t)
	s.Vars["GETSETLOCK_REDIS"] = "redis://127.0.0.1:1"
	s.Want(s.Run("wait", "--wait", "0", "k"), 122, "", "connection refused")
	s.World.Mini.RequireAuth("s3cret")
	s.Vars["GETSETLOCK_REDIS"] = s.World.URL()
	s.Want(s.Run("wait", "k"), 122, "", "NOAUTH")
}
