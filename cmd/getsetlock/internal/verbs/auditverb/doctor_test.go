// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
)

// putDead stores a lock of a crashed holder on the stage's server, and a lock
// with a stamp far ahead.
func putDead(s *clitest.Stage) (past string) {
	now := s.World.ServerNow()
	past = fmt.Sprint(now.Add(-time.Hour).UnixMilli())
	s.World.Mini.Set("lock:dead", past)
	s.World.Mini.Set("lock:far", fmt.Sprint(now.Add(100*time.Hour).UnixMilli()))
	s.World.Mini.Set("lock:live", fmt.Sprint(now.Add(30*time.Second).UnixMilli()))
	return past
}

func TestDoctorNamesDeadLocksAndChangesNothing(t *testing.T) {
	s := clitest.NewStage(t)
	past := putDead(s)
	got := s.Run("doctor", "--match", "lock:*", "--dialect", "jedis")
	for _, says := range []string{
		"lock:dead: ended 1h0m0s ago by the server's clock and is still there: its holder crashed, or its", "lock:far: ends only in 4 days", "3 keys looked at"} {
		if !strings.Contains(got.Out, says) {
			t.Errorf("it does not say %q:\n%s", says, got.Out)
		}
	}
	if got.Code != 1 || strings.Contains(got.Out, "lock:live") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
	s.World.Mini.CheckGet(t, "lock:dead", past)
	if n := len(s.World.Mini.Keys()); n != 3 {
		t.Errorf("%d keys", n)
	}
}

func TestDoctorShowsAndAsksBeforeAFix(t *testing.T) {
	for answer, gone := range map[string]bool{"n\n": false, "\n": false, "": false, "y\n": true} {
		s := clitest.NewStage(t)
		putDead(s)
		s.Interactive, s.Stdin = true, answer
		got := s.Run("doctor", "--match", "lock:*", "--dialect", "jedis", "--lease", "1m", "--behind", "1s",
			"--ahead", "0s", "--fix")
		if !strings.Contains(got.Errors, `delete "lock:dead" if it still holds`) ||
			!strings.Contains(got.Errors, `let "lock:far" end in 1m0s`) ||
			!strings.Contains(got.Errors, "Do it? [y/N]") {
			t.Errorf("%q: %s", answer, got.Errors)
		}
		if got.Code != 1 || s.World.Mini.Exists("lock:dead") == gone {
			t.Errorf("%q: code %d, stands %v", answer, got.Code, !gone)
		}
		if !gone && !strings.Contains(got.Errors, "nothing was changed") {
			t.Errorf("%q: %s", answer, got.Errors)
		}
	}
}

func TestDoctorDoesNotAskWithYes(t *testing.T) {
	s := clitest.NewStage(t)
	putDead(s)
	got := s.Run("doctor", "--match", "lock:*", "--dialect", "jedis", "--lease", "1m", "--behind", "1s",
		"--ahead", "0s", "--fix", "--yes", "--json")
	golden.Check(t, "testdata/doctor.json", got.Out)
	doc := clitest.AnswerOf(t, got)
	done := 0
	for _, f := range doc.All("findings") {
		if f.At("fix") != nil && f.At("fix.outcome") == "done" {
			done++
		}
	}
	if done != 2 || doc.Number("fixed") != 2 || s.World.Mini.Exists("lock:dead") {
		t.Error(doc)
	}
	value, _ := s.World.Mini.Get("lock:far")
	if want := fmt.Sprint(s.World.ServerNow().Add(time.Minute + time.Millisecond).UnixMilli()); value !=
		want {
		t.Errorf("%s, want %s", value, want)
	}
	if again := s.Run("doctor", "--match", "lock:*", "--dialect", "jedis", "--lease",
		"1m"); strings.Contains(again.Out, "lock:") {
		t.Errorf("%s", again.Out)
	}
}

// Another client takes the lock over between the question and the answer. The
// doctor leaves the lock alone and says so.
func TestDoctorLeavesAValueThatChangedAlone(t *testing.T) {
	s := clitest.NewStage(t)
	putDead(s)
	s.Interactive = true
	in, out := io.Pipe()
	running := s.StartReading(in, "doctor", "--match", "lock:dead*", "--dialect", "jedis", "--behind", "0s",
		"--fix")
	running.Errors.Await("Do it? [y/N]")
	taken := fmt.Sprint(s.World.ServerNow().Add(time.Minute).UnixMilli())
	s.World.Mini.Set("lock:dead", taken)
	fmt.Fprintln(out, "y")
	got := <-running.Done
	if got.Code != 1 || !strings.Contains(got.Out, "lock:dead: left alone: the value has changed") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
	s.World.Mini.CheckGet(t, "lock:dead", taken)
}

// Without claims, the first call remembers what it saw and says how long to
// wait. A later call acts.
func TestDoctorFixesAtItsSecondLook(t *testing.T) {
	s := clitest.NewStage(t)
	namesItsRun(s, "first")
	s.World.Mini.Set("lock:dead", fmt.Sprint(s.World.ServerNow().Add(-time.Hour).UnixMilli()))
	fix := []string{"doctor", "--match", "lock:*", "--dialect", "jedis", "--lease", "1m", "--fix", "--yes"}
	first := clitest.AnswerOf(t, s.Run(append(fix, "--json")...)).All("findings")
	if len(first) == 0 || !s.World.Mini.Exists("lock:dead") {
		t.Fatal(first)
	}
	for _, f := range first {
		if f.At("key") != nil && (f.At("kind") != "past" || f.At("fix") != nil ||
			f.At("wait_ms") != 73335.778) {
			t.Error(f)
		}
	}
	s.World.Pass(74 * time.Second)
	if got := s.Run(fix...); !strings.Contains(got.Out, "lock:dead: done") ||
		s.World.Mini.Exists("lock:dead") {
		t.Errorf("%+v", got)
	}
	if keys := s.World.Mini.Keys(); len(keys) != 0 {
		t.Errorf("left %q", keys)
	}
}

// Without --fix the doctor writes nothing, not even a look.
func TestDoctorWritesNothingWithoutFix(t *testing.T) {
	s := clitest.NewStage(t)
	namesItsRun(s, "first")
	s.World.Mini.Set("lock:dead", fmt.Sprint(s.World.ServerNow().Add(-time.Hour).UnixMilli()))
	got := s.Run("doctor", "--match", "lock:*", "--dialect", "jedis", "--lease", "1m")
	if !strings.Contains(got.Out, "remembers this look") || len(s.World.Mini.Keys()) != 1 {
		t.Errorf("%+v\n%q", got, s.World.Mini.Keys())
	}
}

func TestDoctorTakesClaimsFromTheEnvironment(t *testing.T) {
	s := clitest.NewStage(t)
	putDead(s)
	ask := []string{"doctor", "--match", "lock:*", "--dialect", "jedis", "--lease", "1m", "--fix", "--yes"}
	s.Vars[out.EnvBehind], s.Vars[out.EnvAhead] = "2h", "400h"
	if got := s.Run(ask...); strings.Contains(got.Out, "done") {
		t.Errorf("within what clocks may be off: %+v", got)
	}
	// A flag outweighs the environment, and zero is a claim.
	if got := s.Run(append(ask, "--behind", "0s")...); !strings.Contains(got.Out, "lock:dead: done") ||
		strings.Contains(got.Out, "lock:far: done") {
		t.Errorf("%+v", got)
	}
	s.Vars[out.EnvAhead] = "0s"
	if got := s.Run(ask...); !strings.Contains(got.Out, "lock:far: done") {
		t.Errorf("%+v", got)
	}
	s.Vars[out.EnvAhead] = "soon"
	if got := s.Run(ask...); got.Code != out.CodeUse || !strings.Contains(got.Errors, out.EnvAhead+"=soon") {
		t.Errorf("%+v", got)
	}
}

// namesItsRun lets the embedded server report a run id, as a real one does.
func namesItsRun(s *clitest.Stage, id string) {
	s.World.Mini.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if strings.EqualFold(command, "INFO") {
			c.WriteBulk("# Server\r\nrun_id:" + id + "\r\n")
		}
		return strings.EqualFold(command, "INFO")
	})
}
