// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// ls takes a pattern, in which a backslash or \xNN makes a character a letter.
// unlock takes a key, in which a star is a star.
func TestKeysMayHavePatternCharacters(t *testing.T) {
	s := clitest.NewStage(t)
	stamp := clitest.StampOf(redistest.Start.Add(time.Minute))
	s.World.Mini.Set("axb?", stamp)
	for _, args := range [][]string{
		{"a*b?", "-y"}, {`a\x2ab\x3f`, "-y"}, {"a*b?", "--value", stamp},
	} {
		s.World.Mini.Set("a*b?", stamp)
		got := s.Run(append([]string{"unlock"}, args...)...)
		if got.Code != 0 || got.Out != "deleted a*b?\n" || !s.World.Mini.Exists("axb?") {
			t.Errorf("%q: %+v", args, got)
		}
	}
	s.Want(s.Run("unlock", "-y", "axb*"), 0, "axb* is free\n", "unlock takes one key and no pattern")
	s.World.Mini.Set(`a\b`, stamp)
	s.Want(s.Run("unlock", `a\\b`, "-y"), 0, "deleted a\\\\b\n", "is held")
	for pattern, keys := range map[string]int{
		`a\x2ab?`: 0, `ax\x62?`: 1, `a[x-z]b?`: 1, `a[\x5d\-x]b?`: 1, `a[^x]b?`: 0} {
		if locks := clitest.AnswerOf(t, s.Run("ls", pattern, "--json")).All("locks"); len(locks) != keys {
			t.Errorf("ls %s: %v", pattern, locks)
		}
	}
}

// Nobody can answer without a terminal, so that needs --yes.
func TestUnlockNeedsYesWithoutATerminal(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.Set("k", clitest.StampOf(redistest.Start.Add(time.Minute)))
	s.Want(s.Run("unlock", "k"), 2, "", "give the value to delete by --value, as ls shows it, or --yes")
	s.Want(s.Run("unlock", "k", "-y"), 0, "deleted k\n", "k is held, in dialect Jedis")
}
