package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/cli"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

func written(t *testing.T) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "packages")
	if err := write(directory); err != nil {
		t.Fatal(err)
	}
	return directory
}

var marks = strings.NewReplacer(`\-`, "-", `\e`, `\`, `\(aq`, "'", `\(dq`, `"`)

// A page has the flags of its verb, and every page is named by the others.
func TestEveryVerbHasAPageWithItsFlags(t *testing.T) {
	directory := written(t)
	root := cli.Root(&out.Env{})
	verbs := shown(root)
	if len(verbs) < 11 {
		t.Fatalf("only %d verbs", len(verbs))
	}
	for _, cmd := range append(verbs, root) {
		raw, err := os.ReadFile(filepath.Join(directory, "man1", pageName(cmd)+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		text := marks.Replace(string(raw))
		for _, g := range cli.FlagGroups(cmd) {
			for _, f := range g.Flags {
				if !strings.Contains(text, "--"+f.Name) {
					t.Errorf("%s: --%s is missing", pageName(cmd), f.Name)
				}
			}
		}
		for _, part := range []string{cmd.Short, `.SH "DESCRIPTION"`, `.SH "EXAMPLES"`} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is missing", pageName(cmd), part)
			}
		}
		for _, other := range append(verbs, root) {
			if other != cmd && !strings.Contains(text, pageName(other)+"(1)") {
				t.Errorf("%s does not name %s", pageName(cmd), pageName(other))
			}
		}
	}
}

// groff warns of requests that it does not know, and of characters that the
// output cannot show. Where there is no groff, only the other tests look at the
// pages.
func TestPagesRenderWithoutWarnings(t *testing.T) {
	if _, err := exec.LookPath("groff"); err != nil {
		t.Log("no groff here")
		return
	}
	pages, err := filepath.Glob(filepath.Join(written(t), "man1", "*.1"))
	if err != nil || len(pages) == 0 {
		t.Fatal(err, pages)
	}
	escapes := regexp.MustCompile("\x1b\\[[0-9;]*m|.\b")
	for _, page := range pages {
		var errs strings.Builder
		cmd := exec.Command("groff", "-man", "-ww", "-Tutf8", "-rLL=80n", page)
		cmd.Stderr = &errs
		text, err := cmd.Output()
		if err != nil || errs.Len() > 0 {
			t.Errorf("%s: %v\n%s", filepath.Base(page), err, errs.String())
		}
		for _, line := range strings.Split(escapes.ReplaceAllString(string(text), ""), "\n") {
			if len([]rune(line)) > 80 {
				t.Errorf("%s: wider than 80 columns: %q", filepath.Base(page), line)
			}
		}
	}
}

// A character that groff would make typographic has to stay, or a command line
// cannot be copied.
func TestPageKeepsEveryCharacter(t *testing.T) {
	p := &roff{}
	p.text("'a' \\x2a ~ ^ ` -- …\n.b\n  'c'")
	const want = ".PP\n\\&\\(aqa\\(aq \\ex2a \\(ti \\(ha \\(ga \\-\\- \\[u2026]\n\\&.b\n.nf\n.in 0\n  \\(aqc\\(aq\n.fi\n.in\n"
	if p.b.String() != want {
		t.Errorf("%q, want %q", p.b.String(), want)
	}
}

func TestCompletionsAreScriptsOfTheirShells(t *testing.T) {
	directory := filepath.Join(written(t), "completions")
	for name, begins := range map[string]string{
		"getsetlock.bash": "# bash completion", "_getsetlock": "#compdef getsetlock",
		"getsetlock.fish": "# fish completion"} {
		text, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil || !strings.HasPrefix(string(text), begins) {
			t.Errorf("%s: %v, it begins with %.30q", name, err, text)
		}
	}
	if bash, err := exec.LookPath("bash"); err == nil {
		if said, err := exec.Command(bash, "-n",
			filepath.Join(directory, "getsetlock.bash")).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, said)
		}
	}
}
