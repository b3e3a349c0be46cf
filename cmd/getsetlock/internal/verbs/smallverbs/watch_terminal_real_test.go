//go:build real && linux

package smallverbs

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child/childtest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// A person sees a table that fits, and ^C leaves the last one on the screen.
func TestWatchFitsARealTerminalAndEndsByControlC(t *testing.T) {
	program := clitest.Built(t)
	server := redistest.Real(t, redistest.Options{})
	server.Do("SET", "stock:warehouse:eu:central:4711", time.Now().Add(-time.Hour).UnixMilli())
	server.Do("SET", "k", clitest.Token+" host7 "+strings.Repeat("backup.sh ", 9), "PX", 60_000)
	for _, columns := range []int{60, 200} {
		master, slave := childtest.Terminal(t)
		size := &unix.Winsize{Row: 24, Col: uint16(columns)}
		if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, size); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "ls", "--watch", "--redis", server.URL())
		cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
		childtest.Lead(cmd, slave)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		shown := ""
		_ = master.SetReadDeadline(time.Now().Add(time.Minute))
		until := func(enough func() bool) {
			t.Helper()
			buffer := make([]byte, 1<<12)
			for !enough() {
				n, err := master.Read(buffer)
				if shown += string(buffer[:n]); err != nil {
					_ = cmd.Process.Kill()
					t.Fatalf("%v after %q", err, shown)
				}
			}
		}
		until(func() bool { return strings.Count(shown, "2 locks on redis://") >= 2 })
		if _, err := master.WriteString("\x03"); err != nil {
			t.Fatal(err)
		}
		const end = "<the program is gone>"
		go func() {
			_ = cmd.Wait()
			_, _ = slave.WriteString(end)
		}()
		until(func() bool { return strings.HasSuffix(shown, end) })
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("%d columns: exit code %d", columns, code)
		}
		shown = strings.ReplaceAll(strings.TrimSuffix(shown, end), "\r\n", "\n")
		all := pictures(shown)
		last := all[len(all)-1]
		if !strings.HasPrefix(last, "2 locks on redis://") || strings.Count(last, "\n") != 4 ||
			!strings.Contains(last, "\x1b[33mexpired\x1b[0m") || strings.Contains(last, "^C") {
			t.Errorf("%d columns: it leaves %q", columns, last)
		}
		for _, line := range strings.Split(last, "\n") {
			if text.StringWidthWithoutEscSequences(line) >= columns {
				t.Errorf("it wraps at %d columns: %q", columns, line)
			}
		}
		master.Close()
		slave.Close()
	}
}
