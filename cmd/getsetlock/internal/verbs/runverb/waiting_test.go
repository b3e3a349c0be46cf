// SPDX-License-Identifier: Apache-2.0

//go:build unix

package runverb

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// wake lets that much time pass for a command line that waits and has planned
// its next message.
func wake(s *clitest.Stage, d time.Duration) {
	s.Aside.AwaitTimers(1)
	s.World.Pass(d)
}

// Each message names the client that holds the lock when it is printed.
func TestWaitingMessagesNameWhoHoldsNow(t *testing.T) {
	s := clitest.NewStage(t)
	hold := func(note string) {
		s.World.Mini.Set("k", clitest.Token+" "+note)
		s.World.Mini.SetTTL("k", time.Hour)
	}
	hold("host1 backup.sh")
	st := s.Start(clitest.TokenScript("--wait forever", "k", "echo ran")...)
	wake(s, 3*time.Second)
	st.Errors.Await(`waiting: key "k" is held by "host1 backup.sh"`)
	st.Errors.Await("waited 3s so far")
	hold("host2 report.sh")
	wake(s, time.Minute-time.Millisecond)
	if n := strings.Count(st.Errors.String(), "waiting:"); n != 1 {
		t.Errorf("%d messages in the first minute", n)
	}
	wake(s, time.Millisecond)
	st.Errors.Await(`waiting: key "k" is held by "host2 report.sh"`)
	st.Errors.Await("waited 1m3s so far")
	s.World.Mini.Del("k")
	got := play(s, st)
	if got.Code != 0 || got.Out != "ran\n" || strings.Count(got.Errors, "waiting:") != 2 {
		t.Errorf("%+v", got)
	}
}

// Cron mails what a job prints. A lock that is free soon is no news.
func TestShortWaitPrintsNothing(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.Set("k", clitest.Token)
	s.World.Mini.SetTTL("k", time.Minute)
	s.Clock = lock.Machine // it polls, and no test timer controls that
	st := s.Start(clitest.TokenScript("", "k", "echo ran")...)
	wake(s, 2*time.Second)
	s.World.Mini.Del("k")
	s.Want(<-st.Done, 0, "ran\n", "")
}

func TestQuietWaitPrintsNothing(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.Set("k", clitest.Token)
	s.World.Mini.SetTTL("k", time.Hour)
	st := s.Start(clitest.TokenScript("-q --wait forever", "k", "echo ran")...)
	s.Clock.(*redistest.Clock).AwaitTimers(1)
	s.World.Pass(2 * time.Minute)
	s.World.Mini.Del("k")
	s.Want(play(s, st), 0, "ran\n", "")
}

func TestWaitingMessagesReadEveryKindOfLock(t *testing.T) {
	stamp := clitest.StampOf(redistest.Start.Add(time.Hour))
	for _, c := range []struct{ flags, l, m, says string }{
		{"--protocol legacy", stamp, "", "an old client's timestamp, Jedis"},
		{"--dialect jedis-uuid", clitest.UUID + ":" + stamp, "", `is held by "` + clitest.UUID + `"`},
		{"--protocol dual", stamp, clitest.Token + " " + stamp,
			`is held by "` + clitest.Token + `" (a getsetlock client's token)`},
		{"--protocol legacy --mode verbatim", stamp, "", "waiting: key \"k\" is held"},
		{"", stamp, "", "an old client's lock"},
	} {
		s := clitest.NewStage(t)
		s.Patience = -1
		s.World.Mini.Set("k", c.l)
		if c.m != "" {
			s.World.Mini.Set(legacy.MarkKey("k"), c.m)
			s.World.Mini.SetTTL(legacy.MarkKey("k"), time.Hour)
		}
		st := s.Start(clitest.TokenScript(c.flags+" --wait 5s", "k", "echo no")...)
		st.Errors.Await("so far")
		if got := st.Errors.String(); !strings.Contains(got, c.says) {
			t.Errorf("%q: %s, want %q", c.flags, got, c.says)
		}
		if got := play(s, st); got.Code != 124 {
			t.Errorf("%q: %+v", c.flags, got)
		}
	}
}

func TestRunNamesTheKeyInSpringsSpelling(t *testing.T) {
	for _, flags := range []string{"", "--protocol legacy", "--protocol dual"} {
		s := clitest.NewStage(t)
		s.World.Mini.Set(clitest.Springs, "1")
		s.Want(s.Run(clitest.TokenScript(flags, "stock", "echo ran")...), 0, "ran\n",
			`warning: the key \xac\xed\x00\x05t\x00\x05stock exists too, which is "stock" as Spring's JDK serializer writes it: a different lock`)
		s.Want(s.Run(clitest.TokenScript("-q "+flags, "stock", "echo ran")...), 0, "ran\n", "")
		s.Want(s.Run(clitest.TokenScript(flags, "other", "echo ran")...), 0, "ran\n", "")
		s.World.Mini.Set(`"other"`, "1")
		s.Want(s.Run(clitest.TokenScript(flags, "other", "echo ran")...), 0, "ran\n",
			"Spring's JSON serializer")
	}
}

// A server that falls silent must not delay a job that holds the lock. So run
// asks for other spellings of its key before it takes the lock. On a quorum and
// on other stores it asks for none.
func TestRunAsksForSpellingsBeforeItHolds(t *testing.T) {
	for _, flags := range []string{"", "--protocol legacy", "--protocol dual", "--wait 0"} {
		s := clitest.NewStage(t)
		var asked, late atomic.Int32
		s.World.Mini.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
			// Inside a script the server's own lock is taken.
			if strings.HasPrefix(command, "EVAL") && slices.Contains(args, clitest.Springs) {
				asked.Add(1)
				if s.World.Mini.Exists("stock") {
					late.Add(1)
				}
			}
			return false
		})
		s.Want(s.Run(clitest.TokenScript(flags, "stock", "echo ran")...), 0, "ran\n", "")
		if asked.Load() == 0 || late.Load() > 0 {
			t.Errorf("%q: asked %d times, %d of them while the lock was held", flags, asked.Load(),
				late.Load())
		}
	}
}
