// SPDX-License-Identifier: Apache-2.0

//go:build unix

package child

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child/childtest"
)

func helper(name string, args ...string) []string {
	return append([]string{os.Args[0], "-helper", name}, args...)
}

// fakeClock fires a timer when the test moves time past it.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []fakeTimer
	asked  chan struct{}
}

type fakeTimer struct {
	due time.Time
	ch  chan time.Time
}

func newFakeClock() *fakeClock { return &fakeClock{now: noon, asked: make(chan struct{}, 100)} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := fakeTimer{c.now.Add(d), make(chan time.Time, 1)}
	c.timers = append(c.timers, t)
	c.asked <- struct{}{}
	return t.ch
}

func (c *fakeClock) move(to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = to
	for _, t := range c.timers {
		if !t.due.After(to) {
			select {
			case t.ch <- to:
			default:
			}
		}
	}
}

// running is a command whose output the test reads line by line.
type running struct {
	*Proc
	t     *testing.T
	lines *bufio.Scanner
}

func start(t *testing.T, spec Spec) *running {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	spec.Stdout = w
	p, err := Start(spec)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now := time.Now()
		p.Terminate(Schedule{Term: now.Add(-time.Hour * 1e5), Kill: now.Add(-time.Hour * 1e5)})
		p.Wait()
		r.Close()
	})
	return &running{p, t, bufio.NewScanner(r)}
}

// signal sends a signal to the command's process group.
func (r *running) signal(s unix.Signal) { _ = unix.Kill(-r.family.pid, s) }

func (r *running) expect(want string) {
	r.t.Helper()
	for r.lines.Scan() {
		if r.lines.Text() == want {
			return
		}
	}
	r.t.Fatalf("output ended before %q", want)
}

// expectEOF waits until no process holds the output open: every process that
// inherited it has ended.
func (r *running) expectEOF() {
	r.t.Helper()
	for r.lines.Scan() {
		r.t.Logf("more output: %s", r.lines.Text())
	}
}

func TestExitCodesAreThoseAShellReports(t *testing.T) {
	for script, want := range map[string]Exit{
		"exit 0":            {Code: 0},
		"exit 37":           {Code: 37},
		"kill -KILL $$":     {Code: 137, Signal: "SIGKILL"},
		"kill -HUP $$":      {Code: 129, Signal: "SIGHUP"},
		"(exit 5)":          {Code: 5},
		"/nowhere/at/all":   {Code: 127},
		"exec sh -c 'exit'": {Code: 0},
	} {
		p, err := Start(Spec{Args: []string{"sh", "-c", script}})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Wait(); got != want {
			t.Errorf("%s: %+v, want %+v", script, got, want)
		}
	}
}

func TestSignalTestsPassWhereSignalsAreIgnored(t *testing.T) {
	childtest.PassIgnored(t, "TestExitCodesAreThoseAShellReports",
		"TestIgnoredSignalsStayIgnoredInTheCommand")
}

// nohup is meant for the command. So its parent must neither pass the signal on
// nor give it its default action again. Where the signal is not ignored, the
// parent passes it on.
func TestIgnoredSignalsStayIgnoredInTheCommand(t *testing.T) {
	for name, number := range map[string]int{"HUP": 1, "INT": 2} {
		for ignored, want := range map[string]int{"trap '' " + name + "; ": 0, "": 128 + number} {
			script := "kill -" + name + " $PPID; kill -" + name + " $$; exit 0"
			cmd := exec.Command("sh", "-c", ignored+`exec "$0" -helper run sh -c "$1"`, os.Args[0], script)
			out, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != want {
				t.Errorf("%s after %q: exit %d, want %d: %s", name, ignored, got, want, out)
			}
		}
	}
}

func TestStartFailsWith126Or127(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	write("plain", "no program", 0o644)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 127, "not found"},
		{[]string{"no-such-command-here"}, 127, "no-such-command-here: command not found"},
		{[]string{filepath.Join(dir, "absent")}, 127, "not found"},
		{[]string{dir}, 126, "cannot be run"},
		{[]string{filepath.Join(dir, "plain")}, 126, "permission denied"},
		{[]string{"plain"}, 126, "permission denied"},
		{[]string{write("odd", "no program\n", 0o755)}, 126, "format"},
		{[]string{write("lost", "#!/no/such/shell\n", 0o755)}, 126, "interpreter"},
	} {
		_, err := Start(Spec{Args: c.args})
		var start *StartError
		if !errors.As(err, &start) || start.Code != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

func TestStreamsAndEnvironmentPassThrough(t *testing.T) {
	var out, errs bytes.Buffer
	p, err := Start(Spec{
		Args:  []string{"sh", "-c", `cat; echo "$GREETING" >&2`},
		Env:   []string{"GREETING=hello", "PATH=" + os.Getenv("PATH")},
		Stdin: strings.NewReader("from stdin"), Stdout: &out, Stderr: &errs,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	if out.String() != "from stdin" || errs.String() != "hello\n" {
		t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
	}
}

func TestSignalsReachTheWholeGroup(t *testing.T) {
	signals := make(chan os.Signal, 1)
	r := start(t, Spec{
		Args: []string{"sh", "-c",
			`trap 'echo outer' USR1
			 sh -c 'trap "echo inner; exit" USR1; echo ready; while :; do sleep 0.01; done' & wait $!; wait $!; echo both`},
		Signals: signals,
	})
	r.expect("ready")
	signals <- unix.SIGUSR1
	seen := map[string]bool{}
	for r.lines.Scan() && r.lines.Text() != "both" {
		seen[r.lines.Text()] = true
	}
	if !seen["outer"] || !seen["inner"] {
		t.Errorf("heard by %v", seen)
	}
	if got := r.Wait(); got.Code != 0 {
		t.Errorf("%+v", got)
	}
}

func TestScheduleSendsTermAndKillAtTheirInstants(t *testing.T) {
	clock := newFakeClock()
	r := start(t, Spec{Args: helper("stubborn"), Clock: clock})
	r.expect("listening")
	r.Terminate(Unrenewed(at(27), 7500*time.Millisecond))
	<-clock.asked // timer for TERM
	<-clock.asked // timer for KILL
	// The command prints this signal first, which shows that no signal was sent
	// too early.
	clock.move(at(19.4))
	r.signal(unix.SIGINT)
	r.lines.Scan()
	if got := r.lines.Text(); got != "got SIGINT" {
		t.Fatalf("before its time: %s", got)
	}
	clock.move(at(19.5))
	r.expect("got SIGTERM")
	clock.move(at(26.9))
	r.signal(unix.SIGINT)
	r.expect("got SIGINT")
	clock.move(at(27))
	if got := r.Wait(); got != (Exit{Code: 137, Signal: "SIGKILL"}) {
		t.Errorf("%+v", got)
	}
}

func TestSecondScheduleBringsKillForward(t *testing.T) {
	clock := newFakeClock()
	r := start(t, Spec{Args: helper("stubborn"), Clock: clock})
	r.expect("listening")
	r.Terminate(Unrenewed(at(27), 5*time.Second))
	r.Terminate(Overtaken(at(0), at(27), 5*time.Second))
	r.expect("got SIGTERM")
	clock.move(at(5))
	if got := r.Wait(); got.Signal != "SIGKILL" {
		t.Errorf("%+v", got)
	}
}

func TestScheduleInThePastKillsAtOnce(t *testing.T) {
	clock := newFakeClock()
	r := start(t, Spec{Args: helper("stubborn"), Clock: clock})
	r.expect("listening")
	r.Terminate(Overtaken(at(0), at(-1), 5*time.Second))
	if got := r.Wait(); got.Signal != "SIGKILL" {
		t.Errorf("%+v", got)
	}
}

func TestStoppedCommandObeysTerm(t *testing.T) {
	r := start(t, Spec{Args: helper("hold")})
	r.expect("listening")
	r.signal(unix.SIGSTOP)
	now := time.Now()
	r.Terminate(Schedule{Term: now, Kill: now.Add(time.Hour)})
	if got := r.Wait(); got.Signal != "SIGTERM" {
		t.Errorf("%+v", got)
	}
}

// The leader obeys TERM and ends. The process that it started ignores TERM and
// works on.
func TestKillReachesTheGroupAfterItsLeaderEnded(t *testing.T) {
	clock := newFakeClock()
	r := start(t, Spec{
		Args:  []string{"sh", "-c", `"$0" -helper stubborn & wait`, os.Args[0]},
		Clock: clock,
	})
	r.expect("listening")
	r.Terminate(Overtaken(at(0), at(27), 5*time.Second))
	r.expect("got SIGTERM")
	<-r.reaped
	select {
	case <-r.Done():
		t.Fatal("Wait would return while the group still works")
	default:
	}
	clock.move(at(5))
	if got := r.Wait(); got.Signal != "SIGTERM" {
		t.Errorf("%+v", got)
	}
	r.expectEOF()
}

func TestGroupLivesOnAfterItsLeaderEndsByItself(t *testing.T) {
	r := start(t, Spec{Args: []string{"sh", "-c", `"$0" -helper hold & echo $!`, os.Args[0]}})
	r.expect("listening")
	if got := r.Wait(); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	if err := unix.Kill(-r.family.pid, unix.SIGUSR1); err != nil {
		t.Fatalf("the background process is gone: %v", err)
	}
	r.expect("got SIGUSR1")
	_ = unix.Kill(-r.family.pid, unix.SIGKILL)
	r.expectEOF()
}

// The thread that called Start ends. If that thread had forked, Linux would now
// send the parent-death signal.
func TestCommandOutlivesTheThreadThatStartedIt(t *testing.T) {
	procs := make(chan *running)
	go func() {
		runtime.LockOSThread() // without Unlock, the thread ends with this goroutine
		procs <- start(t, Spec{Args: helper("hold")})
	}()
	r := <-procs
	r.expect("listening")
	r.signal(unix.SIGUSR1)
	r.expect("got SIGUSR1")
}

func TestCallsAfterTheEndReturn(t *testing.T) {
	p, err := Start(Spec{Args: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	p.Terminate(Schedule{Term: noon, Kill: noon})
	if got := p.Wait(); got.Code != 0 {
		t.Errorf("%+v", got)
	}
}
