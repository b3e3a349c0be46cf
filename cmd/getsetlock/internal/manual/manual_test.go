// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

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

var marks = strings.NewReplacer(`\-`, "-", `\(rs`, `\`, `\(aq`, "'", `\&`, "")

// A page has its verb's flags. The command's page names all others, and each of
// them the command's.
func TestEveryVerbHasAPageWithItsFlags(t *testing.T) {
	directory := written(t)
	root := cli.Root(&out.Env{})
	pages := 0
	for _, cmd := range append(root.Commands(), root) {
		if !cmd.IsAvailableCommand() && cmd != root || cmd.Name() == "help" {
			continue
		}
		pages++
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		raw, err := os.ReadFile(filepath.Join(directory, "man1", name+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		text := marks.Replace(string(raw))
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(text, " --"+f.Name) {
				t.Errorf("%s: --%s is missing", name, f.Name)
			}
		})
		named := []string{"getsetlock(1)"}
		if cmd == root {
			named = nil
			for _, c := range root.Commands() {
				if c.IsAvailableCommand() && c.Name() != "help" {
					named = append(named, "getsetlock-"+c.Name()+"(1)", c.Name(), c.Short)
				}
			}
		}
		for _, part := range append(named, cmd.Short, ".SH DESCRIPTION", "Most people need:") {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is missing", name, part)
			}
		}
	}
	all, err := filepath.Glob(filepath.Join(directory, "man1", "*"))
	if err != nil || len(all) != pages || pages < 12 {
		t.Errorf("%d pages for %d commands: %q, %v", len(all), pages, all, err)
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
		cmd := exec.Command("groff", "-k", "-man", "-ww", "-Tutf8", "-rLL=80n", page)
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
// cannot be copied. What would be a request stays text.
func TestPageKeepsEveryCharacter(t *testing.T) {
	const text = "'a' \\x2a ~ ^ ` -- … *a* <c>\n.b\n  'c' -- *"
	const want = "\\(aqa\\(aq \\(rsx2a \\(ti \\(ha \\(ga \\-\\- … *a* <c>\n\\&.b\n  \\(aqc\\(aq \\-\\- *"
	if got := roff(text); got != want {
		t.Errorf("%q, want %q", got, want)
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
