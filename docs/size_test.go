// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// The most lines that a reader is asked to read: of all pages together, the
// changelog apart, and of the README.
const (
	mostLines  = 7500
	mostReadme = 150
)

func TestPagesStayShortTogether(t *testing.T) {
	all := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != ".." && name != ".github" && strings.HasPrefix(name, "."),
			d.IsDir() && (name == "testdata" || name == "target"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".md") && name != "CHANGELOG.md":
			all += strings.Count(read(t, path), "\n")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if all > mostLines {
		t.Errorf("the pages have %d lines, more than %d: say each thing once, and link", all, mostLines)
	}
	if n := strings.Count(read(t, "../README.md"), "\n"); n > mostReadme {
		t.Errorf("README.md has %d lines, more than %d", n, mostReadme)
	}
}
