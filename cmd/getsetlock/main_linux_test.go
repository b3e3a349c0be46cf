// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// becomeReaper makes the test binary a process that adopts orphans, and then
// the program that the other arguments name.
const becomeReaper = "-become-reaper"

func reaper(args []string) {
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err == nil {
		err = unix.Exec(args[0], args, os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// adopting is the command, started so that it adopts orphans: as PID 1 of its
// own namespace or, where this machine does not allow that, as a subreaper.
type adopting struct {
	*exec.Cmd
	t     *testing.T
	lines *bufio.Scanner
	init  bool
}

// namespaces are the ways to become PID 1: as root, or as a user who becomes
// root in a user namespace first.
var namespaces = []*syscall.SysProcAttr{
	{Cloneflags: unix.CLONE_NEWPID},
	{
		Cloneflags:  unix.CLONE_NEWPID | unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	},
}

// asInit starts the command as PID 1 where that is allowed, else as a
// subreaper.
func asInit(t *testing.T, env []string, args ...string) *adopting {
	t.Helper()
	for _, attr := range namespaces {
		if a, err := begin(t, attr, env, program, args...); err == nil {
			a.init = true
			return a
		}
	}
	t.Log("this user may not make a namespace of processes: a subreaper takes the place of PID 1")
	return asReaper(t, env, args...)
}

func asReaper(t *testing.T, env []string, args ...string) *adopting {
	t.Helper()
	a, err := begin(t, nil, env, os.Args[0], append([]string{becomeReaper, program}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func begin(t *testing.T, attr *syscall.SysProcAttr, env []string, name string, args ...string) (*adopting,
	error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = environment(env...), w, os.Stderr, attr
	if err := cmd.Start(); err != nil {
		r.Close()
		return nil, err
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		r.Close()
	})
	return &adopting{Cmd: cmd, t: t, lines: bufio.NewScanner(r)}, nil
}

func (a *adopting) expect(line string) {
	a.t.Helper()
	if !a.lines.Scan() || a.lines.Text() != line {
		a.t.Fatalf("it printed %q, want %q", a.lines.Text(), line)
	}
}

func (a *adopting) end(code int) {
	a.t.Helper()
	_ = a.Wait()
	if got := a.ProcessState.ExitCode(); got != code {
		a.t.Errorf("exit code %d, want %d", got, code)
	}
}

// orphan is a shell script that leaves an orphan, and waits until not even a
// zombie is left of it. The orphan ends after its parent, which could otherwise
// reap it. The script gives up after half a minute.
const orphan = `pid=$(sh -c 'sh -c "while kill -0 $$; do sleep 0.01; done; exit 7" >/dev/null 2>&1 & echo $!')
n=0
while kill -0 "$pid" 2>/dev/null; do
	n=$((n+1)); [ $n -lt 3000 ] || { echo "a zombie is left"; exit 1; }
	sleep 0.01
done
echo gone
`

func TestRunAsPID1ReapsOrphansAndKeepsTheCode(t *testing.T) {
	env := []string{"GETSETLOCK_REDIS=" + redistest.New(t).URL()}
	for _, start := range []func(*testing.T, []string, ...string) *adopting{asInit, asReaper} {
		a := start(t, env, "run", "k", "--", "sh", "-c", `echo $PPID; `+orphan+`exit 3`)
		parent := fmt.Sprint(a.Process.Pid)
		if a.init {
			parent = "1"
		}
		a.expect(parent)
		a.expect("gone")
		a.end(3)
	}
}

// The orphans and the command wait for the end of the same input.
func TestRunAsPID1IgnoresOrphansExitCodes(t *testing.T) {
	env := []string{"GETSETLOCK_REDIS=" + redistest.New(t).URL()}
	script := `i=0; while [ $i -lt 50 ]; do ( (read _; exit 9) <&3 & ) 3<&0; i=$((i+1)); done; echo ready; read _; exit 37`
	for _, start := range []func(*testing.T, []string, ...string) *adopting{asInit, asReaper} {
		fifo := t.TempDir() + "/fifo"
		if err := unix.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		a := start(t, env, "run", "k", "--", "sh", "-c", "exec <"+fifo+"; "+script)
		input, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		a.expect("ready")
		input.Close()
		a.end(37)
	}
}

// The kernel drops the signals that PID 1 does not catch.
func TestRunAsPID1PassesSIGTERMOn(t *testing.T) {
	heed(t, unix.SIGTERM)
	env := []string{"GETSETLOCK_REDIS=" + redistest.New(t).URL()}
	a := asInit(t, env, "run", "k", "--", "sh", "-c",
		`exec 2>/dev/null; trap 'echo told; exit 9' TERM; echo ready; while :; do sleep 0.01; done`)
	a.expect("ready")
	if err := a.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	a.expect("told")
	a.end(9)
}

// A run that joins does not replace itself by its command as PID 1. The command
// would have to reap orphans, and the kernel would drop a SIGTERM that it does
// not catch.
func TestRunAsPID1StaysWhereItJoins(t *testing.T) {
	heed(t, unix.SIGTERM)
	w := redistest.New(t)
	const token = "AAAAAAAAAAAAAAAAAAAAAA"
	w.Mini.Set("k", token+" host command")
	env := []string{"GETSETLOCK_REDIS=" + w.URL(), "GETSETLOCK_KEY=k", "GETSETLOCK_TOKEN=" + token}
	script := orphan +
		`exec 2>/dev/null; echo ready; n=0; while [ $n -lt 1000 ]; do n=$((n+1)); sleep 0.01; done; exit 1`
	a := asInit(t, env, "run", "k", "--", "sh", "-c", script)
	if a.init { // a subreaper becomes the command
		a.expect("gone")
		a.expect("ready")
		if err := a.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		a.end(128 + int(unix.SIGTERM))
	}
}
