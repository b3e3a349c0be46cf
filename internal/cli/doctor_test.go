package cli

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
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
	for _, says := range []string{"lock:dead: ended 1h0m0s ago", "lock:far: ends only in 4 days", "3 keys looked at"} {
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
		got := s.run("doctor", "--match", "lock:*", "--dialect", "jedis", "--fix")
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
	doc := documentOf[doctorDocument](t, s.run("doctor", "--match", "lock:*", "--dialect", "jedis", "--fix", "--yes", "--json"))
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
	if again := s.run("doctor", "--match", "lock:*", "--dialect", "jedis"); strings.Contains(again.out, "lock:") {
		t.Errorf("%s", again.out)
	}
}

// Between the question and the answer the lock is taken over: it is left alone, and that is said.
func TestAValueThatChangedWhileTheQuestionStoodIsLeftAlone(t *testing.T) {
	s := newStage(t)
	s.dead()
	s.interactive = true
	in, out := io.Pipe()
	running := s.startReading(in, "doctor", "--match", "lock:dead*", "--dialect", "jedis", "--fix")
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
