//go:build unix

package runverb

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
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
		st := s.Start(clitest.TokenScript("--protocol "+protocol, "k", "echo ran")...)
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
			s.Want(s.Run(clitest.TokenScript("--wait 0s --protocol "+protocol, "k", "echo ran")...), 124, "",
				"if the value is unchanged in")
			s.World.Pass(time.Minute)
		}
		st := s.Start(clitest.TokenScript("--wait 0s --protocol "+protocol, "k", "echo ran")...)
		s.Want(play(s, st), 0, "ran\n", "")
	}
}

// play moves time from timer to timer until the command line has ended.
func play(s *clitest.Stage, st *clitest.Started) clitest.Screen {
	s.T.Helper()
	clock := s.Clock.(*redistest.Clock)
	for {
		select {
		case got := <-st.Done:
			return got
		default:
		}
		if clock.Timers() > 0 {
			s.World.Tick()
		}
		runtime.Gosched()
	}
}

func TestBehindTakesAPastStampAtOnce(t *testing.T) {
	for _, flags := range []string{"--behind 1s", "--behind 0s", ""} {
		s := crashed(t)
		if flags == "" {
			s.Vars["GETSETLOCK_BEHIND"] = "1s"
		}
		st := s.Start(clitest.Script("--wait 0s "+flags, "k", "echo ran")...)
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
	st := s.Start(clitest.Script("--wait 5s", "k", "echo ran")...)
	s.Want(play(s, st), 124, "", "not acquired within 5s; the time that an old client wrote")
}
