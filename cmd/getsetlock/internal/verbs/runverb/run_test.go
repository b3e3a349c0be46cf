// SPDX-License-Identifier: Apache-2.0

//go:build unix

package runverb

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

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child/childtest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
)

// passTo moves time from timer to timer, each awaited, until d after the
// beginning. Two timers are armed while a command runs: the lock's own, and
// that of the watch over the lock.
func passTo(s *clitest.Stage, d time.Duration) {
	s.T.Helper()
	clock := s.Clock.(*redistest.Clock)
	for s.World.Now().Before(redistest.Start.Add(d)) {
		clock.AwaitTimers(2)
		s.World.Tick()
	}
}

func TestRunPassesTheCommandsExitCodeOn(t *testing.T) {
	s := clitest.NewStage(t)
	got := s.Run(clitest.Script("", "stock",
		`echo "$GETSETLOCK_KEY $GETSETLOCK_TOKEN $GETSETLOCK_HELD"; echo problem >&2; exit 7`)...)
	fields := strings.Fields(got.Out)
	if len(fields) != 3 || fields[0] != "stock" || len(fields[1]) != 22 {
		t.Fatalf("%+v", got)
	}
	var list []heldLock
	if err := json.Unmarshal([]byte(fields[2]), &list); err != nil || len(list) != 1 ||
		list[0] != (heldLock{"stock", fields[1]}) {
		t.Errorf("%v %v", list, err)
	}
	s.Want(got, 7, got.Out, "problem")
	if keys := s.World.Mini.Keys(); len(keys) != 0 {
		t.Errorf("left behind: %v", keys)
	}
}

func TestKeyHoldsTheOldClientsBytesMeanwhile(t *testing.T) {
	for _, flags := range []string{"", "--mode verbatim -q"} {
		s := clitest.NewStage(t)
		dir := t.TempDir()
		st := s.Start(clitest.Script(flags, "stock",
			"echo here; until [ -e "+dir+"/go ]; do sleep 0.01; done")...)
		st.Out.Await("here")
		value, err := s.World.Mini.Get("stock")
		if err != nil {
			t.Fatal(err)
		}
		ttl := 30*time.Second + 24*time.Hour
		if flags != "" {
			ttl = time.Minute
		}
		if want := clitest.StampOf(redistest.Start.Add(ttl + time.Millisecond)); value != want {
			t.Errorf("%q: %s, want %s", flags, value, want)
		}
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.Want(<-st.Done, 0, "here\n", "")
	}
}

func TestInputAndSignalsReachTheCommand(t *testing.T) {
	s := clitest.NewStage(t)
	s.Stdin = "from outside\n"
	st := s.Start(clitest.Script("", "k",
		`exec 2>/dev/null; cat; trap 'echo hup; exit 9' HUP; echo ready; while :; do sleep 0.01; done`)...)
	st.Out.Await("ready")
	s.Signal(syscall.SIGHUP)
	s.Want(<-st.Done, 9, "from outside\nready\nhup\n", "")
}

func TestSignalTestsPassWhereSignalsAreIgnored(t *testing.T) {
	childtest.PassIgnored(t, "TestInputAndSignalsReachTheCommand", "TestSignalOfTheCommandIs128PlusItsNumber")
}

// A hang-up ends neither getsetlock nor the command, which nohup was meant for.
func TestRunUnderNohupIgnoresHangUps(t *testing.T) {
	m, binary := miniredis.RunT(t), clitest.Built(t)
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

func TestSignalOfTheCommandIs128PlusItsNumber(t *testing.T) {
	s := clitest.NewStage(t)
	s.Want(s.Run(clitest.Script("", "k", "kill -QUIT $$")...), 131, "", "")
}

func TestMissingCommandTakesNoLock(t *testing.T) {
	s := clitest.NewStage(t)
	s.Vars["GETSETLOCK_REDIS"] = "redis://127.0.0.1:1"
	s.Want(s.Run("run", "k", "--", "no-such-command-here"), 127, "",
		"no-such-command-here: command not found")
	s.Want(s.Run("run", "k", "--", t.TempDir()), 126, "", "cannot be run")
	s = clitest.NewStage(t)
	odd := filepath.Join(t.TempDir(), "odd")
	if err := os.WriteFile(odd, []byte("no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Want(s.Run("run", "--dialect", "jedis", "--keep", "10s", "k", "--", odd), 126, "", "format")
	if keys := s.World.Mini.Keys(); len(keys) != 0 {
		t.Errorf("a command that never started keeps the key taken: %v", keys)
	}
}

func TestHeldKeyIs124AndMissingServerIs122(t *testing.T) {
	s := clitest.NewStage(t)
	live := clitest.StampOf(redistest.Start.Add(time.Minute))
	s.World.Mini.Set("k", live)
	got := s.Run(clitest.Script("--wait 0", "k", "echo no")...)
	s.Want(got, 124, "", `getsetlock run: not acquired at the first try: key "k" is held`)
	if v, _ := s.World.Mini.Get("k"); v != live {
		t.Errorf("the holder's value became %q", v)
	}
	s.Vars["GETSETLOCK_REDIS"] = "redis://:s3cret%40x@127.0.0.1:1"
	s.Want(s.Run(clitest.Script("--wait 0", "k", "echo no")...), 122, "",
		"connection refused; nothing listens there")
	s.Want(s.Run(clitest.TokenScript("--wait 0", "k", "echo no")...), 122, "",
		`acquiring "k" on redis://:***@127.0.0.1:1: could not take it: not sent: dialing Redis: `)
	s.World.Mini.RequireAuth("s3cret@y")
	s.Vars["GETSETLOCK_REDIS"] = "redis://:s3cret%40x@" + s.World.Addr()
	s.Want(s.Run(clitest.Script("--wait 0", "k", "echo no")...), 122, "", "WRONGPASS")
}

func TestInterruptedWaitStartsNothing(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.Set("k", clitest.StampOf(redistest.Start.Add(time.Minute)))
	s.Patience = -1
	st := s.Start(clitest.Script("--wait forever", "k", "echo no")...)
	st.Errors.Await("waiting")
	s.Signal(syscall.SIGTERM)
	s.Want(<-st.Done, 143, "", "the command was not started: interrupted by terminated")
}

func TestQuietSaysNothingButErrors(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.Set("k", clitest.StampOf(redistest.Start.Add(time.Minute)))
	got := s.Run(clitest.Script("--wait 0 -q", "k", "echo no")...)
	if got.Code != 124 || strings.Count(got.Errors, "\n") != 1 {
		t.Errorf("%+v", got)
	}
	s.Want(s.Run(clitest.Script("--mode verbatim", "j", ":")...), 0, "",
		"does not renew the lock: it ends after its lease (1m0s)")
	s.Want(s.Run(clitest.Script("--mode verbatim --quiet", "j", ":")...), 0, "", "")
}

const obeys = `exec 2>/dev/null; trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.01; done`

// The embedded server does not report changes, so the next renewal finds the
// loss, within 10 s. The long grace keeps SIGKILL away from a command that
// needs real time to obey SIGTERM.
func TestStolenLockEndsTheCommandWith123(t *testing.T) {
	const unlock = "unlock"
	for _, c := range []struct{ flags, value, says string }{
		{"--protocol legacy", "12345", `the command was ended (it exited with 0): lease on "k" lost`},
		{"", clitest.Token + " host8 job", `lease on "k" lost: key "k" is held by another client: `},
		{"", unlock, "is gone: it expired, or another client deleted it"},
	} {
		s := clitest.NewStage(t)
		st := s.Start(clitest.TokenScript("--grace 15s "+c.flags, "k", obeys)...)
		st.Out.Await("ready")
		want := c.value
		if held := clitest.ValueOf(s, "k"); c.value == unlock {
			s.Want(s.Run("unlock", "k", "--value", held), 0, "deleted k\n", "")
			want = ""
		} else {
			s.World.Mini.Set("k", c.value)
		}
		passTo(s, 10*time.Second)
		s.Want(<-st.Done, 123, "ready\ntold\n", c.says)
		if v, _ := s.World.Mini.Get("k"); v != want {
			t.Errorf("%q: another's value became %q", c.flags, v)
		}
	}
}

func TestVerbatimLockEndsTheCommandWithItsLease(t *testing.T) {
	s := clitest.NewStage(t)
	st := s.Start(clitest.Script("--mode verbatim --lease 8s", "k", obeys)...)
	st.Out.Await("ready")
	passTo(s, 6*time.Second)
	s.Want(<-st.Done, 123, "ready\ntold\n", "never renewed")
	if gone := s.World.Now().Sub(redistest.Start); gone != 6*time.Second {
		t.Errorf("SIGTERM after %v, want the lease minus a quarter of it", gone)
	}
}

func TestKeepLeavesTheKeyTakenForTheRest(t *testing.T) {
	s := clitest.NewStage(t)
	s.Want(s.Run(clitest.Script("--keep 20s", "k", ":")...), 0, "", "")
	value, err := s.World.Mini.Get("k")
	if want := clitest.StampOf(redistest.Start.Add(24*time.Hour + 20*time.Second +
		time.Millisecond)); value != want || err != nil {
		t.Errorf("%q, want %s (%v)", value, want, err)
	}
	if ttl := s.World.Mini.TTL(legacy.MarkKey("k")); ttl != 20*time.Second {
		t.Errorf("TTL of key M: %v", ttl)
	}
	s.Want(s.Run(clitest.Script("--wait 0", "k", "echo again")...), 124, "", "held")
	s.World.Pass(30 * time.Second)
	s.Want(s.Run(clitest.Script("--wait 0", "k", "echo again")...), 0, "again\n", "")

	s.Want(s.Run(clitest.Script("--mode verbatim -q --keep 20s", "v", ":")...), 0, "", "")
	if value, _ := s.World.Mini.Get("v"); value != clitest.StampOf(
		s.World.Now().Add(time.Minute+time.Millisecond)) {
		t.Errorf("verbatim: %q", value)
	}
}

func TestKeepEndsWithALongerCommand(t *testing.T) {
	s := clitest.NewStage(t)
	dir := t.TempDir()
	st := s.Start(clitest.Script("--keep 5s", "k",
		"echo here; until [ -e "+dir+"/go ]; do sleep 0.01; done")...)
	st.Out.Await("here")
	s.World.Pass(6 * time.Second)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Want(<-st.Done, 0, "here\n", "")
	if keys := s.World.Mini.Keys(); len(keys) != 0 {
		t.Errorf("left behind: %v", keys)
	}
}
