// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// A line as wide as the terminal would wrap on some. Columns that say nothing
// of any lock go first, then the less important ones.
func TestLsChoosesColumnsByTheWidth(t *testing.T) {
	s := furnished(t)
	s.Vars["NO_COLOR"] = "1"
	all := strings.Fields("KEY STATE PROTOCOL DIALECT OWNER AGE LEFT WAITERS TTL FENCE VALUE")
	for width, columns := range map[int]string{
		50:  "KEY STATE OWNER LEFT",
		60:  "KEY STATE OWNER LEFT WAITERS",
		80:  "KEY STATE PROTOCOL OWNER LEFT WAITERS TTL",
		200: strings.Join(all, " "),
	} {
		s.Columns = width
		got := s.Run("ls", "-q") // or a slow machine draws a bar
		s.Want(got, 0, got.Out, "")
		lines := strings.Split(strings.TrimSpace(got.Out), "\n")
		if len(lines) != 17 {
			t.Errorf("%d lines", len(lines))
		}
		if got := strings.Join(strings.Fields(lines[0]), " "); got != columns {
			t.Errorf("%d columns show %s, want %s", width, got, columns)
		}
		for _, line := range lines {
			if text.StringWidthWithoutEscSequences(line) >= width {
				t.Errorf("wider than %d: %q", width, line)
			}
		}
	}
	s.Columns = 50
	wide := s.Run("ls", "--wide")
	if got := strings.Fields(strings.Split(wide.Out, "\n")[0]); !slices.Equal(got, all) {
		t.Errorf("--wide shows %q", got)
	}
	s.Columns = 0
	s.Want(s.Run("ls"), 0, wide.Out, "")
}

// Chinese characters take two columns each.
func TestLsMeasuresWideCharacters(t *testing.T) {
	s := clitest.NewStage(t)
	s.Columns = 50
	s.World.Mini.Set(strings.Repeat("库存", 30)+"1", clitest.StampOf(redistest.Start.Add(time.Minute)))
	got := s.Run("ls", "--wide=false").Out
	for _, line := range strings.Split(got, "\n") {
		if text.StringWidthWithoutEscSequences(line) >= 50 {
			t.Errorf("%q", line)
		}
	}
	if !strings.Contains(got, "…") || !strings.Contains(got, "存1 ") {
		t.Errorf("the key is not cut in its middle: %s", got)
	}
}

func TestColoursAreOnTerminalsAndMeanSomething(t *testing.T) {
	s := furnished(t)
	s.Columns = 200
	got := s.Run("ls").Out
	for key, state := range map[string]string{
		"crashed": "\x1b[33mexpired\x1b[0m", "{lost}:gsl": "\x1b[31mheld\x1b[0m", "uuid": "held ",
	} {
		found := slices.ContainsFunc(strings.Split(got, "\n"), func(line string) bool {
			return strings.HasPrefix(line, key+" ") && strings.Contains(line, " "+state)
		})
		if !found {
			t.Errorf("%s: not %q in\n%s", key, state, got)
		}
	}
	if n := strings.Count(got, "\x1b["); n != 4 {
		t.Errorf("%d escapes", n)
	}
	for name, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
		s.Vars[name] = value
		if got := s.Run("ls").Out; strings.Contains(got, "\x1b") {
			t.Errorf("coloured in spite of %s=%s", name, value)
		}
		delete(s.Vars, name)
	}
	s.Columns = 0
	if got := s.Run("ls").Out; strings.Contains(got, "\x1b") {
		t.Error("coloured without a terminal")
	}
}

// A place counts for 15 s after it came, and after each of its tries. A killed
// waiter's place stays in the set, and does not count.
func TestLsCountsWaitersThatLive(t *testing.T) {
	s := furnished(t)
	m, now := s.World.Mini, float64(redistest.Start.UnixMicro())
	place := func(n int) string { return fmt.Sprintf("process%d AAAAAAAAAAAAAAAAAAAAA%d", n, n) }
	for n, come := range []float64{now - 1e6, now - 14e6, now - 16e6, now - 60e6, now - 60e6} {
		m.ZAdd("gsl:queue:shop%3A:{token}", come, place(n))
	}
	for n, until := range map[int]float64{1: now + 9e6, 3: now + 1e6, 4: now + 90e6} {
		m.ZAdd("gsl:alive:shop%3A:{token}", until, place(n))
	}
	m.ZAdd("gsl:queue:shop%3A:{token}", now, "alien")
	m.Set("gsl:fence:shop%3A:{vu6}", "42")
	m.Set("gsl:fence:text:{vu6}", "none")
	for namespace, want := range map[string][2]any{"shop:": {3.0, 42.0}, "text": {0.0, nil},
		"nobody's": {0.0, nil}} {
		l := clitest.AnswerOf(t, s.Run("ls", "token", "--json", "--namespace", namespace))
		if got := [2]any{l.At("locks.0.waiters"), l.At("locks.0.fence")}; got != want ||
			len(l.All("locks")) != 1 {
			t.Errorf("%s: waiters and fence %v, want %v", namespace, got, want)
		}
	}
}

// What the user may not read is unknown, and everything else is shown.
func TestLsWithoutRightsShowsNullWaiters(t *testing.T) {
	s := furnished(t)
	wire := s.World.Wire(
		redistest.Rule{Command: "ZRANGEBYSCORE", Times: -1, Do: redistest.Answer(redistest.NoPerm)},
		redistest.Rule{Command: "GET", Times: -1, Do: redistest.Answer(redistest.NoPerm),
			When: func(c redistest.Command) bool { return strings.Contains(c.String(), "gsl:fence:") }})
	s.Vars["GETSETLOCK_REDIS"] = "redis://" + wire.Listen()
	locks := clitest.AnswerOf(t, s.Run("ls", "--json")).All("locks")
	if len(locks) != 16 {
		t.Errorf("%d locks", len(locks))
	}
	for _, l := range locks {
		if l.At("waiters") != nil || l.At("fence") != nil {
			t.Error(l)
		}
	}
	if wire.Count("ZRANGEBYSCORE") != 4 {
		t.Error("nobody asked for the queues")
	}
}

// A client that does not renew wrote its stamp a lease before the stamp's time.
func TestLsKnowsAgesFromTheLease(t *testing.T) {
	s := furnished(t)
	want := map[any]any{"stock": 10000.0, "crashed": 3660000.0, "uuid": nil, "ours": nil, "far": nil,
		"token": nil, "lost": nil}
	for _, l := range clitest.AnswerOf(t, s.Run("ls", "--json", "--lease", "60s")).All("locks") {
		if expected, named := want[l.At("key")]; named && l.At("age_ms") != expected {
			t.Errorf("%s: %v ms old, want %v", l.At("key"), l.At("age_ms"), expected)
		}
	}
	if got := s.Run("ls", "--lease", "60s"); !strings.Contains(got.Out, " 10s ") ||
		strings.Contains(got.Out, ">") {
		t.Error(got.Out)
	}
	s.Want(s.Run("ls", "--lease", "0s"), 2, "", "leave the flag out where it is unknown")
}
