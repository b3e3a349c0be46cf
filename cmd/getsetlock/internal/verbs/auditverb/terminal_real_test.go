//go:build real && linux

package auditverb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child/childtest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// pty is a terminal on which a program runs as the leader of its session, as a
// login does.
type pty struct {
	t      *testing.T
	slave  *os.File
	master *os.File
	cmd    *exec.Cmd
	text   string
}

func onTerminal(t *testing.T, args ...string) *pty {
	t.Helper()
	master, slave := childtest.Terminal(t)
	p := &pty{t: t, slave: slave, master: master, cmd: exec.Command(args[0], args[1:]...)}
	t.Cleanup(func() { p.master.Close() })
	t.Cleanup(func() { slave.Close() }) // closing the last one hangs up, and unread output is lost
	childtest.Lead(p.cmd, slave)
	return p
}

// settings returns those of the terminal: echo, lines, signals.
func (p *pty) settings() unix.Termios {
	s, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	return *s
}

// until reads the program's output until enough returns true.
func (p *pty) until(enough func(text string) bool) {
	p.t.Helper()
	_ = p.master.SetReadDeadline(time.Now().Add(time.Minute))
	buffer := make([]byte, 1<<12)
	for !enough(p.text) {
		n, err := p.master.Read(buffer)
		if p.text += string(buffer[:n]); err != nil {
			p.t.Fatalf("%v after %q", err, p.text)
		}
	}
}

// end reads on until the program has ended and all its output was read.
func (p *pty) end() {
	p.t.Helper()
	const mark = "<the program is gone>"
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = p.cmd.Wait()
		_, _ = p.slave.WriteString(mark)
	}()
	p.until(func(text string) bool { return strings.HasSuffix(text, mark) })
	<-gone
	p.text = strings.TrimRight(strings.TrimSuffix(p.text, mark), "\r\n")
}

// shown returns what a person sees: the lines that the escapes leave. It fails
// at escapes other than going up and erasing a line, which would have to be
// undone.
func (p *pty) shown() []string {
	p.t.Helper()
	var rows [][]rune
	row, column := 0, 0
	line := func() *[]rune {
		for len(rows) <= row {
			rows = append(rows, nil)
		}
		return &rows[row]
	}
	for rest := p.text; rest != ""; {
		if after, ok := strings.CutPrefix(rest, "\x1b[1A"); ok {
			row, rest = max(0, row-1), after
			continue
		}
		if after, ok := strings.CutPrefix(rest, "\x1b[2K"); ok {
			*line(), rest = nil, after
			continue
		}
		c := []rune(rest)[0]
		rest = rest[len(string(c)):]
		switch c {
		case '\r':
			column = 0
		case '\n':
			row++
		case '\x1b':
			p.t.Fatalf("an unexpected escape: %q", rest[:min(8, len(rest))])
		default:
			l := line()
			for len(*l) <= column {
				*l = append(*l, ' ')
			}
			(*l)[column] = c
			column++
		}
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = strings.TrimRight(string(r), " ")
	}
	return out
}

func watchingLines(rows []string) (n int) {
	for _, r := range rows {
		if strings.HasPrefix(r, "watching, ") {
			n++
		}
	}
	return n
}

// The view is drawn over itself, and erased for the answer, whether the watch
// ends or ^C is typed. The terminal is left as it was.
func TestLiveViewLeavesTheTerminalAsItWas(t *testing.T) {
	program := filepath.Join(t.TempDir(), "getsetlock")
	if out, err := exec.Command("go", "build", "-o", program, "../../..").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := redistest.Real(t, redistest.Options{})
	for i := range 3 {
		server.Do("SET", fmt.Sprint("lock:", i), time.Now().Add(time.Minute).UnixMilli())
	}
	for name, c := range map[string]struct {
		span string
		keys string // typed after the view was drawn three times
		code int
		says string // expected after the account
	}{
		"to its end":  {"4s", "", 0, ""},
		"interrupted": {"1h", "\x03", 130, "interrupted by ^C"},
	} {
		t.Run(name, func(t *testing.T) {
			p := onTerminal(t, program, "audit", "--redis", server.URL(), "--match", "lock:*", "--for",
				c.span)
			before := p.settings()
			if err := p.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer p.cmd.Process.Kill()
			p.until(func(text string) bool {
				return strings.Count(text, "watching, ") >= 3 && strings.HasSuffix(text, "\n")
			})
			if c.keys != "" {
				if rows := p.shown(); watchingLines(rows) != 1 || !strings.Contains(rows[0], "3 keys") {
					t.Errorf("drawn three times it shows\n%s", strings.Join(rows, "\n"))
				}
				if _, err := p.master.WriteString(c.keys); err != nil {
					t.Fatal(err)
				}
			}
			p.end()
			if code := p.cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			rows := p.shown()
			if account := strings.Join(rows, "\n"); !strings.Contains(account, "\ncost  ") ||
				!strings.HasSuffix(account, c.says) {
				t.Errorf("it ends with\n%s", account)
			}
			if watchingLines(rows) != 0 || !strings.HasPrefix(rows[0], "audit of redis://") ||
				rows[1] != "3 keys looked at" || slices.Contains(rows, "^C") {
				t.Errorf("it leaves\n%s", strings.Join(rows, "\n"))
			}
			if after := p.settings(); !reflect.DeepEqual(after, before) {
				t.Errorf("the terminal was set to %+v and is to %+v", before, after)
			}
		})
	}
}
