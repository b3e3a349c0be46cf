// SPDX-License-Identifier: Apache-2.0

package out

import (
	"io"
	"strings"
	"testing"
)

// screenOf is a terminal that has that size, and what is written to it.
func screenOf(columns, rows *int) (*Env, *strings.Builder) {
	written := &strings.Builder{}
	return &Env{Stdout: written, Stderr: written, Getenv: func(string) string { return "" },
		Size: func(io.Writer) (int, int, bool) { return *columns, *rows, *columns > 0 }}, written
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
