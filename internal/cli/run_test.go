//go:build unix

package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/getsetlock/getsetlock/internal/child/childtest"
	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/legacy"
)

// script is a command line of run beside old clients whose command is a shell script.
func script(flags, key, text string) []string {
	return tokenScript("--protocol legacy "+flags, key, text)
}

// tokenScript is script under a token lock, unless the flags say otherwise.
func tokenScript(flags, key, text string) []string {
	return append(append([]string{"run"}, strings.Fields(flags)...), key, "--", "sh", "-c", text)
}

// passTo lets time go by from timer to timer, each awaited, until it is d after the beginning. Two are
// armed while a command runs: the lock's own and that of the watch over it.
func (s *stage) passTo(d time.Duration) {
	s.t.Helper()
	clock := s.clock.(*redistest.Clock)
	for s.world.Now().Before(redistest.Start.Add(d)) {
		clock.AwaitTimers(2)
		s.world.Tick()
	}
}

func TestTheCommandRunsUnderTheLockAndItsExitCodeIsOurs(t *testing.T) {
	s := newStage(t)
	got := s.run(script("", "stock", `echo "$GETSETLOCK_KEY $GETSETLOCK_TOKEN $GETSETLOCK_HELD"; echo problem >&2; exit 7`)...)
	fields := strings.Fields(got.out)
	if len(fields) != 3 || fields[0] != "stock" || len(fields[1]) != 22 {
		t.Fatalf("%+v", got)
	}
	var list []heldLock
	if err := json.Unmarshal([]byte(fields[2]), &list); err != nil || len(list) != 1 || list[0] != (heldLock{"stock", fields[1]}) {
		t.Errorf("%v %v", list, err)
	}
	s.want(got, 7, got.out, "problem")
	if keys := s.world.Mini.Keys(); len(keys) != 0 {
		t.Errorf("left behind: %v", keys)
	}
}

func TestTheOldClientsBytesStandOnTheKeyMeanwhile(t *testing.T) {
	for _, flags := range []string{"", "--mode verbatim -q"} {
		s := newStage(t)
		dir := t.TempDir()
		st := s.start(script(flags, "stock", "echo here; until [ -e "+dir+"/go ]; do sleep 0.01; done")...)
		st.out.await("here")
		value, err := s.world.Mini.Get("stock")
		if err != nil {
			t.Fatal(err)
		}
		ttl := 30*time.Second + 24*time.Hour
		if flags != "" {
			ttl = time.Minute
		}
		if want := stampOf(redistest.Start.Add(ttl + time.Millisecond)); value != want {
			t.Errorf("%q: %s, want %s", flags, value, want)
		}
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.want(<-st.done, 0, "here\n", "")
	}
}

func TestInputAndSignalsReachTheCommand(t *testing.T) {
	s := newStage(t)
	s.stdin = "from outside\n"
	st := s.start(script("", "k", `exec 2>/dev/null; cat; trap 'echo hup; exit 9' HUP; echo ready; while :; do sleep 0.01; done`)...)
	st.out.await("ready")
	s.signal(syscall.SIGHUP)
	s.want(<-st.done, 9, "from outside\nready\nhup\n", "")
}

func TestSignalTestsPassWhereSignalsAreIgnored(t *testing.T) {
	childtest.PassIgnored(t, "TestInputAndSignalsReachTheCommand", "TestASignalThatEndsTheCommandIs128AndItsNumber")
}

// A hang-up ends neither getsetlock nor the command that nohup was meant for.
func TestRunUnderNohupIgnoresHangUps(t *testing.T) {
	m, binary := miniredis.RunT(t), built(t)
	for _, c := range []struct {
		nohup []string
		code  int
		out   string
	}{
		{[]string{"nohup"}, 0, "on\n"},
		{nil, 129, ""},
	} {
		args := append(c.nohup, binary, "run", "--redis", "redis://"+m.Addr(), "k", "--",
			"sh", "-c", "kill -HUP $PPID; kill -HUP $$; echo on")
		cmd := exec.Command(args[0], args[1:]...)
		out, _ := cmd.Output()
		if got := cmd.ProcessState.ExitCode(); got != c.code || string(out) != c.out {
			t.Errorf("%v: exit %d, %q; want %d, %q", c.nohup, got, out, c.code, c.out)
		}
	}
}

func TestASignalThatEndsTheCommandIs128AndItsNumber(t *testing.T) {
	s := newStage(t)
	s.want(s.run(script("", "k", "kill -QUIT $$")...), 131, "", "")
}

func TestWhatCannotBeRunIs126Or127AndTakesNoLock(t *testing.T) {
	s := newStage(t)
	s.vars["GETSETLOCK_REDIS"] = "redis://127.0.0.1:1"
	s.want(s.run("run", "k", "--", "no-such-command-here"), 127, "", "no-such-command-here: command not found")
	s.want(s.run("run", "k", "--", t.TempDir()), 126, "", "cannot be run")
	s = newStage(t)
	odd := filepath.Join(t.TempDir(), "odd")
	if err := os.WriteFile(odd, []byte("no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.want(s.run("run", "--dialect", "jedis", "--keep", "10s", "k", "--", odd), 126, "", "format")
	if keys := s.world.Mini.Keys(); len(keys) != 0 {
		t.Errorf("a command that never started keeps the key taken: %v", keys)
	}
}

func TestAKeyThatIsHeldIs124AndAServerThatIsAwayIs125(t *testing.T) {
	s := newStage(t)
	live := stampOf(redistest.Start.Add(time.Minute))
	s.world.Mini.Set("k", live)
	got := s.run(script("--wait 0", "k", "echo no")...)
	s.want(got, 124, "", `getsetlock run: not acquired at the first try: key "k" is held`)
	if v, _ := s.world.Mini.Get("k"); v != live {
		t.Errorf("the holder's value became %q", v)
	}
	s.vars["GETSETLOCK_REDIS"] = "redis://:s3cret%40x@127.0.0.1:1"
	s.want(s.run(script("--wait 0", "k", "echo no")...), 125, "", "connection refused; nothing listens there")
	s.want(s.run(tokenScript("--wait 0", "k", "echo no")...), 125, "", `acquiring "k" on redis://:***@127.0.0.1:1: could not take it: not sent: dialing Redis: `)
	s.world.Mini.RequireAuth("s3cret@y")
	s.vars["GETSETLOCK_REDIS"] = "redis://:s3cret%40x@" + s.world.Addr()
	s.want(s.run(script("--wait 0", "k", "echo no")...), 125, "", "WRONGPASS")
}

func TestAnInterruptedWaitStartsNothing(t *testing.T) {
	s := newStage(t)
	s.world.Mini.Set("k", stampOf(redistest.Start.Add(time.Minute)))
	st := s.start(script("--wait forever", "k", "echo no")...)
	st.errors.await("waiting")
	s.signal(syscall.SIGTERM)
	s.want(<-st.done, 143, "", "the command was not started: interrupted by terminated")
}

func TestQuietSaysNothingButErrors(t *testing.T) {
	s := newStage(t)
	s.world.Mini.Set("k", stampOf(redistest.Start.Add(time.Minute)))
	got := s.run(script("--wait 0 -q", "k", "echo no")...)
	if got.code != 124 || strings.Count(got.errors, "\n") != 1 {
		t.Errorf("%+v", got)
	}
	s.want(s.run(script("--mode verbatim", "j", ":")...), 0, "", "the lock is not renewed and ends after its lease (1m0s)")
	s.want(s.run(script("--mode verbatim --quiet", "j", ":")...), 0, "", "")
}

const obeys = `exec 2>/dev/null; trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.01; done`

// The embedded server cannot tell that a key was touched, so the renewal finds it, which is due within
// 10 s. The long grace keeps SIGKILL away from a command that needs real time to obey SIGTERM.
func TestALockTakenByAnotherEndsTheCommandWith123(t *testing.T) {
	s := newStage(t)
	st := s.start(script("--grace 15s", "k", obeys)...)
	st.out.await("ready")
	s.world.Mini.Set("k", "12345")
	s.passTo(10 * time.Second)
	s.want(<-st.done, 123, "ready\ntold\n", `the command was ended (it exited with 0): lease on "k" lost`)
	if v, _ := s.world.Mini.Get("k"); v != "12345" {
		t.Errorf("another's value became %q", v)
	}
}

func TestAVerbatimLockEndsTheCommandWithItsLease(t *testing.T) {
	s := newStage(t)
	st := s.start(script("--mode verbatim --lease 8s", "k", obeys)...)
	st.out.await("ready")
	s.passTo(6 * time.Second)
	s.want(<-st.done, 123, "ready\ntold\n", "never renewed")
	if gone := s.world.Now().Sub(redistest.Start); gone != 6*time.Second {
		t.Errorf("told after %v, want the lease less a quarter of it", gone)
	}
}

func TestKeepLeavesTheRestOfItsTimeToTheKey(t *testing.T) {
	s := newStage(t)
	s.want(s.run(script("--keep 20s", "k", ":")...), 0, "", "")
	value, err := s.world.Mini.Get("k")
	if want := stampOf(redistest.Start.Add(24*time.Hour + 20*time.Second + time.Millisecond)); value != want || err != nil {
		t.Errorf("%q, want %s (%v)", value, want, err)
	}
	if ttl := s.world.Mini.TTL(legacy.MarkKey("k")); ttl != 20*time.Second {
		t.Errorf("our key beside it: %v", ttl)
	}
	s.want(s.run(script("--wait 0", "k", "echo again")...), 124, "", "held")
	s.world.Pass(30 * time.Second)
	s.want(s.run(script("--wait 0", "k", "echo again")...), 0, "again\n", "")

	s.want(s.run(script("--mode verbatim -q --keep 20s", "v", ":")...), 0, "", "")
	if value, _ := s.world.Mini.Get("v"); value != stampOf(s.world.Now().Add(time.Minute+time.Millisecond)) {
		t.Errorf("verbatim: %q", value)
	}
}

func TestKeepIsOverForACommandThatTookLonger(t *testing.T) {
	s := newStage(t)
	dir := t.TempDir()
	st := s.start(script("--keep 5s", "k", "echo here; until [ -e "+dir+"/go ]; do sleep 0.01; done")...)
	st.out.await("here")
	s.world.Pass(6 * time.Second)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.want(<-st.done, 0, "here\n", "")
	if keys := s.world.Mini.Keys(); len(keys) != 0 {
		t.Errorf("left behind: %v", keys)
	}
}

func TestARunInsideARunJoinsAfterComparingTheToken(t *testing.T) {
	for _, flags := range []string{"", "--mode verbatim -q"} {
		s := newStage(t)
		dir := t.TempDir()
		st := s.start(script(flags, "k", `echo "$GETSETLOCK_TOKEN"; until [ -e `+dir+`/go ]; do sleep 0.01; done`)...)
		st.out.await("\n")
		inner := &stage{t: t, world: s.world, clock: s.clock, vars: map[string]string{
			"GETSETLOCK_REDIS": s.world.URL(), "GETSETLOCK_KEY": "k", "GETSETLOCK_TOKEN": strings.TrimSpace(st.out.String()),
		}}
		args := script(flags+" --wait 0", "k", "echo inner")
		inner.run(args...)
		if len(inner.replaced) != 1 || strings.Join(inner.replaced[0], " ") != "sh -c echo inner" {
			t.Errorf("%q: became %q", flags, inner.replaced)
		}
		// A run of another key in between hides the variables, not the list.
		inner.vars["GETSETLOCK_HELD"] = `[["k","` + inner.vars["GETSETLOCK_TOKEN"] + `"]]`
		inner.vars["GETSETLOCK_KEY"], inner.vars["GETSETLOCK_TOKEN"] = "between", "x"
		inner.run(args...)
		if len(inner.replaced) != 2 {
			t.Errorf("%q: did not join through the list", flags)
		}
		if flags == "" { // verbatim sleeps after its last attempt too, for which time would have to pass
			inner.want(inner.run(append([]string{"run", "--no-join"}, args[1:]...)...), 124, "", "held")
		}
		if flags == "" {
			inner.vars["GETSETLOCK_HELD"], inner.vars["GETSETLOCK_KEY"], inner.vars["GETSETLOCK_TOKEN"] = "", "k", aToken
			inner.want(inner.run(args...), 124, "", "does not hold it for that token any more")
		}
		if flags != "" {
			inner.vars["GETSETLOCK_HELD"], inner.vars["GETSETLOCK_KEY"], inner.vars["GETSETLOCK_TOKEN"] = "", "k", "12345"
			clock := s.clock.(*redistest.Clock)
			asked := clock.Asked()
			refused := inner.start(args...)
			clock.AwaitAsked(asked + 1) // the old client sleeps after its last attempt too
			s.world.Tick()
			inner.want(<-refused.done, 124, "", "held")
		}
		inner.want(inner.run(script(flags+" --wait 0", "other", "echo other")...), 0, "other\n", "")

		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		<-st.done
		inner.vars["GETSETLOCK_HELD"], inner.vars["GETSETLOCK_KEY"], inner.vars["GETSETLOCK_TOKEN"] = "", "k", "old"
		got := inner.run(script("--wait 0", "k", "echo anew")...)
		inner.want(got, 0, "anew\n", "does not hold it for that token any more")
	}
}
