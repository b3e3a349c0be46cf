// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// watched is a ls --watch that has looked once.
type watched struct {
	*clitest.Started
	s     *clitest.Stage
	clock *redistest.Clock
	wire  *redistest.Wire
	asked int
	read  int
}

func startWatch(t *testing.T, s *clitest.Stage, flags ...string) *watched {
	t.Helper()
	clock := s.World.Clock(redistest.Skew{})
	wire := s.World.Wire()
	s.Clock, s.Vars["GETSETLOCK_REDIS"] = clock, "redis://"+wire.Listen()
	w := &watched{s: s, clock: clock, wire: wire, asked: 1}
	w.Started = s.Start(append([]string{"ls", "--watch"}, flags...)...)
	if s.Columns > 0 {
		w.asked++ // for the next drawing
	}
	clock.AwaitAsked(w.asked)
	return w
}

// look lets time pass until the next look is over, and returns what was printed
// since the last call.
func (w *watched) look() string {
	w.s.World.Pass(lookEvery)
	w.asked++
	w.clock.AwaitAsked(w.asked)
	return w.more()
}

func (w *watched) more() string {
	text := w.Out.String()[w.read:]
	w.read += len(text)
	return text
}

// end types ^C, and returns what was printed last.
func (w *watched) end(t *testing.T) string {
	t.Helper()
	w.s.Signal(os.Interrupt)
	got := <-w.Done
	if got.Code != 130 || got.Errors != "" {
		t.Errorf("it ended with %d, %q", got.Code, got.Errors)
	}
	return w.more()
}

func TestWatchPrintsChangesAsLines(t *testing.T) {
	s := clitest.NewStage(t)
	m := s.World.Mini
	at := func(d time.Duration) string { return clitest.StampOf(s.World.ServerNow().Add(d)) }
	token := func(key, value string) {
		m.Set(key, value)
		m.SetTTL(key, time.Minute)
	}
	m.Set("old", at(3*time.Second))
	token("k", clitest.Token+" host7 backup.sh")
	w := startWatch(t, s)
	want := func(got string, lines ...string) {
		t.Helper()
		got = regexp.MustCompile(`(?m)^2026-03-02T12:00:\d\d\.\d\d\dZ `).ReplaceAllString(got, "")
		if got != strings.Join(lines, "") {
			t.Errorf("%q, want %q", got, lines)
		}
	}
	want(w.more(), "held    k by host7 backup.sh, left 1m0s\n", "held    old by -, left 3s\n")
	token("k", clitest.Token+" host7 backup.sh") // renewed
	want(w.look())
	token("k", "AAAAAAAAAAAAAAAAAAAAAA host8 backup.sh")
	want(w.look(), "taken   k by host8 backup.sh, left 58s\n", "expired old by -, left -1s\n")
	m.Set("old", at(30*time.Second))
	token("new", clitest.Token)
	m.Del("k")
	want(w.look(), "taken   new by "+clitest.Token+", left 58s\n", "changed old by -, left 28s\n",
		"free    k, was held by host8 backup.sh\n")
	want(w.end(t))
}

// A server that goes away ends nothing: the watch says it once, and once that
// the server is back.
func TestWatchGoesOnWithoutAServer(t *testing.T) {
	s := clitest.NewStage(t)
	w := startWatch(t, s)
	if got := w.more(); !strings.HasSuffix(got, "Z free    no locks found\n") {
		t.Errorf("%q", got)
	}
	w.wire.Fault(redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Refuse})
	w.wire.Cut()
	if got := w.look(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "Z away    redis://") ||
		!strings.HasSuffix(got, "; the last look is 2s old\n") {
		t.Errorf("%q", got)
	}
	if got := w.look(); got != "" {
		t.Errorf("said again: %q", got)
	}
	w.wire.Calm()
	s.World.Mini.Set("k", clitest.StampOf(s.World.ServerNow().Add(time.Minute)))
	if got := w.look(); !strings.Contains(got, "Z back    redis://") ||
		!strings.Contains(got, ", after 6s\n") ||
		!strings.Contains(got, "taken   k") {
		t.Errorf("%q", got)
	}
	w.end(t)
}

// pictures returns what a terminal showed after each drawing.
func pictures(text string) (all []string) {
	for _, part := range strings.Split(text, "\r\x1b[2K") {
		all = append(all, strings.ReplaceAll(part, "\x1b[1A\x1b[2K", ""))
	}
	return all
}

func TestWatchDrawsATableAndItsAge(t *testing.T) {
	s := clitest.NewStage(t)
	s.Columns = 60
	s.Vars["NO_COLOR"] = "1"
	s.World.Mini.Set("k", clitest.Token+" host7 backup.sh")
	s.World.Mini.SetTTL("k", time.Minute)
	w := startWatch(t, s)
	first := pictures(w.more())
	if got := first[len(first)-1]; !strings.HasPrefix(got, "1 lock on redis://") ||
		!strings.Contains(got, "looked 0s ago\nKEY ") || !strings.Contains(got, " >0s ") {
		t.Errorf("%q", got)
	}
	draw := func() string { // the next drawing without a look
		s.World.Pass(time.Second)
		w.asked++
		w.clock.AwaitAsked(w.asked)
		all := pictures(w.more())
		return all[len(all)-1]
	}
	if got := draw(); !strings.Contains(got, ", looked 1s ago\n") {
		t.Errorf("%q", got)
	}
	w.wire.Fault(redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Refuse})
	w.wire.Cut()
	s.World.Pass(time.Second)
	w.asked += 2 // the look, and the next drawing
	w.clock.AwaitAsked(w.asked)
	if got := draw(); !strings.HasPrefix(got, "NO ANSWER, the picture is 3s old: ") ||
		!strings.Contains(got, "\nk ") {
		t.Errorf("%q", got)
	}
	for _, picture := range pictures(w.end(t)) {
		if strings.Contains(picture, "\x1b") {
			t.Errorf("an escape is left: %q", picture)
		}
	}
	for _, line := range strings.Split(strings.Join(pictures(w.Out.String()), "\n"), "\n") {
		if len([]rune(line)) > 59 {
			t.Errorf("it would wrap: %q", line)
		}
	}
}

// The age of a lock is known where the watch saw it being taken; that of one
// that was there before is known to be more.
func TestWatchKnowsAgesOfWhatItSaw(t *testing.T) {
	s := clitest.NewStage(t)
	s.Columns = 200
	set := func(key, token string) {
		s.World.Mini.Set(key, token)
		s.World.Mini.SetTTL(key, time.Hour)
	}
	set("before", clitest.Token)
	set("robbed", clitest.Token)
	w := startWatch(t, s)
	set("robbed", "AAAAAAAAAAAAAAAAAAAAAA")
	set("taken", clitest.Token)
	for range 3 { // looks after 2, 4 and 6 s; drawings each second
		s.World.Pass(time.Second)
		w.asked++
		w.clock.AwaitAsked(w.asked)
		s.World.Pass(time.Second)
		w.asked += 2
		w.clock.AwaitAsked(w.asked)
	}
	w.end(t)
	all := pictures(w.Out.String())
	last := all[len(all)-1]
	for key, age := range map[string]string{"before": ">6s", "robbed": "4s", "taken": "4s"} {
		if !regexp.MustCompile(`(?m)^` + key + ` .* ` + age + ` `).MatchString(last) {
			t.Errorf("%s is not %s old:\n%s", key, age, last)
		}
	}
}

func TestWatchRefusesJSONAndAMissingServer(t *testing.T) {
	s := clitest.NewStage(t)
	s.Want(s.Run("ls", "--watch", "--json"), 2, "", "--watch has no end")
	s.Vars["GETSETLOCK_REDIS"] = "redis://127.0.0.1:1"
	s.Want(s.Run("ls", "--watch"), 3, "", "listing the keys of redis://127.0.0.1:1: ")
}

// A watch whose lines cannot be printed has no purpose.
func TestWatchEndsWhenItsLinesAreLost(t *testing.T) {
	s := clitest.NewStage(t)
	s.Stdout = clitest.Full{}
	s.Want(s.Run("ls", "--watch"), 3, "", "no space left on device")
}
