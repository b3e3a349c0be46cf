// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	claim   = regexp.MustCompile("`((?:Test|Example)[A-Za-z_]+)`")
	defined = regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`)
)

// pages are all pages of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			all = append(all, filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator))))
		}
	}
	if len(all) < 30 {
		t.Fatalf("%d pages", len(all))
	}
	return all
}

func TestLinksInTheDocumentsLeadSomewhere(t *testing.T) {
	known := map[string]map[string]bool{} // anchors by file
	for _, name := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(prose(t, filepath.Join(root, name)), -1) {
			target := m[1]
			if strings.Contains(target, "://") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			path := filepath.Join(root, name)
			if file != "" {
				path = filepath.Join(root, filepath.Dir(name), file)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s: %v", name, target, err)
				continue
			}
			if anchor == "" {
				continue
			}
			if known[path] == nil {
				known[path] = anchors(prose(t, path))
			}
			if !known[path][anchor] {
				t.Errorf("%s links to %s, which has no such heading", name, target)
			}
		}
	}
}

// A page to which no link leads from the README is found by nobody.
func TestReadmeLeadsToEveryPage(t *testing.T) {
	reached, next := map[string]bool{"README.md": true}, []string{"README.md"}
	for len(next) > 0 {
		page := next[0]
		next = next[1:]
		for _, m := range link.FindAllStringSubmatch(prose(t, filepath.Join(root, page)), -1) {
			file, _, _ := strings.Cut(m[1], "#")
			target := filepath.ToSlash(filepath.Join(filepath.Dir(page), file))
			if strings.HasSuffix(file, ".md") && !strings.Contains(file, "://") && !reached[target] {
				reached[target] = true
				next = append(next, target)
			}
		}
	}
	for _, page := range pages(t) {
		if !reached[page] && page != "SECURITY.md" {
			t.Errorf("no way leads from README.md to %s", page)
		}
	}
}

func TestTestsNamedInTheDocumentsExist(t *testing.T) {
	exists := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range defined.FindAllStringSubmatch(string(text), -1) {
			exists[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pages(t) {
		for _, m := range claim.FindAllStringSubmatch(prose(t, filepath.Join(root, name)), -1) {
			if !exists[m[1]] {
				t.Errorf("%s names %s, which does not exist", name, m[1])
			}
		}
	}
}

// prose is a document without its fences.
func prose(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fence.ReplaceAllString(string(text), "")
}

// anchors are those that GitHub gives to the headings of a document.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(m[1]) {
			switch {
			case r == ' ':
				b.WriteByte('-')
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				b.WriteRune(r)
			}
		}
		found[b.String()] = true
	}
	return found
}
