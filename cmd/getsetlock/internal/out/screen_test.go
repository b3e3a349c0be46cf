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
