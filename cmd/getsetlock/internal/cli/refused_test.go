// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
)

// Wrong use takes no lock, prints no answer, and is answered by one line that
// says what to write instead. testdata/refused.txt has the command lines and
// the answers.
func TestRefusedCommandLinesSayWhatToWrite(t *testing.T) {
	const file = "testdata/refused.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := clitest.NewStage(t)
	clitest.WithMemory(s)
	var all strings.Builder
	for line := range strings.Lines(string(text)) {
		command, isCommand := strings.CutPrefix(line, "$ getsetlock ")
		switch {
		case isCommand:
			got := s.Run(wordsOf(t, command)...)
			if got.Code == 0 || got.Out != "" || strings.Count(got.Errors, "\n") != 1 ||
				strings.Contains(got.Errors, "s3cret") {
				t.Errorf("%s%+v", line, got)
			}
			fmt.Fprintf(&all, "%s[%d] %s", line, got.Code, got.Errors)
		case !strings.HasPrefix(line, "["): // an answer of before
			all.WriteString(line)
		}
	}
	golden.Check(t, file, all.String())
	if keys := s.World.Mini.Keys(); len(keys) != 0 {
		t.Errorf("left behind: %v", keys)
	}
}

// wordsOf splits a command line at its blanks. A word may be quoted as in Go.
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
