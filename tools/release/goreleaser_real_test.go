//go:build real

package release

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReleaserPacksFilesThatExist runs what goreleaser runs before it builds,
// with another folder for what that makes.
func TestReleaserPacksFilesThatExist(t *testing.T) {
	var r releaser
	parse(t, ".goreleaser.yaml", &r)
	const made = "bin/pages/"
	pages := t.TempDir()
	for _, hook := range r.Before.Hooks {
		words := strings.Fields(hook)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "PAGES="+pages)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", hook, err, out)
		}
	}
	var packed []string
	for _, f := range r.Archives[0].Files {
		place := filepath.Join(root, f.Src)
		if name, ok := strings.CutPrefix(f.Src, made); ok {
			place = filepath.Join(pages, name)
		}
		names, err := filepath.Glob(place)
		if err != nil || len(names) == 0 {
			t.Errorf("the archive has %s, which neither is in the repository nor made before: %v", f.Src, err)
		}
		for _, name := range names {
			packed = append(packed, path.Join(f.Dst, filepath.Base(name)))
		}
	}
	for _, name := range []string{"LICENSE", "man1/getsetlock-run.1", "completions/getsetlock.bash"} {
		if !slices.Contains(packed, name) {
			t.Errorf("the archive lacks %s: %q", name, packed)
		}
	}
}
