// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
)

// Nobody holds a key that a release left to old clients, and unlock has nothing
// to do.
func TestLsShowsAKeyLeftToOldClients(t *testing.T) {
	s := clitest.NewStage(t)
	m := s.World.Mini
	for _, key := range []string{"free", "taken"} {
		m.Set(legacy.MarkKey(key), polite.Value(clitest.Token))
		m.SetTTL(legacy.MarkKey(key), 120*time.Millisecond)
	}
	m.Set("taken", clitest.StampOf(redistest.Start.Add(40*time.Second)))
	const note = "nobody holds it; left to old clients for 120 ms"
	for _, args := range [][]string{{"ls", "--json"}, {"ls", "*", "--json"}} {
		locks := clitest.AnswerOf(t, s.Run(args...)).All("locks")
		if len(locks) != 2 {
			t.Fatalf("%v: %v", args, locks)
		}
		left, taken := locks[1], locks[0]
		if left.At("key") != "{free}:gsl" {
			left, taken = taken, left
		}
		if left.At("state") != StateLeft || left.At("owner") != nil || left.At("protocol") != nil ||
			left.At("note") != note {
			t.Errorf("%v: %v", args, left)
		}
		if taken.At("key") != "taken" || taken.At("state") != StateHeld || taken.At("protocol") != "legacy" ||
			taken.At("owner") != nil {
			t.Errorf("%v: %v", args, taken)
		}
	}
	if got := s.Run("ls", "free").Out; !strings.Contains(got, note) {
		t.Error(got)
	}
	s.Interactive, s.Stdin = true, "y\n"
	s.Want(s.Run("unlock", "free"), 0, "free: "+note+"\n", "")
	s.Want(s.Run("unlock", "free", "--value", clitest.Token), 1, "", "nothing was deleted")
	if !m.Exists("{free}:gsl") {
		t.Error("the gap was deleted")
	}
	s.Want(s.Run("unlock", "taken"), 0, "deleted taken\n", "Delete it?")
	if got := s.Run("ls", "taken").Out; !strings.Contains(got, note) {
		t.Error(got)
	}
}
