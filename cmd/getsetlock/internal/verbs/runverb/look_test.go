// SPDX-License-Identifier: Apache-2.0

//go:build unix

package runverb

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/migrate"
)

// crashed is a stage on which an old client left a stamp that passed a minute
// ago by the server's clock. In a fleet behind the server, that client may be
// alive.
func crashed(t *testing.T) *clitest.Stage {
	t.Helper()
	s := clitest.NewStage(t)
	s.World.Run("first")
	s.Clock.(*redistest.Clock).On("machine")
	stamp := s.World.ServerNow().Add(-time.Minute).UnixMilli()
	s.World.Mini.Set("k", strconv.FormatInt(stamp, 10))
	return s
}

func TestPastStampIsWaitedForWithoutWait(t *testing.T) {
	for _, protocol := range []string{"legacy", "dual"} {
		s := crashed(t)
		st := s.Start(clitest.TokenScript("--lease 1m --protocol "+protocol, "k", "echo ran")...)
		s.Want(play(s, st), 0, "ran\n", "--behind 1s")
		if waited := s.World.Now().Sub(redistest.Start); waited <= time.Minute || waited > 2*time.Minute {
			t.Errorf("%s: taken after %v", protocol, waited)
		}
	}
}

// A cron job that does not wait runs each minute.
func TestThirdTickTakesAPastStamp(t *testing.T) {
	for _, protocol := range []string{"legacy", "dual"} {
		s := crashed(t)
		for tick := 1; tick < 3; tick++ {
			s.Want(
				s.Run(clitest.TokenScript("--wait 0s --lease 1m --protocol "+protocol, "k", "echo ran")...),
				124, "",
				"if the value is unchanged in")
			s.World.Pass(time.Minute)
		}
		st := s.Start(clitest.TokenScript("--wait 0s --lease 1m --protocol "+protocol, "k", "echo ran")...)
		s.Want(play(s, st), 0, "ran\n", "")
	}
}

// play moves time from timer to timer until the command line has ended. While
// no timer is armed it waits for one. Once the command line has taken "k", time
// stands still, since its command runs in real time and must not outrun the
// renewals. Only a lock that was taken over waits for one more timer: it
// settles.
func play(s *clitest.Stage, st *clitest.Started) clitest.Screen {
	s.T.Helper()
	clock, before := s.Clock.(*redistest.Clock), onServer(s)
	settles := before[0] != ""
	late := time.NewTimer(redistest.Patience)
	defer late.Stop()
	for used := -1; ; {
		// Taken before the timers are counted, or one that is armed in between
		// would be missed.
		asked := clock.Asked()
		armed := clock.AskedTimes(asked + 1)
		now := onServer(s)
		taken := now != before && now != [2]string{}
		switch {
		case taken && !settles:
			armed = nil
		case clock.Timers() > 0 && (!taken || asked > used):
			used, settles = asked, settles && !taken
			s.World.Tick()
			continue
		}
		select {
		case got := <-st.Done:
			return got
		case <-armed:
		case <-late.C:
			s.T.Fatalf("the command line neither ends nor arms a timer: %s", st.Errors)
		}
	}
}

// onServer returns what is stored on "k" and on its key M.
func onServer(s *clitest.Stage) (stored [2]string) {
	for i, key := range []string{"k", legacy.MarkKey("k")} {
		if s.World.Mini.Type(key) == "string" { // next to M lies a hash of looks
			stored[i], _ = s.World.Mini.Get(key)
		}
	}
	return stored
}

func TestBehindTakesAPastStampAtOnce(t *testing.T) {
	for _, flags := range []string{"--behind 1s", "--behind 0s", ""} {
		s := crashed(t)
		if flags == "" {
			s.Vars["GETSETLOCK_BEHIND"] = "1s"
		}
		st := s.Start(clitest.Script("--wait 0s --dialect jedis "+flags, "k", "echo ran")...)
		s.Want(play(s, st), 0, "ran\n", "")
	}
}

func TestBehindOfTheEnvironmentMustBeADuration(t *testing.T) {
	s := crashed(t)
	s.Vars["GETSETLOCK_BEHIND"] = "soon"
	s.Want(s.Run(clitest.Script("", "k", "echo ran")...), 125, "",
		"GETSETLOCK_BEHIND=soon: not a duration such as 1s")
}

func TestExplicitWaitEndsBesideAPastStamp(t *testing.T) {
	s := crashed(t)
	st := s.Start(clitest.Script("--wait 5s --greatest 1m", "k", "echo ran")...)
	s.Want(play(s, st), 124, "", "not acquired within 5s; the time that an old client wrote")
}

// The lease that a library ships with says nothing about the fleet's longest.
func TestUnstatedLeaseTakesNothingOver(t *testing.T) {
	const says = "nobody stated the lease of the old clients, so no wait proves that the holder has ended: set --lease or --greatest to what the old clients use, or --behind to"
	for _, verb := range []string{"run --protocol legacy", "run --dialect errorception",
		"run --protocol dual",
		"hold --protocol legacy", "wait --protocol legacy", "wait --protocol dual"} {
		s := crashed(t)
		args := append(strings.Fields(verb), "--wait", "5s", "k")
		if strings.HasPrefix(verb, "run") {
			args = append(args, "--", "echo", "ran")
		}
		in, end := io.Pipe()
		st := s.StartReading(in, args...)
		wake(s, 3*time.Second)
		st.Errors.Await(says)
		s.Want(play(s, st), 124, "", says)
		end.Close()
		if s.World.Mini.Exists(legacy.MarkKey("k")) {
			t.Errorf("%s: M exists", verb)
		}
	}
}

// Where the time in a value is the start of a lease, every lock that is held
// looks like one whose lease is over.
func TestBehindNeedsANamedDialect(t *testing.T) {
	for _, flags := range []string{"--behind 1s", "--behind 0s --lease 1m", "--protocol dual --behind 1s"} {
		flags += " --wait 0s"
		s := crashed(t)
		s.Want(play(s, s.Start(clitest.TokenScript(flags, "k", "echo ran")...)), 125, "",
			"--behind needs --dialect")
		s.Want(play(s, s.Start(append(append([]string{"wait"}, strings.Fields(flags)...), "k")...)), 125, "",
			"--behind needs --dialect")
	}
	s := crashed(t)
	s.Vars["GETSETLOCK_BEHIND"] = "1s"
	s.Want(play(s, s.Start(clitest.Script("--wait 0s", "k", "echo ran")...)), 124, "",
		"nobody stated the lease")
	// The record has the dialect that init writes by default.
	const auto = "--protocol auto --namespace stock --lease 1m --wait 0s "
	recorded(s, migrate.Dual)
	s.World.Mini.Set("stock:1", clitest.StampOf(s.World.ServerNow().Add(-time.Minute)))
	s.Want(play(s, s.Start(clitest.TokenScript(auto, "stock:1", "echo ran")...)), 124, "",
		"with the --dialect of the record")
	s.Want(s.Run(clitest.TokenScript(auto+"--behind 1s", "stock:1", "echo ran")...), 125, "",
		"--behind needs --dialect")
}

// Two minutes behind the server, the fleet's fresh values have passed. The
// first value may have been written long ago; the second one was written during
// the wait.
func TestValueWrittenDuringTheWaitRefutesBehind(t *testing.T) {
	const says = "--behind 1m0s does not count"
	for _, verb := range []string{"run", "hold", "wait", "run --protocol dual"} {
		s := crashed(t)
		write := func() {
			s.World.Mini.Set("k", clitest.StampOf(s.World.ServerNow().Add(time.Minute-2*time.Minute)))
		}
		write()
		args := append(strings.Fields(verb),
			"--dialect", "jedis", "--behind", "1m", "--lease", "1m", "--wait", "5s", "k")
		if strings.HasPrefix(verb, "run") {
			args = append(args, "--", "echo", "ran")
		}
		in, end := io.Pipe()
		st := s.StartReading(in, args...)
		s.Clock.(*redistest.Clock).AwaitTimers(1)
		s.World.Pass(time.Millisecond)
		write()
		s.Want(play(s, st), 124, "", says)
		end.Close()
	}
}
