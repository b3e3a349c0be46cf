// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// A record of a live server, read again, gives what the watch found.
func TestReplayGivesTheSameFindings(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.SetTime(time.Time{})
	s.World.Mini.Set("lock:a", fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()))
	file := filepath.Join(t.TempDir(), "record.txt")
	live := clitest.AnswerOf(t,
		s.Run("audit", "--match", "lock:*", "--for", "300ms", "--json", "--record", file))
	again := clitest.AnswerOf(t, s.Run("audit", "--match", "lock:*", "--json", "--replay", file))
	if live.At("cost") == nil || again.At("cost") != nil {
		t.Errorf("only a live server has a cost: %v, replayed %v", live.At("cost"), again.At("cost"))
	}
	for _, part := range []string{"findings", "dialects", "counts"} {
		if was, is := live.At(part), again.At(part); !reflect.DeepEqual(was, is) {
			t.Errorf("%s: live\n%v\nreplayed\n%v", part, was, is)
		}
	}
}

// A claim holds until what was seen refutes it: a clock of the demo's fleet is
// 7.3 s ahead. The flag wins over the environment.
func TestAuditTakesClaimsAndRefutesThem(t *testing.T) {
	for _, c := range []struct {
		environment string
		args        []string
		ahead       any
		refuted     bool
	}{
		{"", nil, nil, false},
		{"10s", nil, 10000.0, false},
		{"10s", []string{"--ahead", "1s"}, nil, true},
		{"", []string{"--ahead", "8s"}, 8000.0, false},
	} {
		s := clitest.NewStage(t)
		s.Vars = map[string]string{out.EnvAhead: c.environment}
		args := append([]string{"audit", "--demo", "--json", "--lease", "10s", "--gap", "500ms"}, c.args...)
		doc := clitest.AnswerOf(t, s.Run(args...))
		refuted := slices.ContainsFunc(doc.All("findings"),
			func(f clitest.Answer) bool { return f.At("kind") == "claim_refuted" })
		if got := doc.At("ahead_ms"); got != c.ahead || refuted != c.refuted {
			t.Errorf("environment %q, %v: %v, refuted %v", c.environment, c.args, got, refuted)
		}
	}
	s := clitest.NewStage(t)
	if got := s.Run("audit", "--demo", "--ahead", "1s", "--behind", "2s"); !strings.Contains(got.Out,
		"the claim of 1s is refuted; at least 7.3s") || !strings.Contains(got.Out, "at most 2s (claimed); ") {
		t.Error(got.Out)
	}
	s.Vars = map[string]string{out.EnvBehind: "soon"}
	if got := s.Run("audit", "--demo"); got.Code != out.CodeUse ||
		!strings.Contains(got.Errors, out.EnvBehind) {
		t.Errorf("code %d: %s", got.Code, got.Errors)
	}
}

// The demo's answer is pinned, for programs and for people. Of the page the
// style, the drawings and the date are left out.
func TestDemoGivesThePinnedAnswer(t *testing.T) {
	s := clitest.NewStage(t)
	file := filepath.Join(t.TempDir(), "demo.html")
	for name, args := range map[string][]string{"demo.txt": nil, "demo.json": {"--json"}} {
		got := s.Run(append([]string{"audit", "--demo", "--report", file}, args...)...)
		if got.Code != 1 || got.Errors != "getsetlock: wrote the report to "+file+"\n" {
			t.Errorf("code %d: %s", got.Code, got.Errors)
		}
		golden.Check(t, "testdata/"+name, got.Out)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page = regexp.MustCompile(`(?s)<time.*?</time>|<svg.*?</svg>`).ReplaceAll(page, nil)
	_, body, _ := strings.Cut(string(page), "<body>")
	golden.Check(t, "testdata/demo.html", body)
}

// The embedded server has no MONITOR and no tracking. The audit names them and
// uses the other sources.
func TestAuditNamesSourcesThatTheServerRefuses(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.SetTime(time.Time{}) // the machine's time: a frozen clock counts as one that steps
	now := time.Now()
	s.World.Mini.Set("lock:a", fmt.Sprint(now.Add(time.Minute).UnixMilli()))
	s.World.Mini.Set("lock:b", fmt.Sprint(time.Now().Add(time.Minute).Unix()))
	got := s.Run("audit", "--match", "lock:*", "--for", "300ms", "--monitor", "--json")
	doc := clitest.AnswerOf(t, got)
	missing, looked := map[any]bool{}, 0.0
	for _, source := range doc.All("sources") {
		missing[source.At("source")] = source.At("missing") != nil
		if source.At("source") == "poll" {
			looked = source.Number("events")
		}
	}
	if !missing["tracking"] || !missing["clients"] || missing["poll"] || looked == 0 {
		t.Errorf("%v", doc.At("sources"))
	}
	if got.Code != 1 || doc.At("findings.0.kind") != "mixture" || doc.At("findings.0.key") != "lock:" {
		t.Errorf("code %d, %v", got.Code, doc.At("findings"))
	}
	if len(doc.All("prefixes")) != 1 || len(doc.All("prefixes.0.forms")) != 2 || doc.Number("keys") != 2 {
		t.Errorf("%v", doc.At("prefixes"))
	}
	for _, key := range s.World.Mini.Keys() {
		if key != "lock:a" && key != "lock:b" {
			t.Errorf("left behind: %s", key)
		}
	}
}

func TestInterruptedAuditPrintsWhatItSaw(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.SetTime(time.Time{})
	s.World.Mini.Set("lock:a", fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()))
	wire := s.World.Wire()
	s.Vars["GETSETLOCK_REDIS"] = "redis://" + wire.Listen()
	file := filepath.Join(t.TempDir(), "record.txt")
	running := s.Start("audit", "--match", "lock:*", "--for", "1h", "--record", file)
	wire.Await("EVALSHA", 3)
	s.Signal(syscall.SIGINT)
	got := <-running.Done
	if got.Code != 130 || !strings.Contains(got.Out, "1 key looked at") ||
		!strings.Contains(got.Errors, "interrupted by ^C") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := offset.NewObservedReader(f)
	for err == nil {
		_, err = r.Next()
	}
	if err.Error() != "EOF" {
		t.Errorf("the record is broken: %v", err)
	}
}

// With --for 0 an interruption is the regular end of a watch.
func TestEndlessAuditEndsWellOnInterrupt(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.SetTime(time.Time{})
	s.World.Mini.Set("lock:a", fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()))
	wire := s.World.Wire()
	s.Vars["GETSETLOCK_REDIS"] = "redis://" + wire.Listen()
	running := s.Start("audit", "--for", "0", "--quiet", "--lease", "60s", "--dialect", "jedis")
	wire.Await("EVALSHA", 3)
	s.Signal(syscall.SIGINT)
	if got := <-running.Done; got.Code != 0 || got.Errors != "" {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
}

func TestAuditPrintsItsAnswerOnAFullDisk(t *testing.T) {
	s := clitest.NewStage(t)
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Fatal("this system has no /dev/full")
	}
	s.World.Mini.SetTime(time.Time{})
	s.World.Mini.Set("lock:a", fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()))
	got := s.Run("audit", "--for", "300ms", "--record", "/dev/full")
	if got.Code != 3 || !strings.Contains(got.Errors,
		"writing --record /dev/full; it ends with what was seen until then: no space left on device") ||
		!strings.Contains(got.Out, "1 key looked at") {
		t.Errorf("code %d %s", got.Code, got.Errors)
	}
}

// A user should not watch for an hour and then learn that the page cannot be
// written.
func TestAuditSaysThatItsReportCannotBeWritten(t *testing.T) {
	s := clitest.NewStage(t)
	s.Want(s.Run("audit", "--demo", "--report", "/no/such/folder/x.html"), 3, "",
		"writing --report /no/such/folder/x.html: no such file or directory")
	s.World.Mini.SetTime(time.Time{})
	s.World.Mini.Set("lock:a", fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()))
	wire := s.World.Wire()
	s.Vars["GETSETLOCK_REDIS"] = "redis://" + wire.Listen()
	folder := filepath.Join(t.TempDir(), "reports")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	running := s.Start("audit", "--for", "0", "--quiet", "--lease", "60s", "--report",
		filepath.Join(folder, "x.html"))
	wire.Await("EVALSHA", 3)
	if err := os.Remove(folder); err != nil { // no file is left in it meanwhile
		t.Fatal(err)
	}
	s.Signal(syscall.SIGINT)
	if got := <-running.Done; got.Code != 3 || !strings.Contains(got.Errors, "writing --report") ||
		!strings.Contains(got.Out, "watched ") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
}

// A server that was not watched is not reported as OK.
func TestAuditSaysThatItWatchedNothing(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.SetTime(time.Time{})
	got := s.Run("audit", "--for", "100ms", "--match", "lokc:*")
	s.Want(got, 0, got.Out, "")
	if !strings.Contains(got.Out, `no key matches "lokc:*"`) || strings.Contains(got.Out, "OK:") {
		t.Errorf("of no key at all it says\n%s", got.Out)
	}
	if got := s.Run("audit", "--for", "100ms"); !strings.Contains(got.Out, "there is no key") ||
		got.Code != 0 {
		t.Errorf("code %d, of an empty database it says\n%s", got.Code, got.Out)
	}
	// A watch sends PING at its end. A new connection sends one too, but not
	// where it selects a database.
	s.World.Mini.DB(1).Set("lock:a", fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()))
	wire := s.World.Wire(redistest.Rule{Command: "PING", Times: -1, Do: redistest.CutBefore})
	s.Vars["GETSETLOCK_REDIS"] = "redis://" + wire.Listen() + "/1"
	got = s.Run("audit", "--for", "100ms", "--quiet", "--lease", "60s", "--dialect", "jedis")
	if got.Code != 3 || !strings.Contains(got.Errors, "to the end; what was seen until then is above") ||
		!strings.Contains(got.Out, "watched ") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
}

func TestServerThatCannotAnswerIsExitCode3(t *testing.T) {
	for _, verb := range []string{"audit", "doctor"} {
		s := clitest.NewStage(t)
		for name, c := range map[string]struct {
			address, says string
		}{
			"down": {"redis://127.0.0.1:1", "nothing listens there"},
			"loading": {"redis://" +
				s.World.Wire(redistest.Rule{
					Command: "SCAN", Times: -1, Do: redistest.Answer(redistest.Loading)},
					redistest.Rule{Command: "INFO", Times: -1,
						Do: redistest.Answer(redistest.Loading)}).Listen(), "still reading its data"},
		} {
			got := s.Run(verb, "--redis", c.address, "--for=1s")
			if verb == "doctor" {
				got = s.Run(verb, "--redis", c.address)
			}
			if got.Code != 3 || !strings.Contains(got.Errors, c.says) ||
				strings.Count(got.Errors, "\n") != 1 {
				t.Errorf("%s, %s: code %d %q", verb, name, got.Code, got.Errors)
			}
		}
	}
}

func TestAuditWatchesWithoutTheRightToListKeys(t *testing.T) {
	s := clitest.NewStage(t)
	wire := s.World.Wire(redistest.Rule{Command: "SCAN", Times: -1, Do: redistest.Answer(redistest.NoPerm)})
	got := s.Run("audit", "--redis", "redis://"+wire.Listen(), "--for", "200ms", "--json")
	if doc := clitest.AnswerOf(t, got); got.Code != 1 || doc.At("findings.0.kind") != "right" {
		t.Errorf("code %d %v %s", got.Code, doc, got.Errors)
	}
}

// docs/guide/audit.md shows what the program prints.
func TestDocumentShowsWhatTheDemoPrints(t *testing.T) {
	text, err := os.ReadFile("../../../../../docs/guide/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, ok := strings.Cut(string(text), "<!-- getsetlock audit --demo -->\n")
	if !ok {
		t.Fatal("docs/guide/audit.md shows no output")
	}
	printed := map[string]bool{}
	for _, line := range strings.Split(clitest.NewStage(t).Run("audit", "--demo").Out, "\n") {
		printed[line] = true
	}
	lines := 0
	for _, line := range strings.Split(shown, "\n") {
		line, indented := strings.CutPrefix(line, "    ")
		if !indented && line != "" {
			break
		}
		if lines++; !printed[line] {
			t.Errorf("it no longer prints %q", line)
		}
	}
	if lines < 30 {
		t.Errorf("only %d lines are shown", lines)
	}
}
