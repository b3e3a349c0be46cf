package cli

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// dead puts a lock of a crashed holder onto the stage's server, and one with a stamp far ahead.
func (s *stage) dead() (past string) {
	now := s.world.ServerNow()
	past = fmt.Sprint(now.Add(-time.Hour).UnixMilli())
	s.world.Mini.Set("lock:dead", past)
	s.world.Mini.Set("lock:far", fmt.Sprint(now.Add(100*time.Hour).UnixMilli()))
	s.world.Mini.Set("lock:live", fmt.Sprint(now.Add(30*time.Second).UnixMilli()))
	return past
}

func TestTheDoctorSaysWhatIsDeadAndChangesNothing(t *testing.T) {
	s := newStage(t)
	past := s.dead()
	got := s.run("doctor", "--match", "lock:*", "--dialect", "jedis")
	for _, says := range []string{"lock:dead: ended 1h0m0s ago by the server's clock and still stands: its holder crashed, or its clock", "lock:far: ends only in 4 days", "3 keys looked at"} {
		if !strings.Contains(got.out, says) {
			t.Errorf("it does not say %q:\n%s", says, got.out)
		}
	}
	if got.code != 1 || strings.Contains(got.out, "lock:live") {
		t.Errorf("code %d\n%s%s", got.code, got.out, got.errors)
	}
	s.world.Mini.CheckGet(t, "lock:dead", past)
	if n := len(s.world.Mini.Keys()); n != 3 {
		t.Errorf("%d keys", n)
	}
}

func TestAFixIsShownAndAskedForBefore(t *testing.T) {
	for answer, gone := range map[string]bool{"n\n": false, "\n": false, "": false, "y\n": true} {
		s := newStage(t)
		s.dead()
		s.interactive, s.stdin = true, answer
		got := s.run("doctor", "--match", "lock:*", "--dialect", "jedis", "--lease", "1m", "--behind", "1s", "--ahead", "0s", "--fix")
		if !strings.Contains(got.errors, `delete "lock:dead" if it still holds`) || !strings.Contains(got.errors, `let "lock:far" end in 1m0s`) || !strings.Contains(got.errors, "Do it? [y/N]") {
			t.Errorf("%q: %s", answer, got.errors)
		}
		if got.code != 1 || s.world.Mini.Exists("lock:dead") == gone {
			t.Errorf("%q: code %d, stands %v", answer, got.code, !gone)
		}
		if !gone && !strings.Contains(got.errors, "nothing was changed") {
			t.Errorf("%q: %s", answer, got.errors)
		}
	}
}

func TestWithYesNobodyIsAskedAndTheDocumentTellsWhatWasDone(t *testing.T) {
	s := newStage(t)
	s.dead()
	doc := documentOf[doctorDocument](t, s.run("doctor", "--match", "lock:*", "--dialect", "jedis", "--lease", "1m", "--behind", "1s", "--ahead", "0s", "--fix", "--yes", "--json"))
	done := 0
	for _, f := range doc.Findings {
		if f.Fix != nil && f.Fix.Outcome != nil && *f.Fix.Outcome == "done" {
			done++
		}
	}
	if done != 2 || s.world.Mini.Exists("lock:dead") {
		t.Errorf("%+v", doc)
	}
	value, _ := s.world.Mini.Get("lock:far")
	if want := fmt.Sprint(s.world.ServerNow().Add(time.Minute + time.Millisecond).UnixMilli()); value != want {
		t.Errorf("%s, want %s", value, want)
	}
	if again := s.run("doctor", "--match", "lock:*", "--dialect", "jedis", "--lease", "1m"); strings.Contains(again.out, "lock:") {
		t.Errorf("%s", again.out)
	}
}

// Between the question and the answer the lock is taken over: it is left alone, and that is said.
func TestAValueThatChangedWhileTheQuestionStoodIsLeftAlone(t *testing.T) {
	s := newStage(t)
	s.dead()
	s.interactive = true
	in, out := io.Pipe()
	running := s.startReading(in, "doctor", "--match", "lock:dead*", "--dialect", "jedis", "--behind", "0s", "--fix")
	running.errors.await("Do it? [y/N]")
	taken := fmt.Sprint(s.world.ServerNow().Add(time.Minute).UnixMilli())
	s.world.Mini.Set("lock:dead", taken)
	fmt.Fprintln(out, "y")
	got := <-running.done
	if got.code != 1 || !strings.Contains(got.out, "lock:dead: left alone: it holds another value by now") {
		t.Errorf("code %d\n%s%s", got.code, got.out, got.errors)
	}
	s.world.Mini.CheckGet(t, "lock:dead", taken)
}

// Nothing is claimed: the first call remembers what it saw and says how long to
// wait, and a later one acts.
func TestDoctorFixesAtItsSecondLook(t *testing.T) {
	s := newStage(t)
	s.namesItsRun("first")
	s.world.Mini.Set("lock:dead", fmt.Sprint(s.world.ServerNow().Add(-time.Hour).UnixMilli()))
	fix := []string{"doctor", "--match", "lock:*", "--dialect", "jedis", "--lease", "1m", "--fix", "--yes"}
	first := documentOf[doctorDocument](t, s.run(append(fix, "--json")...))
	if n := len(first.Findings); n == 0 || !s.world.Mini.Exists("lock:dead") {
		t.Fatalf("%+v", first)
	}
	for _, f := range first.Findings {
		if f.Key != nil && (f.Kind != "past" || f.Fix != nil || f.Wait == nil || f.Wait.String() != "73335.778") {
			t.Errorf("%+v, wait %v", f, f.Wait)
		}
	}
	s.world.Pass(74 * time.Second)
	if got := s.run(fix...); !strings.Contains(got.out, "lock:dead: done") || s.world.Mini.Exists("lock:dead") {
		t.Errorf("%+v", got)
	}
	if keys := s.world.Mini.Keys(); len(keys) != 0 {
		t.Errorf("left %q", keys)
	}
}

// Looking costs nothing: without --fix not even a look is remembered.
func TestDoctorWritesNothingWithoutFix(t *testing.T) {
	s := newStage(t)
	s.namesItsRun("first")
	s.world.Mini.Set("lock:dead", fmt.Sprint(s.world.ServerNow().Add(-time.Hour).UnixMilli()))
	got := s.run("doctor", "--match", "lock:*", "--dialect", "jedis", "--lease", "1m")
	if !strings.Contains(got.out, "remembers this look") || len(s.world.Mini.Keys()) != 1 {
		t.Errorf("%+v\n%q", got, s.world.Mini.Keys())
	}
}

func TestDoctorTakesClaimsFromTheEnvironment(t *testing.T) {
	s := newStage(t)
	s.dead()
	ask := []string{"doctor", "--match", "lock:*", "--dialect", "jedis", "--lease", "1m", "--fix", "--yes"}
	s.vars[envBehind], s.vars[envAhead] = "2h", "400h"
	if got := s.run(ask...); strings.Contains(got.out, "done") {
		t.Errorf("within what clocks may be off: %+v", got)
	}
	// A flag outweighs the environment, and zero is a claim.
	if got := s.run(append(ask, "--behind", "0s")...); !strings.Contains(got.out, "lock:dead: done") || strings.Contains(got.out, "lock:far: done") {
		t.Errorf("%+v", got)
	}
	s.vars[envAhead] = "0s"
	if got := s.run(ask...); !strings.Contains(got.out, "lock:far: done") {
		t.Errorf("%+v", got)
	}
	s.vars[envAhead] = "soon"
	if got := s.run(ask...); got.code != codeUse || !strings.Contains(got.errors, envAhead+"=soon") {
		t.Errorf("%+v", got)
	}
}

func TestAuditAndDoctorRefuseLeasesThatDoNotFit(t *testing.T) {
	s := newStage(t)
	for _, verb := range []string{"audit", "doctor"} {
		for _, flags := range [][]string{{"--lease", "0s"}, {"--greatest", "0s"}, {"--lease", "2m", "--greatest", "1m"}, {"--greatest", "90000h"}} {
			if got := s.run(append([]string{verb}, flags...)...); got.code != codeUse {
				t.Errorf("%s %q: %+v", verb, flags, got)
			}
		}
	}
}

// namesItsRun lets the embedded server name a run id, as a real one does.
func (s *stage) namesItsRun(id string) {
	s.world.Mini.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if strings.EqualFold(command, "INFO") {
			c.WriteBulk("# Server\r\nrun_id:" + id + "\r\n")
		}
		return strings.EqualFold(command, "INFO")
	})
}
