package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// clone is a small repository with the scripts of this one, and files that a
// release reads.
type clone struct {
	t      *testing.T
	folder string
}

func newClone(t *testing.T, changelog string) *clone {
	t.Helper()
	c := &clone{t, t.TempDir()}
	for _, name := range []string{"scripts/release.sh", "scripts/lib.sh", "go.mod",
		"modern/testdata/vectors/wire.txt", "migrate/testdata/vectors/registry.txt",
		"legacy/dialect/testdata/vectors/jedis.txt", "legacy/dialect/testdata/vectors/recorded-faye.txt"} {
		c.write(name, read(t, filepath.Join(root, name)))
	}
	if err := os.Chmod(filepath.Join(c.folder, "scripts/release.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.write("CHANGELOG.md", changelog)
	c.git("init", "-q")
	c.commit()
	return c
}

func (c *clone) write(name, text string) {
	c.t.Helper()
	name = filepath.Join(c.folder, name)
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o644)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *clone) git(args ...string) {
	c.t.Helper()
	if out, err := c.run("git", args...); err != nil {
		c.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func (c *clone) commit() {
	c.t.Helper()
	c.git("add", "-A")
	c.git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "a")
}

func (c *clone) run(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = c.folder
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const changelog = `# Changelog

## [Unreleased]

## [0.2.0] - 2026-12-01

### Added

- a thing

## [0.1.0] - 2026-11-01

- the first
`

// refused fails the test if the check of a tag does not fail with the words.
func (c *clone) refused(tag, words string) {
	c.t.Helper()
	if out, err := c.run("scripts/release.sh", "check", tag); err == nil || !strings.Contains(out, words) {
		c.t.Errorf("check %s: %v, want %q:\n%s", tag, err, words, out)
	}
}

func TestReleaseCheckNamesWhatIsWrong(t *testing.T) {
	c := newClone(t, changelog)
	if out, err := c.run("scripts/release.sh", "check", "v0.2.0"); err != nil || out != "" {
		t.Errorf("%v %s", err, out)
	}
	for _, tag := range []string{"0.2.0", "v0.2", "v0.2.0-rc1", "v00.2.0", "v0.2.0+b"} {
		c.refused(tag, "no tag of a release")
	}
	c.refused("v0.3.0", "no heading '## [0.3.0] - YYYY-MM-DD'")
	c.git("tag", "v0.2.0-rc.2")
	if out, err := c.run("scripts/release.sh", "check", "v0.2.0"); err != nil {
		t.Errorf("after a pre-release of its own: %v %s", err, out)
	}
	c.refused("v0.1.0", "comes before v0.2.0-rc.2")
	c.git("tag", "v0.2.0")
	c.refused("v0.2.0", "the tag v0.2.0 exists")
	c.write("CHANGELOG.md", "## [0.3.0] - 2026-12-02\n\n## [2.0.0] - 2026-12-03\n\n- a\n")
	c.refused("v0.3.0", "commit them first")
	c.commit()
	c.refused("v0.3.0", "is empty")
	c.refused("v2.0.0", "must end with /v2")
}

func TestReleaseNotesAreTheChapterOfTheChangelog(t *testing.T) {
	c := newClone(t, changelog)
	if out, err := c.run("scripts/release.sh", "notes", "v0.2.0"); err != nil ||
		out != "### Added\n\n- a thing\n\n" {
		t.Errorf("%v %q", err, out)
	}
}

// TestChangelogHasNotesForTheNextRelease does what a release does: it names the
// chapter Unreleased.
func TestChangelogHasNotesForTheNextRelease(t *testing.T) {
	text := read(t, root+"/CHANGELOG.md")
	next := strings.Replace(text, "## [Unreleased]\n", "## [999.0.0] - 2026-12-01\n", 1)
	c := newClone(t, next)
	out, err := c.run("scripts/release.sh", "notes", "v999.0.0")
	if err != nil || next == text || !strings.Contains(out, "### ") {
		t.Errorf("%v %.200q", err, out)
	}
}

// TestReleaseKeepsTheVectorsWhereTestsReadThem checks the names: each is a
// pattern of the tests in proof and migrate/fleet.
func TestReleaseKeepsTheVectorsWhereTestsReadThem(t *testing.T) {
	c := newClone(t, changelog)
	if out, err := c.run("scripts/release.sh", "keep", "v0.2.0"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	entries, err := os.ReadDir(filepath.Join(c.folder, "proof/testdata/released/v0.2.0"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"jedis.txt", "registry.txt", "wire.txt"}; !slices.Equal(names, want) {
		t.Errorf("kept %q, want %q", names, want)
	}
	for _, name := range []string{"proof/versions_test.go", "migrate/fleet/versions_test.go"} {
		if !strings.Contains(read(t, filepath.Join(root, name)), "testdata/released/*") {
			t.Errorf("%s doesn't read what is kept", name)
		}
	}
}

// elsewhere begins commands of docs/release.md that no test takes apart: they
// need rights on the public host, or git alone.
var elsewhere = []string{"export", "git", "goreleaser", "docker"}

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
			if words[2] != "github.com/getsetlock/getsetlock/cmd/getsetlock@$VERSION" {
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
