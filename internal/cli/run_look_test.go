//go:build unix

package cli

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
)

// crashed is a stage on which an old client left a stamp that passed a minute
// ago by the server's clock. It may be alive all the same, in a fleet that is
// behind the server.
func crashed(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.world.Run("first")
	s.clock.(*redistest.Clock).On("machine")
	stamp := s.world.ServerNow().Add(-time.Minute).UnixMilli()
	s.world.Mini.Set("k", strconv.FormatInt(stamp, 10))
	return s
}

func TestPastStampIsWaitedForWithoutWait(t *testing.T) {
	for _, protocol := range []string{"legacy", "dual"} {
		s := crashed(t)
		st := s.start(tokenScript("--protocol "+protocol, "k", "echo ran")...)
		s.want(s.play(st), 0, "ran\n", "--behind 1s")
		if waited := s.world.Now().Sub(redistest.Start); waited <= time.Minute || waited > 2*time.Minute {
			t.Errorf("%s: taken after %v", protocol, waited)
		}
	}
}

// A job of cron that does not wait, each minute.
func TestThirdTickTakesAPastStamp(t *testing.T) {
	for _, protocol := range []string{"legacy", "dual"} {
		s := crashed(t)
		for tick := 1; tick < 3; tick++ {
			s.want(s.run(tokenScript("--wait 0s --protocol "+protocol, "k", "echo ran")...), 124, "", "the same value has stood for")
			s.world.Pass(time.Minute)
		}
		st := s.start(tokenScript("--wait 0s --protocol "+protocol, "k", "echo ran")...)
		s.want(s.play(st), 0, "ran\n", "")
	}
}

// play moves time from timer to timer until the command line has ended.
func (s *stage) play(st *started) screen {
	s.t.Helper()
	clock := s.clock.(*redistest.Clock)
	for {
		select {
		case got := <-st.done:
			return got
		default:
		}
		if clock.Timers() > 0 {
			s.world.Tick()
		}
		runtime.Gosched()
	}
}

func TestClaimOfBehindTakesAPastStampAtOnce(t *testing.T) {
	for _, flags := range []string{"--behind 1s", "--behind 0s", ""} {
		s := crashed(t)
		if flags == "" {
			s.vars["GETSETLOCK_BEHIND"] = "1s"
		}
		st := s.start(script("--wait 0s "+flags, "k", "echo ran")...)
		s.want(s.play(st), 0, "ran\n", "")
	}
}

func TestBehindOfTheEnvironmentMustBeATime(t *testing.T) {
	s := crashed(t)
	s.vars["GETSETLOCK_BEHIND"] = "soon"
	s.want(s.run(script("", "k", "echo ran")...), 125, "", "GETSETLOCK_BEHIND=soon: not a duration such as 1s")
}

func TestExplicitWaitEndsBesideAPastStamp(t *testing.T) {
	s := crashed(t)
	st := s.start(script("--wait 5s", "k", "echo ran")...)
	s.want(s.play(st), 124, "", "not acquired within 5s; by the server's clock")
}
