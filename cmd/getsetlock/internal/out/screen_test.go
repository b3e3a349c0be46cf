// SPDX-License-Identifier: Apache-2.0

package out

import (
	"io"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
)

// screenOf is a terminal that has that size, and what is written to it.
func screenOf(columns, rows *int) (*Env, *strings.Builder) {
	written := &strings.Builder{}
	return &Env{Stdout: written, Stderr: written, Getenv: func(string) string { return "" },
		Size: func(io.Writer) (int, int, bool) { return *columns, *rows, *columns > 0 }}, written
}

// A window that was made narrower shows an old line in several rows, and all of
// them are erased.
func TestLiveErasesWhatTheTerminalShows(t *testing.T) {
	columns, rows := 80, 24
	e, written := screenOf(&columns, &rows)
	live := NewLive(e, e.Stdout)
	ups := func(want int) {
		t.Helper()
		if got := strings.Count(written.String(), "\x1b[1A\x1b[2K"); got != want {
			t.Errorf("%d rows erased, want %d", got, want)
		}
		written.Reset()
	}
	live.Draw([]string{strings.Repeat("x", 200), "short"})
	if got := written.String(); got != strings.Repeat("x", 78)+"…\nshort\n" {
		t.Errorf("%q", got)
	}
	ups(0)
	columns = 50
	live.Draw([]string{Bad.Paint(strings.Repeat("x", 60))})
	if got := written.String(); !strings.HasSuffix(got, "\x1b[0m…\n") ||
		text.StringWidthWithoutEscSequences(
			strings.TrimSpace(got[strings.LastIndex(got, "\x1b[31m"):])) != 49 {
		t.Errorf("%q", got)
	}
	ups(3)
	rows = 5
	live.Draw([]string{"1", "2", "3", "4", "5", "6"})
	if got := written.String(); !strings.HasSuffix(got, "1\n2\n3\nand 3 lines more\n") {
		t.Errorf("%q", got)
	}
	ups(1)
	live.Clear()
	ups(4)
	live.Clear()
	ups(0)
}

func TestCutMiddleKeepsBothEnds(t *testing.T) {
	for text, want := range map[string]string{
		"stock:warehouse:42": "stock…se:42", "short": "short", "库存库存库存库存": "库存…存库存", "ab": "ab",
	} {
		if got := CutMiddle(text, 11); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if got := CutMiddle("abcdef", 2); got != "a…" {
		t.Error(got)
	}
}

// A line that a watch prints is broken at blanks on a terminal only.
func TestPrintLineBreaksLinesOnTerminals(t *testing.T) {
	columns, rows := 50, 24
	e, written := screenOf(&columns, &rows)
	line := strings.TrimSpace(strings.Repeat("word ", 40))
	for _, columns = range []int{50, 200} {
		e.PrintLine(line)
		for i, row := range strings.Split(strings.TrimSpace(written.String()), "\n") {
			if len(row) >= columns || i > 0 && !strings.HasPrefix(row, "  word") {
				t.Errorf("%q", row)
			}
		}
		written.Reset()
	}
	columns = 0
	e.PrintLine(line)
	if written.String() != line+"\n" {
		t.Errorf("%q", written)
	}
}
