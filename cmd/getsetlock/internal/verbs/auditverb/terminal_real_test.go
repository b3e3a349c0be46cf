// SPDX-License-Identifier: Apache-2.0

//go:build real && linux

package auditverb

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child/childtest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// shown returns what a person sees: the lines that the escapes leave. It fails
// at escapes other than going up and erasing a line, which would have to be
// undone.
func shown(t *testing.T, text string) []string {
	t.Helper()
	var rows [][]rune
	row, column := 0, 0
	line := func() *[]rune {
		for len(rows) <= row {
			rows = append(rows, nil)
		}
		return &rows[row]
	}
	for rest := text; rest != ""; {
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
			t.Fatalf("an unexpected escape: %q", rest[:min(8, len(rest))])
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
	program := clitest.Built(t)
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
			p := childtest.Prepare(t, 80, program, "audit", "--redis", server.URL(), "--match", "lock:*",
				"--for", c.span)
			before := p.Settings()
			if err := p.Cmd.Start(); err != nil {
				t.Fatal(err)
			}
			p.Until(func(text string) bool {
				return strings.Count(text, "watching, ") >= 3 && strings.HasSuffix(text, "\n")
			})
			if c.keys != "" {
				rows := shown(t, p.Text)
				if watchingLines(rows) != 1 || !strings.Contains(rows[0], "3 keys") {
					t.Errorf("drawn three times it shows\n%s", strings.Join(rows, "\n"))
				}
				p.Type(c.keys)
			}
			p.End()
			if code := p.Cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			rows := shown(t, p.Text)
			if account := strings.Join(rows, "\n"); !strings.Contains(account, "\ncost  ") ||
				!strings.HasSuffix(account, c.says) {
				t.Errorf("it ends with\n%s", account)
			}
			if watchingLines(rows) != 0 || !strings.HasPrefix(rows[0], "audit of redis://") ||
				rows[1] != "3 keys looked at" || slices.Contains(rows, "^C") {
				t.Errorf("it leaves\n%s", strings.Join(rows, "\n"))
			}
			if after := p.Settings(); !reflect.DeepEqual(after, before) {
				t.Errorf("the terminal was set to %+v and is to %+v", before, after)
			}
		})
	}
}
