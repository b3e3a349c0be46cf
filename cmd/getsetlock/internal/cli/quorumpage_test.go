// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

// The command line of docs/guide/quorum.md is run as it stands, on three
// embedded servers instead of a, b and c.
func TestCommandOfTheQuorumPageRuns(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/guide/quorum.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n    export GETSETLOCK_REDIS=\"redis://a redis://b redis://c\"\n") {
		t.Error("the page does not name three servers")
	}
	lines := commandLine.FindAllStringSubmatch(string(text), -1)
	if len(lines) != 1 {
		t.Fatalf("the page has %d command lines", len(lines))
	}
	s, _ := clitest.Quorum(t, 3)
	t.Chdir(t.TempDir())
	script := "#!/bin/sh\necho backup of $GETSETLOCK_KEY\n"
	if err := os.WriteFile("backup.sh", []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Want(s.Run(strings.Fields(lines[0][1])...), 0, "backup of nightly\n", "")
}
