// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// linked are documents whose links are followed too. Their Go is compared
// elsewhere.
var linked = []string{"docs/guide/modern.md", "docs/guide/audit.md", "docs/reference/command.md",
	"docs/reference/compared.md",
	"docs/guide/etcd.md", "docs/guide/zookeeper.md",
	"docs/zh/modern.md", "docs/zh/protocol.md", "docs/zh/java-dual.md"}

func TestLinksInTheDocumentsLeadSomewhere(t *testing.T) {
	known := map[string]map[string]bool{} // anchors by file
	for _, name := range slices.Concat(documents, linked) {
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

// A page that the README does not name is found by nobody.
func TestReadmeLinksEveryPage(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*", "*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages in docs: %v", len(pages), err)
	}
	_, list, found := strings.Cut(prose(t, filepath.Join(root, "README.md")), "## Read on\n")
	if !found {
		t.Fatal("README.md has no list of pages")
	}
	for _, page := range pages {
		name := strings.TrimPrefix(filepath.ToSlash(page), root+"/")
		if !strings.HasPrefix(name, "docs/zh/") && !strings.Contains(list, "]("+name+")") {
			t.Errorf("README.md does not list %s", name)
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
	for _, name := range slices.Concat(documents, linked) {
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
