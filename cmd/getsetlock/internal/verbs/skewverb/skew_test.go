// SPDX-License-Identifier: Apache-2.0

package skewverb

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse/dist"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
	"github.com/getsetlock/getsetlock/lock"
)

func init() { simEvents, exploreStates = 1<<18, 50_000 }

// skewed runs the verb without any server.
func skewed(t *testing.T, args ...string) clitest.Screen {
	t.Helper()
	s := &clitest.Stage{T: t, Clock: lock.Machine}
	return s.Run(append([]string{"skew"}, args...)...)
}

// simulated are the sentence and the table of a simulation.
var simulated = regexp.MustCompile(`(?m)^Simulated: .*\n|(?s)^SIMULATED .*?\n\n`)

func TestSkewAnswersWhatTheTranscriptSays(t *testing.T) {
	clitest.Transcript(t, "testdata/answers.txt", func(args ...string) clitest.Screen {
		got := (&clitest.Stage{T: t, Clock: lock.Machine}).Run(append(args, "-q")...)
		got.Out = simulated.ReplaceAllString(got.Out, "")
		return got
	})
}

// An unknown value is null, and not 0.
func TestSkewDocumentHasNullForNoLimit(t *testing.T) {
	got := skewed(t, strings.Fields("--dialect bare --job 7h --json")...)
	for _, want := range []string{`"recovery_ms": null`, `"longest_safe_job_ms": null`,
		`"greatest_safe_spread_ms": null`, `"explore": null`, `"preset": null`} {
		if got.Code != 0 || !strings.Contains(got.Out, want) {
			t.Errorf("code %d, no %s in\n%s", got.Code, want, got.Out)
		}
	}
}

// Rounding to ticks must not carry a fleet over the law's limit, in either
// direction.
func TestExplorerSaysWhatTheLawSays(t *testing.T) {
	old := exploreStates
	t.Cleanup(func() { exploreStates = old })
	exploreStates = 600_000
	for _, args := range []string{
		"--job 59s", "--job 60s", "--job 61s", "--job 20s --delay 39s", "--job 20s --delay 41s",
		"--job 1ms --delay 50s --spread 9s",
		"--job 1ms --delay 50s --spread 11s", "--job 1s --spread 58s", "--job 1s --spread 60s",
		"--job 1s --spread 10m", "--job 1h",
		"--dialect page --lease 60s --job 10s --delay 20s",
		"--dialect page --lease 60s --job 10s --delay 21s",
		"--dialect page --lease 60s --job 10s --delay 50s",
		"--dialect redisobjects --lease 60s --job 10s --delay 15s --spread 15s",
		"--dialect redisobjects --lease 60s --job 1s --delay 28s",
		"--dialect redisobjects --lease 60s --job 40s --delay 10s --spread 20s",
		"--dialect pageget --lease 60s --job 1s --delay 16s --spread 15s",
		"--dialect redispy --lease 60s --job 59s --delay 1s",
		"--dialect redismutex --lease 60s --job 60s --delay 1s", "--dialect setdel --lease 3s --job 3s",
		"--dialect setdel --lease 3s --job 4s", "--dialect errorception --job 4s --spread 1s",
		"--dialect errorception --job 4s --spread 1001ms",
	} {
		if raced.On && args != "--job 61s" {
			continue // searches have no goroutines; make test runs all of them without the detector
		}
		got := skewed(t, append(strings.Fields(args), "--json", "--explore", "--quiet")...)
		doc := clitest.AnswerOf(t, got)
		if safe := doc.At("explore.safe"); safe == nil || safe == doc.At("law.two_holders") {
			t.Errorf("%s: %v", args, doc)
		}
	}
}

func TestSkewNamesJumpsAsTheCause(t *testing.T) {
	for preset, says := range map[string]string{
		"leap": "The problem is jumps of clocks", "boot": "The problem is skew"} {
		got := skewed(t, "--job", "500ms", "--lease", "1s", "--preset", preset)
		if got.Code != 1 || !strings.Contains(got.Out, says) {
			t.Errorf("%s: code %d\n%s%s", preset, got.Code, got.Out, got.Errors)
		}
	}
	got := skewed(t, "--job", "1s", "--lease", "30s", "--preset", "vm-pause")
	if got.Code != 1 || !strings.Contains(got.Out, "The problem is long pauses") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
}

// The longest job alone would do it; nearly always it is the clocks.
func TestSkewBlamesWhatMostlyHappens(t *testing.T) {
	got := skewed(t, "--job", "exp:10s", "--preset", "jepsen", "--json")
	if !strings.Contains(got.Out, `"cause": "skew"`) {
		t.Errorf("%s", got.Out)
	}
	got = skewed(t, "--job", "exp:10s", "--preset", "jepsen")
	if !strings.Contains(got.Out, "The problem is skew: it causes most of the simulated episodes.") {
		t.Errorf("%s", got.Out)
	}
}

func TestSkewStopsWhenItIsInterrupted(t *testing.T) {
	job, err := dist.Parse("10s")
	if err != nil {
		t.Fatal(err)
	}
	q := skewQuestion{protocol: "verbatim", dialect: dialect.Jedis(), job: job, latency: usualLatency,
		clients: 8}
	a, err := q.answer()
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancelCause(t.Context())
	end(out.Interrupted{By: os.Interrupt})
	for name, part := range map[string]func(*out.Env, context.Context, bool) error{
		"simulating": a.simulate, "exploring": a.explore,
	} {
		if err := part(&out.Env{}, ctx, true); err == nil ||
			!strings.Contains(err.Error(), name+": interrupted by") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSkewHelpNamesPresetsAndTheirSources(t *testing.T) {
	got := skewed(t, "--help")
	for _, word := range []string{"timesyncd", "systemd-timesyncd steps", "vm-pause", "Azure", "Assumed:",
		"lognormal:", "--explore"} {
		if got.Code != 0 || !strings.Contains(got.Out, word) {
			t.Errorf("--help does not mention %s", word)
		}
	}
}

func TestSkewGivesOneAnswerForASeed(t *testing.T) {
	run := func(seed string) string {
		return skewed(t, "--job", "lognormal:p50=5s,p99=40s", "--seed", seed, "--json").Out
	}
	first := run("7")
	if run("7") != first {
		t.Error("the same seed gave two answers")
	}
	if run("8") == first {
		t.Error("the seed changes nothing")
	}
}

func TestSkewReadsMeasuredHolds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "holds")
	if err := os.WriteFile(file, []byte("getsetlock.observed/1\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := skewed(t, "--trace", file); got.Code != 2 || !strings.Contains(got.Errors, "line 2") {
		t.Errorf("a broken record: %+v", got)
	}
	const record = "getsetlock.observed/1\n" +
		`{"at":"2026-02-02T02:40:00Z","kind":"hold","addr":"10.0.0.1:50","key":"k","for_ns":5000000000}` + "\n" +
		`{"at":"2026-02-02T02:40:10Z","kind":"hold","addr":"10.0.0.1:50","key":"k","for_ns":70000000000}` + "\n"
	if err := os.WriteFile(file, []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	got := skewed(t, "--trace", file)
	if got.Code != 1 || !strings.Contains(got.Out, "a job may run for 1m10s") ||
		!strings.Contains(got.Out, "50.0 % of jobs") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
}

// The document's examples show what the command prints. A simulation's figures
// may differ by machine.
func TestDocumentedAnswersAreTheCommands(t *testing.T) {
	text, err := os.ReadFile("../../../../../docs/guide/clocks.md")
	if err != nil {
		t.Fatal(err)
	}
	const prompt = "    $ getsetlock skew "
	examples := strings.Split(string(text), prompt)[1:]
	for _, example := range examples {
		line, rest, _ := strings.Cut(example, "\n")
		got := skewed(t, strings.Fields(line)...)
		for said := range strings.SplitSeq(rest, "\n") {
			said, indented := strings.CutPrefix(said, "    ")
			if !indented {
				break
			}
			if !strings.HasPrefix(said, "Simulated:") &&
				!strings.Contains(got.Out, strings.TrimSuffix(said, " …")) {
				t.Errorf("skew %s does not say %q, but\n%s%s", line, said, got.Out, got.Errors)
			}
		}
	}
	if len(examples) < 4 {
		t.Errorf("only %d examples", len(examples))
	}
}

// The way to two holders comes before how often it happens.
func TestReportIsOnePageOfTablesAndTimeline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skew.html")
	got := skewed(t, "--lease", "30s", "--job", "5s..40s", "--spread", "400ms", "--report", file)
	if got.Code != 1 || !strings.HasSuffix(got.Errors, "getsetlock: wrote the report to "+file+"\n") {
		t.Fatalf("code %d, %s", got.Code, got.Errors)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rest := string(page)
	for _, says := range []string{
		"YES: two clients can hold", "<time datetime=", "<p>Why: ",
		"<h2>The shortest way to two holders</h2>", "<h2>The simulation</h2>", "<h2>The numbers</h2>",
	} {
		_, after, found := strings.Cut(rest, says)
		if rest = after; !found {
			t.Fatalf("no %q where it should be", says)
		}
	}
	for title, figures := range map[string][]string{
		"The simulation": {"gave up waiting", "attempts gave up</title><rect class=\"range"},
		"The shortest way to two holders": {
			"<title>old1 holds</title>", "<title>old2 holds</title>", "<title>two hold</title>"},
	} {
		_, section, found := strings.Cut(string(page), title)
		section, _, _ = strings.Cut(section, "</section>")
		if !found || !strings.Contains(section, "<table") || !strings.Contains(section, "<svg xmlns") {
			t.Errorf("section %q: %s", title, section)
		}
		for _, figure := range figures {
			if !strings.Contains(section, figure) {
				t.Errorf("section %q is without %s:\n%s", title, figure, section)
			}
		}
	}
}

func TestReportThatCannotBeWrittenIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "no", "skew.html")
	got := skewed(t, "--job", "5s", "--report", file)
	if got.Code != 3 || got.Out != "" || !strings.Contains(got.Errors, "writing --report "+file) ||
		!strings.Contains(got.Errors, "no such file or directory") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
}

// The verdict and the reasons below it concern the same day of clocks: where
// the law says NO, the simulation finds no two holders.
func TestSimulationOfAPresetAsksTheLawsQuestion(t *testing.T) {
	events := simEvents
	simEvents = 3_000_000 // weeks
	t.Cleanup(func() { simEvents = events })
	for _, preset := range []string{"free-run", "slewing", "timesyncd"} {
		got := skewed(t, "--preset", preset, "--lease", "12s", "--job", "1s", "--quiet")
		if got.Code != 0 || !strings.HasPrefix(got.Out, "NO: ") {
			t.Errorf("%s: exit %d\n%s", preset, got.Code, got.Out)
		}
	}
}
