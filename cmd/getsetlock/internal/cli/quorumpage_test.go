package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

// The command lines of docs/quorum.md are run as they stand, one after the
// other, on three embedded servers instead of a, b and c.
func TestCommandsOfTheQuorumPageRun(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/quorum.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n    export GETSETLOCK_REDIS=\"redis://a redis://b redis://c\"\n") {
		t.Error("the page does not name three servers")
	}
	s, on := clitest.Quorum(t, 3)
	t.Chdir(t.TempDir())
	script := "#!/bin/sh\necho backup of $GETSETLOCK_KEY\n"
	if err := os.WriteFile(filepath.Join(".", "backup.sh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Interactive, s.Stdin = true, "y\n"
	says := map[string]string{
		"doctor": "OK: all 3 servers vote.",
		"run":    "backup of nightly\n",
		"ls":     "nightly  held   2 ",
		"unlock": "deleted nightly on 2 of 3 servers\n",
	}
	var ran []string
	for _, m := range commandLine.FindAllStringSubmatch(string(text), -1) {
		args := strings.Fields(m[1])
		if args[0] == "ls" {
			clitest.Vote(t, "nightly", clitest.Token+" host3 backup", time.Minute, on[0], on[2])
		}
		got := s.Run(args...)
		if want, known := says[args[0]]; !known || got.Code != 0 ||
			!strings.Contains(squeezed(got.Out), squeezed(want)) {
			t.Errorf("getsetlock %s: code %d, want %q\n%s%s", m[1], got.Code, want, got.Out, got.Errors)
		}
		ran = append(ran, args[0])
	}
	if want := []string{"doctor", "run", "ls", "unlock"}; !slices.Equal(ran, want) {
		t.Errorf("the page runs %q, want %q", ran, want)
	}
}

// squeezed has one blank where text has several.
func squeezed(text string) string {
	for strings.Contains(text, "  ") {
		text = strings.ReplaceAll(text, "  ", " ")
	}
	return text
}
