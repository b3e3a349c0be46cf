// SPDX-License-Identifier: Apache-2.0

package child

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child/childtest"
)

// screen is a terminal. The test reads and types on its other side.
type screen struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd

	mu   sync.Mutex
	more *sync.Cond
	text string
	seen int // how much of text was matched
	over bool
}

// openScreen runs a command as the leader of a session on a new terminal, as a
// login does.
func openScreen(t *testing.T, args ...string) *screen {
	t.Helper()
	master, slave := childtest.Terminal(t)
	defer slave.Close()

	s := &screen{t: t, master: master, cmd: exec.Command(args[0], args[1:]...)}
	s.more = sync.NewCond(&s.mu)
	childtest.Lead(s.cmd, slave)
	s.cmd.Env = append(os.Environ(), "T="+os.Args[0]+" -helper", "PS1=$ ", "ENV=")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go s.read(read)
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		master.Close() // hangs up: the rest of the session gets SIGHUP
		<-read
	})
	return s
}

// openAlone runs a line on a terminal without job control: no shell would
// continue what stops there. The leader outlives the line, since its end hangs
// up the terminal and loses unread output.
func openAlone(t *testing.T, line string) *screen {
	t.Helper()
	return openScreen(t, "sh", "-c", line+"; read _")
}

func (s *screen) read(done chan<- struct{}) {
	defer close(done)
	buf := make([]byte, 4096)
	for {
		n, err := s.master.Read(buf)
		s.mu.Lock()
		s.text += string(buf[:n])
		s.over = err != nil
		s.more.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) type_(keys string) {
	s.t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// expect waits for text after the text expected before. The terminal echoes
// what is typed, so typed text must not contain what is expected next.
func (s *screen) expect(want string) {
	s.t.Helper()
	alarm := time.AfterFunc(2*time.Minute, func() {
		s.mu.Lock()
		s.over = true
		s.more.Broadcast()
		s.mu.Unlock()
	})
	defer alarm.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if i := strings.Index(s.text[s.seen:], want); i >= 0 {
			s.seen += i + len(want)
			return
		}
		if s.over {
			s.t.Fatalf("never saw %q on the screen:\n%s", want, s.text)
		}
		s.more.Wait()
	}
}

func (s *screen) never(unwanted string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(s.text, unwanted) {
		s.t.Fatalf("saw %q on the screen:\n%s", unwanted, s.text)
	}
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// Each talk is what is typed, after a ">", and what the screen then shows.
// Those of openAlone have no shell. What has stopped runs again by "fg".
func TestTerminalBelongsToTheCommand(t *testing.T) {
	odd := t.TempDir() + "/odd"
	if err := os.WriteFile(odd, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, alone string
		talk        []string
	}{
		{"foreground until it ends", "$T run $T where",
			[]string{"foreground true", "exit 0, mine again true"}},
		{"foreground comes back when exec fails", "$T run " + odd,
			[]string{"format error, mine again true"}},
		{"^C ends only the command", "$T run $T hold",
			[]string{"listening", ">" + ctrlC, "exit 130, mine again true"}},
		{"^Z does nothing without a shell", "$T run $T hold",
			[]string{"listening", ">" + ctrlZ, "got SIGCONT", ">" + ctrlC, "exit 130"}},
		{"^Z stops the job and fg continues it", "",
			[]string{">$T run $T hold\n", "listening", ">" + ctrlZ, "$ ", ">echo the shell is ba''ck\n",
				"shell is back", ">fg\n", "got SIGCONT", ">" + ctrlC, "exit 130", ">echo code=$?\n",
				"code=130"}},
		// The command itself stops its group, as a nested run does for ^Z.
		// Otherwise the terminal would be stuck.
		{"command that stops itself returns the terminal", "",
			[]string{">$T run sh -c 'kill -STOP $$; echo on ag''ain'\n", "$ ", ">echo the shell is ba''ck\n",
				"shell is back", ">fg\n", "on again", "exit 0"}},
		{"nested runs stop and continue together", "",
			[]string{">$T run $T run $T hold\n", "listening", ">" + ctrlZ, "$ ", ">fg\n", "got SIGCONT",
				">" + ctrlC, "exit 130", "exit 130"}},
		{"pager in a pipeline keeps the terminal", "",
			[]string{">$T run $T where | $T ask\n", "name?", ">pager\n", "hello pager <nil>"}},
		{"command in a pipeline gets the terminal on request", "",
			[]string{">$T run $T ask | cat\n", "name?", ">reader\n", "hello reader <nil>", "$ ",
				">echo the shell is ba''ck\n", "shell is back"}},
		{"^Z in a pipeline stops the command too", "",
			[]string{">$T run $T hold | cat\n", "listening", ">" + ctrlZ, "$ ", ">fg\n", "got SIGCONT",
				">" + ctrlC, "exit 130"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s *screen
			if c.alone != "" {
				s = openAlone(t, c.alone)
			} else {
				s = openScreen(t, "sh", "-i")
			}
			for _, say := range c.talk {
				if keys, typed := strings.CutPrefix(say, ">"); typed {
					s.type_(keys)
				} else {
					s.expect(say)
				}
			}
		})
	}
}

func TestLostLeaseEndsAStoppedCommandBeforeItRuns(t *testing.T) {
	s := openScreen(t, "sh", "-i")
	s.type_("$T expired $T hold\n")
	s.expect("listening")
	s.type_(ctrlZ)
	s.expect("$ ")
	s.type_("fg\n")
	s.expect("exit 137")
	s.never("got SIGCONT")
}

func TestBackgroundJobThatReadsIsStoppedUntilFg(t *testing.T) {
	file := t.TempDir() + "/jobs"
	s := openScreen(t, "sh", "-i")
	s.type_("$T run $T ask &\n")
	s.expect("name?")
	// "jobs" says Running until the stop has passed through getsetlock to the
	// shell.
	s.type_("until jobs >" + file + "; grep -q Stopped " + file + "; do :; done; echo sto''pped\n")
	s.expect("stopped")
	s.type_("fg\n")
	s.type_("late\n")
	s.expect("hello late <nil>")
	s.expect("exit 0")
}

func TestKilledCommandLeavesTheTerminalAsItWas(t *testing.T) {
	s := openScreen(t, "sh", "-i")
	s.type_("$T run $T raw; stty -a\n")
	s.expect("modes changed")
	s.killForeground()
	s.expect("exit 137")
	s.expect(" icanon ")
}

func (s *screen) killForeground() {
	s.t.Helper()
	group, err := unix.IoctlGetInt(int(s.master.Fd()), unix.TIOCGPGRP)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := unix.Kill(-group, unix.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
}
