package release

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// elsewhere begins commands of docs/release.md that no test takes apart: they
// need rights on the public host, or git alone.
var elsewhere = []string{"export", "git", "goreleaser", "docker"}

// programs are what go install makes.
var programs = []string{"github.com/getsetlock/getsetlock/cmd/getsetlock",
	"github.com/getsetlock/getsetlock/cmd/getsetlock/full/getsetlock"}

// TestStepsOfReleaseExist takes each command of the page apart: a script with a
// verb that it has, a target of the Makefile, a test, the path of the module.
func TestStepsOfReleaseExist(t *testing.T) {
	makefile, script := read(t, root+"/Makefile"), read(t, root+"/scripts/release.sh")
	n := 0
	for line := range strings.Lines(read(t, root+"/docs/release.md")) {
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
		case words[0] == "scripts/release.sh":
			if !strings.Contains(script, "\n"+words[1]+"() {") || words[2] != "$VERSION" {
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

// TestStabilityNamesEverySchemaAndItsTests compares the page with the code: the
// schemas of the command, the numbers of the registry's forms, and the tests
// that the page names.
func TestStabilityNamesEverySchemaAndItsTests(t *testing.T) {
	page := read(t, root+"/docs/stability.md")
	schema := regexp.MustCompile(`getsetlock\.[a-z-]+/\d+`)
	var found []string
	tests := ""
	for _, folder := range []string{"cmd", "proof", "migrate"} {
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
		read(t, root+"/migrate/internal/record/text.go"))
	if version == nil || !strings.Contains(page, "`"+version[1]+"`") {
		t.Errorf("the page lacks the registry's form %q", version)
	}
}
