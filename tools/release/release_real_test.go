//go:build real

package release

import (
	"os"
	"os/exec"
	"path/filepath"
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
