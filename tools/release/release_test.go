// SPDX-License-Identifier: Apache-2.0

// Package release tests what is handed on: the container image, the module as
// go install sees it, the releaser's configuration and the pages of a public
// host.
package release

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// elsewhere begins commands of docs/internals/release.md that no test takes
// apart: they need rights on the public host, or git alone.
var elsewhere = []string{"export", "git", "goreleaser", "docker"}

// programs are what go install makes.
var programs = []string{"github.com/getsetlock/getsetlock/cmd/getsetlock",
	"github.com/getsetlock/getsetlock/cmd/getsetlock/full/getsetlock"}

// TestStepsOfReleaseExist takes each command of the page apart: a script with a
// verb that it has, a target of the Makefile, a test, the path of the module.
func TestStepsOfReleaseExist(t *testing.T) {
	makefile, script := read(t, root+"/Makefile"), read(t, root+"/scripts/release.sh")
	n := 0
	for line := range strings.Lines(read(t, root+"/docs/internals/release.md")) {
		words := strings.Fields(line)
		if !strings.HasPrefix(line, "    ") || len(words) == 0 {
			continue
		}
		n++
		switch {
		case words[0] == "make":
			for _, target := range words[1:] {
				if !strings.Contains(makefile, "\n"+target+":") {
					t.Errorf("make %s: the Makefile has no such target", target)
				}
			}
		case words[0] == "scripts/package.sh":
		case words[0] == "scripts/release.sh":
			if !strings.Contains(script, "\n"+words[1]+"() {") ||
				!slices.Contains([]string{"$VERSION", "HEAD"}, words[2]) {
				t.Errorf("%s: the script has no such step", line)
			}
		case words[0] == "go" && words[1] == "install":
			if folder, found := strings.CutSuffix(words[2], "@$VERSION"); !found ||
				!slices.Contains(programs, folder) {
				t.Errorf("%s installs another program", line)
			}
		case words[0] == "go" && words[1] == "test":
			for _, folder := range words[2:4] {
				if !strings.Contains(read(t, filepath.Join(root, folder, "versions_test.go")), words[5]) {
					t.Errorf("%s has no test %s", folder, words[5])
				}
			}
		case words[0] == "go" && words[1] == "mod", words[0] == "bin/getsetlock":
		case slices.Contains(elsewhere, words[0]):
		default:
			t.Errorf("a step that no test knows: %s", line)
		}
	}
	if n < 12 {
		t.Errorf("only %d commands", n)
	}
}

// TestEveryAdapterIsReleased looks for the module of each adapter among those
// that the scripts tag, and in the workspace.
func TestEveryAdapterIsReleased(t *testing.T) {
	found, err := filepath.Glob(root + "/adapters/*/go.mod")
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	var names []string
	for _, file := range found {
		names = append(names, filepath.Base(filepath.Dir(file)))
	}
	if !strings.Contains(read(t, root+"/scripts/lib.sh"), "\n  adapters/{"+strings.Join(names, ",")+"}\n") {
		t.Errorf("published in scripts/lib.sh is not adapters/{%s}", strings.Join(names, ","))
	}
	for _, name := range names {
		if text := read(t, root+"/go.work"); strings.Count(text, "./adapters/"+name+"\n") != 2 {
			t.Errorf("go.work does not use and replace adapters/%s", name)
		}
	}
}

// TestStabilityNamesEverySchemaAndItsTests compares the page with the code: the
// schemas of the command, the numbers of the registry's forms, and the tests
// that the page names.
func TestStabilityNamesEverySchemaAndItsTests(t *testing.T) {
	page := read(t, root+"/docs/reference/stability.md")
	schema := regexp.MustCompile(`getsetlock\.[a-z-]+/\d+`)
	var found []string
	tests := ""
	for _, folder := range []string{"cmd", "proof", "migrate", "internal/operator"} {
		visit := func(name string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".go" {
				return err
			}
			text, err := os.ReadFile(name)
			if strings.HasSuffix(name, "_test.go") {
				tests += string(text)
			} else if folder == "cmd" {
				found = append(found, schema.FindAllString(string(text), -1)...)
			}
			return err
		}
		if err := filepath.WalkDir(filepath.Join(root, folder), visit); err != nil {
			t.Fatal(err)
		}
	}
	named := schema.FindAllString(page, -1)
	slices.Sort(found)
	slices.Sort(named)
	if got := slices.Compact(found); !slices.Equal(got, named) {
		t.Errorf("the command writes %q, and the page names %q", got, named)
	}
	for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(tests, "\nfunc "+m[1]+"(") {
			t.Errorf("there is no %s", m[1])
		}
	}
	version := regexp.MustCompile(`Version += "(gsl/\d+)"`).FindStringSubmatch(
		read(t, root+"/internal/record/text.go"))
	if version == nil || !strings.Contains(page, "`"+version[1]+"`") {
		t.Errorf("the page lacks the registry's form %q", version)
	}
}

// command is a command in a form or page: getsetlock and its verb.
var command = regexp.MustCompile("`getsetlock ([a-z]+)((?: --[a-z-]+(?: [\\w.]+)?)*)`")

// TestFormsNameVerbsAndFlagsThatExist looks for each verb and flag in
// docs/reference/command.md, which tests compare with the command.
func TestFormsNameVerbsAndFlagsThatExist(t *testing.T) {
	page := read(t, root+"/docs/reference/command.md")
	n := 0
	for _, name := range pagesHere(t) {
		for _, m := range command.FindAllStringSubmatch(read(t, name), -1) {
			n++
			if !strings.Contains(page, "\n## "+m[1]+"\n") {
				t.Errorf("%s names the verb %s, which docs/reference/command.md lacks", name, m[1])
			}
			for word := range strings.FieldsSeq(m[2]) {
				if strings.HasPrefix(word, "--") && !strings.Contains(page, "`"+word) {
					t.Errorf("%s names the flag %s, which docs/reference/command.md lacks", name, word)
				}
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d commands in the forms", n)
	}
}

// pagesHere are the pages and forms of which these tests take care.
func pagesHere(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(root + "/.github/ISSUE_TEMPLATE/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	return append(names, root+"/SECURITY.md", root+"/.github/PULL_REQUEST_TEMPLATE.md",
		root+"/docs/internals/release.md", root+"/docs/reference/stability.md")
}

// link is a relative link of a page.
var link = regexp.MustCompile(`\]\(([^):#]*)(#[^)]+)?\)`)

func TestLinksOfHandedOnPagesLeadSomewhere(t *testing.T) {
	for _, name := range pagesHere(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			target := name
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(name), m[1])
			}
			text, err := os.ReadFile(target)
			if info, statErr := os.Stat(target); statErr == nil && info.IsDir() {
				continue
			}
			if err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			} else if m[2] != "" && !slices.Contains(anchors(string(text)), m[2]) {
				t.Errorf("%s links to %s%s, and the page has no such heading", name, m[1], m[2])
			}
		}
	}
}

// anchors are the links to a page's headings, as code hosts make them.
func anchors(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		words = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(words, "")
		all = append(all, "#"+strings.ReplaceAll(words, " ", "-"))
	}
	return all
}

// TestCIRunsWhatAMergeNeeds checks what actionlint does not: that nothing but
// .ci/run decides, that the job may only read, ends by itself, and takes every
// action by a commit.
func TestCIRunsWhatAMergeNeeds(t *testing.T) {
	text := read(t, root+"/.github/workflows/ci.yml")
	var w struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Timeout int `yaml:"timeout-minutes"`
			Steps   []struct{ Uses, Run string }
		}
	}
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
		t.Errorf("permissions %v", w.Permissions)
	}
	pinned := regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40}$`)
	job := w.Jobs["check"]
	ran := false
	for _, s := range job.Steps {
		if s.Uses != "" && !pinned.MatchString(s.Uses) {
			t.Errorf("%s isn't pinned to a commit", s.Uses)
		}
		ran = ran || strings.TrimSpace(s.Run) == ".ci/run"
	}
	if !ran || job.Timeout == 0 {
		t.Errorf(".ci/run %t, timeout %d min", ran, job.Timeout)
	}
	for _, m := range regexp.MustCompile(`uses: (\S+)`).FindAllStringSubmatch(read(t,
		root+"/.github/workflows/release.yml"), -1) {
		if !pinned.MatchString(m[1]) {
			t.Errorf("a release takes %s, which isn't pinned to a commit", m[1])
		}
	}
}

// TestModulesRequireEachOtherAtOneVersion finds a go.mod that go.work does not
// map to a folder, which then is looked for on the code host.
func TestModulesRequireEachOtherAtOneVersion(t *testing.T) {
	workspace := read(t, root+"/go.work")
	mapped := regexp.MustCompile(`getsetlock (v\S+) => \./\n`).FindStringSubmatch(workspace)
	if mapped == nil {
		t.Fatal("go.work maps no version of the root")
	}
	required := regexp.MustCompile(`github\.com/getsetlock/getsetlock(?:/\S+)? (v\S+)`)
	folders := regexp.MustCompile(`(?m)^\t(\./\S+)$`).FindAllStringSubmatch(workspace, -1)
	if len(folders) < 8 {
		t.Errorf("go.work uses %q", folders)
	}
	for _, folder := range folders {
		mod := read(t, filepath.Join(root, folder[1], "go.mod"))
		if strings.Contains(mod, "\nreplace") {
			t.Errorf("%s replaces a module, which go install refuses", folder[1])
		}
		for _, m := range required.FindAllStringSubmatch(mod, -1) {
			if m[1] != mapped[1] {
				t.Errorf("%s requires %s, and go.work maps %s", folder[1], m[0], mapped[1])
			}
		}
	}
}
