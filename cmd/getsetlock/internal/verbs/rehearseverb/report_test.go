// SPDX-License-Identifier: Apache-2.0

package rehearseverb

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse"
)

var (
	madeAt      = regexp.MustCompile(`<time .*</time>`)
	firstAtZero = regexp.MustCompile(`(?s)to, ms</th></tr>.{0,30}?<tr[^>]*>(<td[^>]*>[^<]*</td>){5}<td>0\.0</td>`)
)

// The parts share one binary, which takes longest to make.
func TestReportOfARehearsal(t *testing.T) {
	binary := clitest.Built(t)
	for name, part := range map[string]func(*testing.T, string){
		"both rehearsals in order": reportInOrder, "one seed, one page": reportOfOneSeed,
		"refused first": reportRefused,
	} {
		t.Run(name, func(t *testing.T) { part(t, binary) })
	}
}

// paged rehearses with a page and returns it without its date.
func paged(t *testing.T, binary string, code int, args ...string) (clitest.Screen, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rehearse.html")
	args = append([]string{"rehearse", "--quiet", "--acquisitions", "150", "--crashes", "0",
		"--report", file}, args...)
	s := clitest.Speak(t, exec.Command(binary, args...))
	page, err := os.ReadFile(file)
	if s.Code != code || err != nil || !madeAt.Match(page) {
		t.Fatalf("%+v %v", s, err)
	}
	return s, madeAt.ReplaceAllString(string(page), "")
}

func reportInOrder(t *testing.T, binary string) {
	for protocol, c := range map[string]struct {
		code int
		with string
	}{"legacy": {0, "legacy"}, "none": {1, "legacy"}, "watch": {0, "watch"}} {
		s, page := paged(t, binary, c.code, "--protocol", protocol)
		if !strings.Contains(s.Out, "150 orders") {
			t.Errorf("%s: it prints %s", protocol, s.Out)
		}
		at := 0
		for _, says := range []string{
			"Without a lock ", " oversold; with --protocol " + c.with + " none was.", ", without a lock: ",
			`class="holds wrong"`, `<tr class="bad">`, "oversold: ",
			", with --protocol " + c.with + ": nothing oversold</h2>", `class="holds"`,
			"<h2>Both rehearsals</h2>", "units oversold", "wait p99",
		} {
			n := strings.Index(page[at:], says)
			if n < 0 {
				t.Errorf("%s: no %q after byte %d", protocol, says, at)
				break
			}
			at += n
		}
		locked := page[strings.Index(page, ", with --protocol "+c.with+": nothing"):]
		if strings.Contains(locked, `class="holds wrong"`) || strings.Contains(locked, `class="bad"`) ||
			strings.Contains(locked, `class="both"`) {
			t.Errorf("%s: something is red with %s", protocol, c.with)
		}
		// The drawings and the tables below them count from the same instant.
		if n := len(firstAtZero.FindAllString(page, -1)); n != 2 {
			t.Errorf("%s: %d of 2 tables of jobs begin at 0.0", protocol, n)
		}
		if verdict := strings.Contains(page, `<p class="verdict bad">`); verdict != (c.code == 1) {
			t.Errorf("%s: the verdict is bad: %v", protocol, verdict)
		}
	}
}

func reportOfOneSeed(t *testing.T, binary string) {
	// The printed document is the same with a page and without.
	once, page := paged(t, binary, 0, "--protocol", "watch", "--seed", "7", "--json")
	again := clitest.Speak(t, exec.Command(binary, "rehearse", "--quiet", "--acquisitions", "150",
		"--crashes", "0", "--protocol", "watch", "--seed", "7", "--json"))
	if tookHere.ReplaceAllString(once.Out, "") != tookHere.ReplaceAllString(again.Out, "") {
		t.Errorf("%s\nwithout a page\n%s", once.Out, again.Out)
	}
	if _, same := paged(t, binary, 0, "--protocol", "watch", "--seed", "7", "--json"); page != same {
		t.Error("two pages of one seed differ")
	}
	if !strings.Contains(page,
		"getsetlock rehearse --acquisitions &#39;150&#39; --crashes &#39;0&#39; --protocol &#39;watch&#39; --seed &#39;7&#39; --report FILE") {
		t.Error("the page does not say how it was made")
	}
}

func reportRefused(t *testing.T, binary string) {
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"--phases --report /no/such/folder/x.html", 3, "writing --report /no/such/folder/x.html: no such file"},
		{"--report /no/such/folder/x.html", 3, "writing --report /no/such/folder/x.html: no such file"},
		{"--report /dev", 3, "writing --report /dev: it exists and is no regular file"},
		{"--protocol none --clients 1 --report x.html", 2,
			"--report also rehearses --protocol legacy: --clients 1"},
	} {
		cmd := exec.Command(binary, append([]string{"rehearse"}, strings.Fields(c.line)...)...)
		cmd.Dir = t.TempDir()
		s := clitest.Speak(t, cmd)
		left, _ := os.ReadDir(cmd.Dir)
		if s.Code != c.code || !strings.Contains(s.Errors, c.says) || s.Out != "" || len(left) > 0 {
			t.Errorf("%s: %+v, left %v", c.line, s, left)
		}
	}
}

// The answer is printed although the page could not be made: a directory that
// was removed meanwhile stands for a full disk, and an interrupt comes in the
// second rehearsal.
func TestAnswerIsPrintedWithoutItsPage(t *testing.T) {
	was := embedded
	t.Cleanup(func() { embedded = was })
	for name, c := range map[string]struct {
		code  int
		says  string
		event func(s *clitest.Stage, dir string)
	}{
		"full disk": {3, "writing --report", func(_ *clitest.Stage, dir string) { _ = os.Remove(dir) }},
		"interrupt": {130, "interrupted", func(s *clitest.Stage, _ string) { s.Signal(syscall.SIGINT) }},
	} {
		s, dir := clitest.NewStage(t), filepath.Join(t.TempDir(), "pages")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		begun := 0
		embedded = func(ctx context.Context, p rehearse.Plan, _ func(rehearse.Progress)) (*rehearse.Result,
			error) {
			if begun++; begun == 2 {
				c.event(s, dir)
				if name == "interrupt" {
					<-ctx.Done()
				}
			}
			res := &rehearse.Result{Protocol: p.Protocol, Orders: p.Acquisitions}
			res.History = &rehearse.History{}
			return res, context.Cause(ctx)
		}
		got := s.Run("rehearse", "--quiet", "--protocol", "watch", "--acquisitions", "60", "--report",
			filepath.Join(dir, "x.html"))
		left, _ := os.ReadDir(dir)
		if got.Code != c.code || !strings.Contains(got.Errors, c.says) || begun != 2 ||
			!strings.Contains(got.Out, "60 orders: ") || len(left) > 0 {
			t.Errorf("%s: code %d, left %v\n%s%s", name, got.Code, left, got.Out, got.Errors)
		}
	}
}

// The phases of a migration are bars, a step is marked in the row of the phase
// that it leads to, and only a step that should have been taken is red.
func TestPageOfPhasesShowsWaitsAndRefusals(t *testing.T) {
	hour := float64(time.Hour / time.Millisecond)
	res := &rehearse.Result{Orders: 7, Phases: []rehearse.Phase{
		{Phase: "observe", ToMS: 3 * hour},
		{Phase: "dual", FromMS: 3 * hour, ToMS: 5 * hour}},
		Waits: []rehearse.Wait{{To: "dual", FromMS: 3*hour - 9000, ToMS: 3 * hour, Rules: []string{"phase"},
			Members: 1, Window: "no attempt for 2m"}},
		Refusals: []rehearse.Refusal{{To: "dual", AtMS: hour, Expected: true, Rules: []string{"gap"}},
			{To: "clean", AtMS: 2 * hour, Rules: []string{"window"}, Detail: "an <old> client"}}}
	var b strings.Builder
	if err := phasesPage(res, "by hand", time.Time{}).Write(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, says := range []string{
		`<p class="verdict bad">BAD: the gate to clean stayed closed.`, "time since the beginning, hours</text>",
		"<title>dual from 3h0m0s to 5h0m0s</title>", ">9s</text>", "its gate was closed by: phase</title>",
		`class="said wrong">refused</text>`, `class="said">refused</text>`, "an &lt;old&gt; client",
		"1 member acts by the phase before; no attempt for 2m</td>", "Made by: by hand",
	} {
		if !strings.Contains(page, says) {
			t.Errorf("the page is without %s", says)
		}
	}
	if n := strings.Count(page, `<tr class="bad">`); n != 1 {
		t.Errorf("%d red rows", n)
	}
}
