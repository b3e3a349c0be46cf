// SPDX-License-Identifier: Apache-2.0

package skewverb

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
)

// The figures of the documents are those of one architecture. Random times are
// computed in floating point, which another architecture may round otherwise.
// So these tests run only on that one.

// One seed gives one answer.
func TestSkewGivesThePinnedAnswer(t *testing.T) {
	got := skewed(t, "--lease", "10s", "--job", "exp:2s", "--spread", "1s", "--behind", "1s", "--explore",
		"--json")
	golden.Check(t, "testdata/skew.json", got.Out)
}

// clocksText returns docs/guide/clocks.md.
func clocksText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../../docs/guide/clocks.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The rehearsal in the document is the command's output, except for how long it
// took.
func TestDocumentsRehearsalIsTheCommands(t *testing.T) {
	const prompt = "    $ getsetlock "
	_, rest, found := strings.Cut(clocksText(t), prompt+"rehearse ")
	line, rest, _ := strings.Cut(rest, "\n")
	var says []string
	for row := range strings.SplitSeq(rest, "\n") {
		row, indented := strings.CutPrefix(row, "    ")
		if row != "" && !indented {
			break
		}
		says = append(says, row)
	}
	if !found || len(says) < 10 {
		t.Fatalf("only %q", says)
	}
	got := clitest.Speak(t, exec.Command(clitest.Built(t),
		append([]string{"rehearse"}, strings.Fields(line)...)...))
	plain := func(s string) string {
		return clitest.HereTook.ReplaceAllString(strings.TrimSpace(s), "(here)")
	}
	if plain(got.Out) != plain(strings.Join(says, "\n")) {
		t.Errorf("rehearse %s says\n%s%s\nthe document\n%s", line, got.Out, got.Errors,
			strings.Join(says, "\n"))
	}
}
