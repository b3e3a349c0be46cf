// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

// Wrong use takes no lock, prints no answer, and is answered by one line that
// says what to write instead.
func TestRefusedCommandLinesSayWhatToWrite(t *testing.T) {
	s := clitest.NewStage(t)
	clitest.WithMemory(s)
	clitest.Transcript(t, "testdata/refused.txt", func(args ...string) clitest.Screen {
		got := s.Run(args...)
		if got.Code == 0 || got.Out != "" || strings.Count(got.Errors, "\n") != 1 ||
			strings.Contains(got.Errors, "s3cret") {
			t.Errorf("%q: %+v", args, got)
		}
		return got
	})
	if keys := s.World.Mini.Keys(); len(keys) != 0 {
		t.Errorf("left behind: %v", keys)
	}
}
