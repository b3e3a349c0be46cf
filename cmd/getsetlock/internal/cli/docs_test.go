// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/runverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/smallverbs"
)

// chapters returns the parts of docs/reference/command.md by their headings.
func chapters(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(commandPage)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, part := range strings.Split(string(text), "\n## ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		found[name] = body
	}
	return found
}

var flagName = regexp.MustCompile("`--([a-z-]+)`")

func TestDocumentNamesExactlyTheFlagsOfEachVerb(t *testing.T) {
	all := chapters(t)
	for _, c := range Root(&out.Env{}).Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		body, known := all[c.Name()]
		if !known {
			t.Errorf("there is no chapter on %s", c.Name())
			continue
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && !strings.Contains(body, "`--"+f.Name+"`") {
				t.Errorf("%s: --%s is not named", c.Name(), f.Name)
			}
		})
		for _, m := range flagName.FindAllStringSubmatch(body, -1) {
			// Cobra defines --help only when a verb runs.
			if f := c.Flags().Lookup(m[1]); f == nil && m[1] != "help" {
				t.Errorf("%s: --%s does not exist", c.Name(), m[1])
			}
		}
	}
}

// Each document has a name, and a schema that its chapter links to.
func TestDocumentLinksToEverySchema(t *testing.T) {
	all := chapters(t)
	for name := range documents {
		verb, _, _ := strings.Cut(name, "-")
		if link := "[`getsetlock." + name + "/1`](schema/" + name + ".json)"; !strings.Contains(all[verb], link) {
			t.Errorf("%s: the chapter lacks %s", verb, link)
		}
	}
}

func TestDocumentNamesCodesAndVariables(t *testing.T) {
	all := chapters(t)
	for _, code := range []int{out.CodeRunServer, out.CodeRunLost, out.CodeRunHeld, out.CodeRunFailed, 126,
		127} {
		if !strings.Contains(all["run"], "\n| "+clitest.Decimal(int64(code))+" |") {
			t.Errorf("run: %d is not in the table of codes", code)
		}
	}
	for _, code := range []int{out.CodeWell, out.CodeBad, out.CodeUse, out.CodeFailed} {
		if !strings.Contains(all["Everywhere"], "\n| "+clitest.Decimal(int64(code))+" |") {
			t.Errorf("%d is not in the table of codes", code)
		}
	}
	for _, name := range slices.Concat(out.ServerVariables, runverb.LockVariables) {
		if !strings.Contains(all["Everywhere"], "`"+name+"`") {
			t.Errorf("%s is not named", name)
		}
	}
	for _, state := range []string{smallverbs.StateHeld, smallverbs.StateExpired, smallverbs.StateUnreadable,
		out.ProtocolLegacy, out.ProtocolModern, out.ProtocolDual, out.ProtocolTombstone} {
		if !slices.Contains(regexp.MustCompile("[a-z]+").FindAllString(all["ls"], -1), state) {
			t.Errorf("ls: %s is not named", state)
		}
	}
}

// commandLine is a line of a document that calls the command, a crontab's
// included.
var commandLine = regexp.MustCompile(`(?m)^    (?:[-0-9* ]+ )?getsetlock ([^|#\n]+)`)

// The command lines of pages for owners of old fleets are taken as they stand.
func TestCommandLinesOfPagesForFleetsParse(t *testing.T) {
	for _, name := range []string{"guide/porting.md", "start/java.md", "zh/java.md", "zh/audit.md"} {
		text, err := os.ReadFile("../../../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		lines := commandLine.FindAllStringSubmatch(string(text), -1)
		if len(lines) < 1 {
			t.Errorf("%s: no command lines", name)
		}
		for _, m := range lines {
			verb, rest, err := Root(&out.Env{}).Find(strings.Fields(m[1]))
			if err != nil {
				t.Errorf("%s: %s: %v", name, m[1], err)
				continue
			}
			if err := verb.ParseFlags(rest); err != nil {
				t.Errorf("%s: %s: %v", name, m[1], err)
			}
			if rest := verb.Flags().Args(); verb.Name() == "run" &&
				(len(rest) < 2 || verb.Flags().ArgsLenAtDash() != 1) {
				t.Errorf("%s: %s: not KEY -- COMMAND", name, m[1])
			}
		}
	}
}

// commandSpan is a command line that a sentence or a table quotes.
var commandSpan = regexp.MustCompile("`getsetlock ([^`…]+)`")

// A command that a page quotes names a verb and flags that exist. It may name a
// flag without its value.
func TestCommandsQuotedInPagesParse(t *testing.T) {
	pages, err := filepath.Glob("../../../../docs/[grisz]*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range commandSpan.FindAllStringSubmatch(string(text), -1) {
			n++
			verb, rest, err := Root(&out.Env{}).Find(strings.Fields(m[1]))
			if err == nil {
				err = verb.ParseFlags(rest)
			}
			if err != nil && !strings.Contains(err.Error(), "flag needs an argument") { // only named
				t.Errorf("%s: getsetlock %s: %v", filepath.Base(page), m[1], err)
			}
		}
	}
	if n < 40 {
		t.Errorf("%d commands found", n)
	}
}

// docs/guide/watching.md says to alarm on doctor's exit code.
func TestDoctorOfWatchingAlarmsOnADeadLock(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/guide/watching.md")
	if err != nil {
		t.Fatal(err)
	}
	const line = "getsetlock doctor --match 'lock:*'"
	if !strings.Contains(string(page), "| `"+line+"` | each hour | exit 1:") {
		t.Fatalf("the page has no row for %s", line)
	}
	args := strings.Fields(strings.ReplaceAll(line, "'", ""))[1:]
	s := clitest.NewStage(t)
	if got := s.Run(args...); got.Code != 0 {
		t.Errorf("without locks: code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
	dead := clitest.StampOf(s.World.ServerNow().Add(-time.Hour))
	if err := s.World.Mini.Set("lock:dead", dead); err != nil {
		t.Fatal(err)
	}
	if got := s.Run(args...); got.Code != 1 || !strings.Contains(got.Out, "lock:dead") {
		t.Errorf("with a dead lock: code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
}
