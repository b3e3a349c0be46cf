// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const document = "../docs/guide/modern.md"

var (
	shown   = regexp.MustCompile("(?ms)^<!-- modern/([^ :]+): ([^ ]+) -->\n```go\n(.*?)^```$")
	anyGo   = regexp.MustCompile("(?m)^```go$")
	claimed = regexp.MustCompile("`(Test[A-Za-z]+)`")
)

// TestDocumentShowsCompiledCode compares its Go with the example's regions;
// -update writes them.
func TestDocumentShowsCompiledCode(t *testing.T) {
	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if n := len(shown.FindAllString(text, -1)); n != len(anyGo.FindAllString(text, -1)) {
		t.Errorf("%d pieces of Go name where they are compiled, and there are more", n)
	}
	now := shown.ReplaceAllStringFunc(text, func(found string) string {
		m := shown.FindStringSubmatch(found)
		want := region(t, m[1], m[2])
		if m[3] != want && !*update {
			t.Errorf("%s differs from region %q of %s (-update writes it)", document, m[2], m[1])
		}
		return strings.Replace(found, "```go\n"+m[3], "```go\n"+want, 1)
	})
	if *update && now != text {
		if err := os.WriteFile(document, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// region is what stands between "// doc: name" and "// doc: end", without its
// margin.
func region(t *testing.T, file, name string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "// doc: "+name+"\n")
	inside, _, ends := strings.Cut(rest, "// doc: end")
	if !found || !ends {
		t.Fatalf("%s has no region %q", file, name)
	}
	inside = strings.Trim(strings.TrimRight(inside, "\t"), "\n")
	margin := inside[:len(inside)-len(strings.TrimLeft(inside, "\t"))]
	var b strings.Builder
	for _, line := range strings.Split(inside, "\n") {
		b.WriteString(strings.TrimPrefix(line, margin) + "\n")
	}
	return b.String()
}

func TestTestsThatTheDocumentNamesExist(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			source, err := os.ReadFile(path)
			sources.Write(source)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range claimed.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(sources.String(), "func "+m[1]+"(") {
			t.Errorf("%s names %s, which does not exist", document, m[1])
		}
	}
}
