// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/golden"
)

// Transcript runs the command lines of a file and compares what each prints
// with the file. An answer begins with the exit code in brackets; its further
// lines are indented, and its empty lines left out. -update writes the answers
// anew and keeps comments and command lines. A word may be quoted as in Go.
func Transcript(t *testing.T, file string, run func(args ...string) Screen) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "[") || strings.HasPrefix(line, "    ") {
			continue // an answer of before
		}
		all.WriteString(line)
		if command, isCommand := strings.CutPrefix(line, "$ getsetlock "); isCommand {
			got := run(wordsOf(t, command)...)
			fmt.Fprintf(&all, "[%d] %s\n", got.Code, indented(got.Out+got.Errors))
		}
	}
	golden.Check(t, file, all.String())
}

// indented indents all lines but the first, and leaves out the empty ones.
func indented(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	return strings.Join(lines, "\n    ")
}

func wordsOf(t *testing.T, line string) []string {
	words := strings.Fields(line)
	for i, word := range words {
		if !strings.HasPrefix(word, `"`) {
			continue
		}
		var err error
		if words[i], err = strconv.Unquote(word); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return words
}
