// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the pages' code anew")

var (
	shown   = regexp.MustCompile("(?ms)^<!-- ([^ :]+\\.go): ([^ ]+) -->\n```go\n(.*?)^```$")
	anyGo   = regexp.MustCompile("(?m)^```go$")
	claimed = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
)

// The code of these pages is compiled and run by tests: it is a region of a
// file. -update writes it.
func TestPagesShowCompiledCode(t *testing.T) {
	for _, page := range []string{
		"guide/opening.md", "guide/managed.md", "guide/quorum.md", "guide/schedulers.md",
	} {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		if n := len(shown.FindAllString(text, -1)); n != len(anyGo.FindAllString(text, -1)) {
			t.Errorf("%s: %d pieces of Go name where they are compiled, and there are more", page, n)
		}
		now := shown.ReplaceAllStringFunc(text, func(found string) string {
			m := shown.FindStringSubmatch(found)
			want := region(t, filepath.Join("..", m[1]), m[2])
			if m[3] != want && !*update {
				t.Errorf("%s differs from region %q of %s (-update writes it)", page, m[2], m[1])
			}
			return strings.Replace(found, "```go\n"+m[3], "```go\n"+want, 1)
		})
		if *update && now != text {
			if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
				t.Fatal(err)
			}
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

func TestPagesNameTestsThatExist(t *testing.T) {
	var sources strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
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
	for _, page := range []string{"guide/opening.md", "guide/managed.md", "guide/quorum.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range claimed.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(sources.String(), "func "+m[1]+"(t ") {
				t.Errorf("%s names %s, which is no test", page, m[1])
			}
		}
	}
}

// What the page says of errors is what the code says.
func TestOpeningQuotesTheErrors(t *testing.T) {
	var code string
	for _, file := range []string{"advice.go", "open.go", "sentinel.go", "../internal/cluster/refuse.go"} {
		text, err := os.ReadFile(filepath.Join("..", "redisconn", file))
		if err != nil {
			t.Fatal(err)
		}
		code += string(text)
	}
	wire, err := os.ReadFile("../internal/wire/explain.go")
	if err != nil {
		t.Fatal(err)
	}
	code = strings.ReplaceAll(code+string(wire), "%s's", "server's")
	page, err := os.ReadFile("guide/opening.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| the error says | do this |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) < 10 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		says := strings.TrimSpace(strings.Split(row, "|")[1])
		for _, who := range []string{"the server ", "the sentinel "} {
			says = strings.TrimPrefix(says, who)
		}
		if !strings.Contains(code, says) {
			t.Errorf("no error says %q", says)
		}
	}
}
