// SPDX-License-Identifier: Apache-2.0

package migrateverb

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// troupe is a stage with programs that joined. A wait there lets time pass, and
// all members beat.
type troupe struct {
	*clitest.Stage
	members []*migrate.Member // members that are alive
	ids     []string          // ids of all that ever joined
}

func newTroupe(t *testing.T) *troupe {
	tr := &troupe{Stage: clitest.NewStage(t)}
	tr.Clock = passing{tr, tr.World.Clock(redistest.Skew{})}
	return tr
}

// passing is the clock of commands: a wait lets time pass for all.
type passing struct {
	tr *troupe
	*redistest.Clock
}

func (p passing) After(d time.Duration) <-chan time.Time {
	p.tr.pass(d)
	now := make(chan time.Time, 1)
	now <- p.Now()
	return now
}

// still is a clock whose timers never fire, so that the test decides when
// heartbeats come.
type still struct{ *redistest.Clock }

func (still) After(time.Duration) <-chan time.Time { return nil }

func (tr *troupe) pass(d time.Duration) {
	tr.T.Helper()
	tr.World.Pass(d)
	for _, m := range tr.members {
		if err := m.Refresh(context.Background()); err != nil {
			tr.T.Error(err)
		}
	}
}

// join adds a program whose scripts work. Its id is greater than those before.
func (tr *troupe) join(namespace, name string) *migrate.Member {
	tr.T.Helper()
	return tr.composes(namespace, name, "")
}

// composes is join for a program that composes its locks with a target.
func (tr *troupe) composes(namespace, name, target string) *migrate.Member {
	tr.T.Helper()
	for {
		m, err := migrate.Join(context.Background(), tr.World.Pool(), migrate.MemberConfig{
			Namespace: namespace, Name: name, Target: target,
			Clock: still{tr.World.Clock(redistest.Skew{})},
		})
		if err != nil {
			tr.T.Fatal(err)
		}
		if n := len(tr.members); n > 0 && m.ID() < tr.members[n-1].ID() {
			if err := m.Goodbye(context.Background()); err != nil {
				tr.T.Fatal(err)
			}
			continue
		}
		m.Attach(func(context.Context, string) error { return nil })
		tr.T.Cleanup(func() { _ = m.Leave() })
		tr.members, tr.ids = append(tr.members, m), append(tr.ids, m.ID())
		tr.pass(0)
		return m
	}
}

// lease counts a lease as a bridge would.
func (tr *troupe) lease(m *migrate.Member, ttl time.Duration) (end func()) {
	tr.T.Helper()
	_, end, err := m.Begin(context.Background(), ttl)
	if err != nil {
		tr.T.Fatal(err)
	}
	tr.pass(0)
	return end
}

var claims = []string{"--lease", "60s", "--spread", "1s", "--gap", "1s", "--job", "40s"}

// verb runs a verb of migrate on the namespace stock.
func (tr *troupe) verb(words ...string) clitest.Screen {
	tr.T.Helper()
	return tr.Run(append(append([]string{"migrate"}, words...), "--namespace", "stock")...)
}

func (tr *troupe) ends(code int, s clitest.Screen) clitest.Screen {
	tr.T.Helper()
	if s.Code != code {
		tr.T.Fatalf("exit code %d, not %d:\n%s%s", s.Code, code, s.Out, s.Errors)
	}
	return s
}

func TestUnfinishedStepIsExitCode1(t *testing.T) {
	tr := newTroupe(t)
	tr.verb("init")
	tr.join("stock", "till")
	tr.ends(0, tr.verb(append([]string{"advance", "--go"}, claims...)...))
	tr.pass(0)
	tr.ends(0, tr.verb("advance", "--go", "--gone"))
	tr.pass(0)
	s := tr.ends(1, tr.verb("back", "--go", "--wait", "0s", "--json"))
	a := clitest.AnswerOf(t, s)
	if a.At("moved") != true || a.At("over") != false || a.At("phase") != "dual" ||
		a.At("pending") != "sealed" || a.At("gate.open") != false || len(a.All("gate.blocks")) != 1 ||
		a.At("gate.blocks.0.rule") != "phase" {
		t.Errorf("%s", s.Out)
	}
	tr.pass(0)
	tr.ends(0, tr.verb("back", "--go"))
}

// Of what status, plan and log print, ids and the machine's name are left out.
func TestMigrateGivesThePinnedAnswers(t *testing.T) {
	tr := newTroupe(t)
	tr.ends(0, tr.verb("init"))
	till := tr.join("stock", "till")
	tr.lease(till, 30*time.Second)
	answers := tr.ends(0, tr.verb(append([]string{"status", "--json"}, claims...)...)).Out
	tr.ends(0, tr.verb(append([]string{"advance", "--go"}, claims...)...))
	answers += tr.ends(0, tr.verb("plan", "--json")).Out + tr.ends(0, tr.verb("log", "--json")).Out
	answers = strings.ReplaceAll(answers, till.ID(), "ID")
	answers = regexp.MustCompile(`"(host|who)": .*"`).ReplaceAllString(answers, `"$1": "machine"`)
	golden.Check(t, "testdata/answers.json", answers)
}

// Where no member has a target, there is no such column.
func TestStatusShowsTheTargetOfEachMember(t *testing.T) {
	tr := newTroupe(t)
	tr.ends(0, tr.verb("init"))
	tr.join("stock", "till")
	if s := tr.ends(0, tr.verb("status")); strings.Contains(s.Out, "target") {
		t.Errorf("without a target:\n%s", s.Out)
	}
	tr.composes("stock", "shop", "etcd of the shop")
	s := tr.ends(0, tr.verb("status"))
	for _, want := range []string{"  TARGET\n", "shop  observe", "  etcd of the shop\n"} {
		if !strings.Contains(s.Out, want) {
			t.Errorf("%q is not in\n%s", want, s.Out)
		}
	}
	a := clitest.AnswerOf(t, tr.ends(0, tr.verb("status", "--json")))
	if len(a.All("members")) != 2 || a.At("members.0.target") != nil ||
		a.At("members.1.target") != "etcd of the shop" || a.At("target") != nil {
		t.Error(a)
	}

	clean := migrate.Record{Epoch: 9, Phase: migrate.Clean, Since: tr.World.ServerNow(), Dialect: "Jedis",
		Target: "etcd of the shop"}
	tr.set("gsl:phase:stock", clean.String(), 0)
	tr.pass(0)
	s = tr.ends(0, tr.verb("status"))
	if !strings.Contains(s.Out, "epoch 9, dialect Jedis, target etcd of the shop\n") {
		t.Errorf("in clean:\n%s", s.Out)
	}
	a = clitest.AnswerOf(t, tr.ends(0, tr.verb("status", "--json")))
	if a.At("target") != "etcd of the shop" || a.At("members.0.phase") != nil ||
		a.At("members.1.phase") == nil {
		t.Error(a)
	}
}

func TestUnknownValuesAreNull(t *testing.T) {
	tr := newTroupe(t)
	a := clitest.AnswerOf(t, tr.ends(0, tr.verb("status", "--json")))
	if a.At("schema") != "getsetlock.migrate/1" || a.At("phase") != nil || a.At("since") != nil ||
		a.At("gate") != nil || len(a.All("members")) != 0 || a.At("road") != nil {
		t.Error(a)
	}
	a = clitest.AnswerOf(t, tr.ends(0, tr.verb("plan", "--json")))
	if len(a.All("road")) != 5 || a.At("road.0.from") != nil || a.At("fleet.job.time_ms") != nil ||
		a.At("fleet.job.basis") != "unknown" || a.At("road_wait_ms") == nil {
		t.Error(a)
	}
}

// The first line has all phases, the current one in brackets, and what is
// missing. Evidence is printed with --verbose only.
func TestStatusShowsPhasesInOneLine(t *testing.T) {
	tr := newTroupe(t)
	shows := func(want string, words ...string) string {
		t.Helper()
		s := tr.ends(0, tr.verb(append([]string{"status"}, words...)...))
		if line, _, _ := strings.Cut(s.Out, "\n"); line != want {
			t.Errorf("%q, not %q", line, want)
		}
		return s.Out
	}
	shows("observe > dual > sealed > modern > clean; not begun: migrate init begins")
	tr.ends(0, tr.verb("init"))
	shows("[observe] > dual > sealed > modern > clean; missing for dual: members, lease, spread, gap, job")
	tr.join("stock", "till")
	ready := "[observe] > dual > sealed > modern > clean; nothing is missing for dual: migrate advance --go goes there"
	brief := shows(ready, claims...)
	if strings.Contains(brief, "CLAIMED") || !strings.Contains(brief, "which --verbose shows") {
		t.Errorf("without --verbose:\n%s", brief)
	}
	for _, flag := range []string{"-v", "--verbose"} {
		full := shows(ready, append([]string{flag}, claims...)...)
		if strings.Count(full, "\n  CLAIMED ") < 4 || strings.Contains(full, "which --verbose shows") {
			t.Errorf("with %s:\n%s", flag, full)
		}
	}
	tr.ends(0, tr.verb(append([]string{"advance", "--go"}, claims...)...))
	tr.pass(0)
	tr.ends(0, tr.verb("advance", "--go", "--gone"))
	tr.pass(0)
	tr.ends(1, tr.verb("back", "--go", "--wait", "0s"))
	shows("observe > [dual] > sealed > modern > clean; the step from sealed is not complete; missing for sealed: phase, idle, window")
}

func TestLogSaysThatNoStepWasTaken(t *testing.T) {
	tr := newTroupe(t)
	tr.Want(tr.Run("migrate", "log", "--namespace", "none"), 0, "", "no step was taken yet")
}

const runbook = "../../../../../docs/guide/migration.md"

// shownIDs are the ids that the runbook shows in place of random ones.
var shownIDs = []string{"3nJx0zP1aBcD", "9wLm2VtYs4hQ"}

// scene is a block of the runbook: a command line, and what the test does
// before it.
type scene struct {
	before func()
	line   string
	code   int
	shows  evidence
}

// evidence names the lines of a gate that the runbook shows in addition to
// those that close it. A
// run of other lines is one line "  …". Nil shows none of them.
type evidence []string

// whole shows all lines. One block of the runbook does, so that each kind is
// seen once.
var whole = evidence{""}

// rests is a line of a gate that closes nothing: what the gate rests on.
var rests = regexp.MustCompile(`^  (CLAIMED )?[a-z-]+: `)

var (
	// steps are the verbs whose table of members the runbook leaves out, but
	// for the block that shows everything.
	steps   = regexp.MustCompile(`^migrate (advance|back|clean|sweep) `)
	members = regexp.MustCompile(`(?m)^MEMBER .*\n(?:.+\n)*\n`)
)

// of is the text with the lines left out that are not to be shown.
func (e evidence) of(text string) string {
	var b strings.Builder
	left := false
	for line := range strings.Lines(text) {
		named := rests.MatchString(line) && !strings.HasPrefix(line, "  needs: ")
		if named && !slices.ContainsFunc(e, func(p string) bool { return strings.HasPrefix(line[2:], p) }) {
			if !left {
				b.WriteString("  …\n")
			}
			left = true
			continue
		}
		left = false
		b.WriteString(line)
	}
	return b.String()
}

// What closes a gate is never left out, nor what a step ends with.
func TestTheRunbookLeavesOutWhatClosesNothing(t *testing.T) {
	const text = "gate to dual: closed\n  closed by job: a\n  record: b\n  CLAIMED gap: c\n  keys: d\n\nthe phase is dual\n"
	for _, c := range []struct {
		shows evidence
		want  string
	}{
		{nil, "gate to dual: closed\n  closed by job: a\n  …\n\nthe phase is dual\n"},
		{
			evidence{"CLAIMED gap"},
			"gate to dual: closed\n  closed by job: a\n  …\n  CLAIMED gap: c\n  …\n\nthe phase is dual\n"},
		{whole, text},
	} {
		if got := c.shows.of(text); got != c.want {
			t.Errorf("%q: %q", c.shows, got)
		}
	}
}

// elsewhere are blocks that other tests compare: one needs a real server, one a
// day.
var elsewhere = []string{watchLine, phasesLine}

const (
	watchLine  = "migrate status --namespace stock --watch --monitor"
	phasesLine = "rehearse --phases"
)

var block = regexp.MustCompile("(?ms)^```\n\\$ getsetlock ([^\n]*)\n(.*?)^```$")

// TestRunbookShowsWhatTheCommandPrints goes the road of the document and
// compares each block that begins with "$ getsetlock", less the evidence that a
// scene leaves out; -update writes them.
func TestRunbookShowsWhatTheCommandPrints(t *testing.T) {
	raw, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	tr := newTroupe(t)
	scenes := tr.road()
	tr.World.Addr() // the server is there, and reports its run id
	tr.World.Run("c1d4a2d5b8f60718293a4b5c6d7e8f9012345678")
	next := 0
	now := block.ReplaceAllStringFunc(string(raw), func(found string) string {
		m := block.FindStringSubmatch(found)
		if slices.Contains(elsewhere, m[1]) {
			return found
		}
		if next == len(scenes) || m[1] != scenes[next].line {
			t.Fatalf("block %d shows %q, which is not the next command of the road (%d)", next, m[1],
				len(scenes))
		}
		s := scenes[next]
		next++
		if s.before != nil {
			s.before()
		}
		line := s.line
		for i, id := range tr.ids {
			line = strings.ReplaceAll(line, shownIDs[i], id)
		}
		out := tr.prints(s.code, strings.Fields(line))
		for i, id := range tr.ids {
			out = strings.ReplaceAll(out, id, shownIDs[i])
		}
		out = s.shows.of(strings.TrimRight(out, "\n") + "\n")
		if steps.MatchString(s.line) && !slices.Equal(s.shows, whole) {
			out = members.ReplaceAllString(out, "")
		}
		for _, p := range s.shows {
			if !strings.Contains(out, "\n  "+p) {
				t.Errorf("%q prints no line %q", s.line, p)
			}
		}
		if out != m[2] && !*golden.Update {
			t.Errorf("%s shows another answer to %q (-update writes it):\n%s", runbook, s.line, out)
		}
		return "```\n$ getsetlock " + m[1] + "\n" + out + "```"
	})
	if next != len(scenes) {
		t.Errorf("%d of %d commands are shown", next, len(scenes))
	}
	if *golden.Update && now != string(raw) {
		if err := os.WriteFile(runbook, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// prints returns all output of a command line. Programs that hold locks use a
// clock that stands still, so that no time passes for them during the command.
func (tr *troupe) prints(code int, words []string) string {
	tr.T.Helper()
	if words[0] == "run" {
		was := tr.Clock
		tr.Clock = tr.World.Clock(redistest.Skew{})
		defer func() { tr.Clock = was }()
	}
	s := tr.ends(code, tr.Run(words...))
	if words[0] == "run" {
		return strings.ReplaceAll(s.Out+s.Errors, tr.World.URL(), "redis://127.0.0.1:6379")
	}
	return s.Out
}

// shapeOf returns a text without what differs from run to run: durations,
// numbers, the spacing of columns, and what was found of old clients just then.
func shapeOf(text string) string {
	text = regexp.MustCompile(`(to sealed was refused, as it should be).*`).ReplaceAllString(text, "$1")
	text = regexp.MustCompile(`(\d+h)?(\d+m)?[\d.]+(ns|µs|ms|s)\b`).ReplaceAllString(text, "TIME")
	text = regexp.MustCompile(`\d[\d.]*`).ReplaceAllString(text, "#")
	return regexp.MustCompile(` +`).ReplaceAllString(text, " ")
}

// shown returns the block of the runbook that shows what a command line prints.
func shown(t *testing.T, line string) string {
	t.Helper()
	raw, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range block.FindAllStringSubmatch(string(raw), -1) {
		if m[1] == line && strings.Count(m[2], "\n") > 1 {
			return m[2]
		}
	}
	t.Fatalf("%s has no block of %q", runbook, line)
	return ""
}

// The test compares the shape: the runbook shows a day of four thousand orders,
// and this run has a tenth.
func TestRunbookShowsWhatTheRehearsalPrints(t *testing.T) {
	args := append(strings.Fields(phasesLine), "--quiet", "--acquisitions", "400", "--lease", "10s")
	s := clitest.Speak(t, exec.Command(clitest.Built(t), args...))
	if want := shapeOf(shown(t, phasesLine)); s.Code != 0 || shapeOf(s.Out) != want {
		t.Errorf("%s shows of %q another shape than\n%s%s", runbook, phasesLine, s.Out, s.Errors)
	}
}

// watcher writes what a watcher would write after a quiet time.
func (tr *troupe) watcher(quiet time.Duration) {
	tr.T.Helper()
	now := tr.World.ServerNow().UTC()
	s := fleet.Sighting{
		Format: "gsl-seen/2", Observer: "status --watch on host7", From: now.Add(-quiet), Until: now,
		Window: fleet.Window{Quiet: quiet, QuietUntil: now},
		Keys: []fleet.SightedKey{{Key: "stock:42", LastWrite: &fleet.Touch{
			At: now.Add(-quiet), Key: "stock:42", What: "acquired", Who: "10.0.0.7:40112 till-java",
		}}},
	}
	raw, err := json.Marshal(s)
	if err != nil {
		tr.T.Fatal(err)
	}
	if err := tr.World.Mini.Set("gsl:seen:stock", string(raw)); err != nil {
		tr.T.Fatal(err)
	}
}

func (tr *troupe) set(key, value string, ttl time.Duration) {
	tr.T.Helper()
	if err := tr.World.Mini.Set(key, value); err != nil {
		tr.T.Fatal(err)
	}
	if ttl > 0 {
		tr.World.Mini.SetTTL(key, ttl)
	}
}

// road returns the scenes of the runbook.
func (tr *troupe) road() []scene {
	known := " " + strings.Join(claims, " ")
	stock := func(words string) string {
		verb, rest, _ := strings.Cut(words, " ")
		return strings.TrimSpace("migrate " + verb + " --namespace stock " + rest)
	}
	var end func()
	tomb := dialect.Jedis().Tombstone()
	held := func(key string) string {
		return "run --protocol auto --namespace stock " + key + " -- printenv GETSETLOCK_KEY"
	}
	return []scene{
		{nil, held("stock:41"), 125, nil},
		{nil, stock("init"), 0, nil},
		{nil, held("stock:41"), 0, nil},
		{func() {
			tr.join("stock", "till on host3")
			tr.join("stock", "report on host4")
			end = tr.lease(tr.members[0], 30*time.Second)
			tr.set("stock:42", "1772452861001", 0)
			tr.pass(2 * time.Second)
		}, stock("plan" + known + " --dialect jedis --behind 2m --idle 25h"), 0, nil},
		{nil, stock("advance"), 1, nil},
		{nil, stock("advance" + known), 0, whole},
		{nil, stock("advance" + known + " --go"), 0, nil},
		{func() { tr.pass(5 * time.Second) }, stock("status"), 0, nil},
		{nil, held("--wait 0 stock:42"), 124, nil},
		{nil, "run --protocol dual --lease 60s stock:41 -- printenv GETSETLOCK_KEY", 0, nil},
		{func() {
			end()
			tr.watcher(40 * time.Second)
			tr.pass(5 * time.Second)
		}, stock("advance"), 1, nil},
		{func() {
			tr.pass(90 * time.Second)
			tr.watcher(130 * time.Second)
		}, stock("advance --go --idle 2m"), 0, evidence{"CLAIMED idle", "seen", "window"}},
		{func() {
			tr.pass(5 * time.Second)
			tr.set("stock:42", tomb, 30*24*time.Hour)
		}, stock("back"), 0, nil},
		{nil, stock("back --go"), 0, nil},
		{func() { tr.watcher(200 * time.Second) }, stock("advance --go --idle 2m"), 0, nil},
		{func() {
			tr.pass(2 * time.Minute)
			tr.watcher(320 * time.Second)
		}, stock("advance --go"), 0, evidence{"window"}},
		{func() {
			if err := tr.members[1].Leave(); err != nil {
				tr.T.Fatal(err)
			}
			tr.members = tr.members[:1]
			tr.pass(2 * time.Minute)
			tr.watcher(440 * time.Second)
			tr.set("stock:42", tomb, 12*24*time.Hour)
		}, stock("clean --idle 2m"), 1, nil},
		{nil, stock("clean --go --idle 2m --forget " + shownIDs[1]), 0, nil},
		{func() { tr.pass(5 * time.Second) }, stock("sweep"), 0, nil},
	}
}
