// SPDX-License-Identifier: Apache-2.0

//go:build real && linux

package smallverbs

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

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
		p := childtest.Prepare(t, columns, program, "ls", "--watch", "--redis", server.URL())
		p.Cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
		if err := p.Cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p.Until(func(text string) bool { return strings.Count(text, "2 locks on redis://") >= 2 })
		p.Type("\x03")
		p.End()
		if code := p.Cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("%d columns: exit code %d", columns, code)
		}
		all := pictures(strings.ReplaceAll(p.Text, "\r\n", "\n") + "\n")
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
	}
}
