// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes this process adopt orphans until the test ends, as PID 1 of a
// container always does. It needs no rights.
func adopt(t *testing.T) {
	t.Helper()
	set := func(on uintptr) {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	set(1)
	t.Cleanup(func() { set(0) })
}

// orphan is a shell script that leaves an orphan $pid. The orphan ends after
// its parent, which could otherwise reap it.
const orphan = `pid=$(sh -c 'sh -c "while kill -0 $$; do sleep 0.01; done; exit 7" >/dev/null 2>&1 & echo $!')
`

// awaitGone is a shell script that waits until process $pid is gone, its zombie
// too. It gives up after half a minute.
const awaitGone = `n=0
while kill -0 "$pid" 2>/dev/null; do
	n=$((n+1)); [ $n -lt 3000 ] || { echo "a zombie is left"; exit 1; }
	sleep 0.01
done
`

func TestOrphansAreReapedWhileTheCommandRuns(t *testing.T) {
	adopt(t)
	r := start(t, Spec{ReapOrphans: true, Args: []string{"sh", "-c",
		orphan + awaitGone + `echo gone; exit 5`}})
	r.expect("gone")
	if got := r.Wait(); got != (Exit{Code: 5}) {
		t.Errorf("%+v", got)
	}
}

// The command and fifty orphans wait for the end of one input, and end
// together.
func TestManyOrphansDoNotChangeTheExitCode(t *testing.T) {
	adopt(t)
	for round := range 20 {
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r := start(t, Spec{ReapOrphans: true, Stdin: in, Args: []string{"sh", "-c",
			`i=0; while [ $i -lt 50 ]; do ( (read _; exit 9) <&3 & ) 3<&0; i=$((i+1)); done; echo ready; read _; exit 37`}})
		in.Close()
		r.expect("ready")
		out.Close()
		if got := r.Wait(); got != (Exit{Code: 37}) {
			t.Fatalf("round %d: %+v", round, got)
		}
		r.expectEOF()
	}
}

// The leader obeys SIGTERM, and so does the process that it started, which this
// process then adopts. The clock stands still, so SIGKILL never comes.
func TestZombieOfTheGroupDoesNotDelayTheEnd(t *testing.T) {
	adopt(t)
	r := start(t, Spec{
		ReapOrphans: true, Clock: newFakeClock(),
		Args: []string{"sh", "-c", `"$0" -helper hold & wait`, os.Args[0]},
	})
	r.expect("listening")
	r.Terminate(Overtaken(at(0), at(27), 5*time.Second))
	ended := make(chan Exit)
	go func() { ended <- r.Wait() }()
	select {
	case got := <-ended:
		if got.Signal != "SIGTERM" {
			t.Errorf("%+v", got)
		}
	case <-time.After(time.Minute):
		t.Error("Wait still waits for a zombie")
		_ = unix.Kill(-r.family.pid, unix.SIGKILL)
		r.Terminate(Schedule{Term: at(-1), Kill: at(-1)})
		<-ended
	}
}

func TestStoppedOrphanIsNotTakenForTheCommand(t *testing.T) {
	adopt(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	r := start(t, Spec{ReapOrphans: true, Stdin: in, Args: []string{"sh", "-c",
		`pid=$(sh -c 'sh -c "kill -STOP \$\$" >/dev/null & echo $!')
		 until grep -q "State:.T" /proc/$pid/status; do sleep 0.01; done
		 echo stopped; read _; kill -KILL $pid; ` + awaitGone + `exit 6`}})
	in.Close()
	r.expect("stopped")
	_, _ = io.WriteString(out, "on\n")
	if got := r.Wait(); got != (Exit{Code: 6}) {
		t.Errorf("%+v", got)
	}
}

func TestExitCodeIsUnknownAfterAnotherWaiter(t *testing.T) {
	for _, orphans := range []bool{false, true} {
		cmd := exec.Command("sh", "-c", "exit 4")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		f := &family{orphans: orphans}
		f.started(cmd.Process)
		if _, err := unix.Wait4(f.pid, nil, 0, nil); err != nil {
			t.Fatal(err)
		}
		if got := f.reap(cmd, nil); !errors.Is(got.Err, unix.ECHILD) {
			t.Errorf("orphans %v: %+v", orphans, got)
		}
	}
}
