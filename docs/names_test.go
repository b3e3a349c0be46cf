// SPDX-License-Identifier: Apache-2.0

// Package docs holds the pages for readers. Its tests hold the pages for the
// next owner against the code that they name.
package docs

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are those whose names in code are checked.
var pages = []string{"internals/architecture.md", "reference/glossary.md", "../CONTRIBUTING.md"}

var (
	// named is a name in code with its file: `Client.Acquire`
	// (`lock/client.go`).
	named = regexp.MustCompile("`([\\w.]+)`\\s+\\(`([\\w./-]+\\.(?:go|lua|java))`\\)")
	// file is a file or folder of the repository by its path.
	file = regexp.MustCompile("`((?:\\w[\\w.-]*/)+[\\w.-]*|\\w[\\w.-]*\\.(?:go|lua|sh|txt))`")
	// step is a numbered step up to the next one or the end of its list.
	step = regexp.MustCompile(`(?m)^\d+\. (?:.*\n)(?:   .*\n)*`)
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// declared are the names that a source file declares: F, T, T.Method, T.Field,
// and of a Lua script the name in its first line and its local functions.
func declared(path, text string) (map[string]bool, error) {
	names := map[string]bool{}
	switch filepath.Ext(path) {
	case ".lua":
		if m := regexp.MustCompile(`^-- ([\w-]+):`).FindStringSubmatch(text); m != nil {
			names[m[1]] = true
		}
		for _, m := range regexp.MustCompile(`(?m)^local function (\w+)`).FindAllStringSubmatch(text, -1) {
			names[m[1]] = true
		}
		return names, nil
	case ".java":
		for _, m := range regexp.MustCompile(`(?:class|interface|enum) (\w+)|(\w+)\(`).FindAllStringSubmatch(
			text, -1) {
			names[m[1]+m[2]] = true
		}
		return names, nil
	}
	tree, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
	if err != nil {
		return nil, err
	}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names[receiver(d)+d.Name.Name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				declaredBy(s, names)
			}
		}
	}
	return names, nil
}

// receiver is the type of a method and a point, and nothing for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return "?."
		}
	}
}

func declaredBy(s ast.Spec, names map[string]bool) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names[n.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		var fields *ast.FieldList
		switch t := s.Type.(type) {
		case *ast.StructType:
			fields = t.Fields
		case *ast.InterfaceType:
			fields = t.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, n := range f.Names {
				names[s.Name.Name+"."+n.Name] = true
			}
		}
	}
}

// missing returns what a page names that does not exist.
func missing(root, page string) []string {
	var out []string
	for _, m := range named.FindAllStringSubmatch(page, -1) {
		text, err := os.ReadFile(filepath.Join(root, m[2]))
		if err != nil {
			continue // it is named as a file, too
		}
		names, err := declared(m[2], string(text))
		if err != nil || !names[m[1]] {
			out = append(out, fmt.Sprintf("%s declares no %s", m[2], m[1]))
		}
	}
	for _, m := range file.FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil && strings.Contains(m[1], "/") {
			out = append(out, "there is no "+m[1])
		}
	}
	return out
}

func TestNamesInPagesExistInCode(t *testing.T) {
	for _, page := range pages {
		text := read(t, page)
		for _, m := range missing("..", text) {
			t.Errorf("%s: %s", page, m)
		}
		if page != "../CONTRIBUTING.md" && len(named.FindAllString(text, -1)) < 20 {
			t.Errorf("%s names hardly anything in code", page)
		}
	}
}

func TestMissingNamesAreFound(t *testing.T) {
	page := "Names `Client.Acquire` (`lock/client.go`), `Client.Nothing` (`lock/client.go`), `acquire`\n   (`internal/twokey/stamp/acquire.lua`), " +
		"`nothing` (`internal/twokey/stamp/acquire.lua`), `core.mu` (`lock/client.go`), `Backend.Try` (`lock/backend/backend.go`) and `F` (`lock/nothing.go`), `lock/none/`."
	got := strings.Join(missing("..", page), "; ")
	const want = "lock/client.go declares no Client.Nothing; internal/twokey/stamp/acquire.lua declares no nothing; there is no lock/nothing.go; there is no lock/none/"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// Each step of a trip says which function it passes.
func TestStepsOfArchitectureNameTheirFunction(t *testing.T) {
	n := 0
	for _, s := range step.FindAllString(read(t, "internals/architecture.md"), -1) {
		if n++; !named.MatchString(s) {
			t.Errorf("no function with its file in\n%s", s)
		}
	}
	if n < 50 {
		t.Errorf("%d steps in four trips", n)
	}
}

// words are those that the glossary defines, each once.
var words = strings.Split(`ahead|audit|backend|behind|bridge|census|claim|dialect|drift|epoch|fencing token|fleet|floor|gap|
gate|getsetlock client|gift|grant|guard|hand-over|hardened|heartbeat|hold|hole|honest|job|L|lease|
lease rule|look|M|margin|mark|member|modern|namespace|offset|old client|phase|place|
polite release|record|registry|roster|run id|server's clock|settle|slack|slew|spread|stamp|step|
sweep|takeover|target|term|token|tombstone|trust|TTL|unsure|verbatim|wake-up|watch|watcher|window`, "|")

var entry = regexp.MustCompile(`(?m)^- \*\*([^*]+)\*\*(?:.*\n)(?:  .*\n)*`)

func TestGlossaryDefinesEachWordOnce(t *testing.T) {
	seen := map[string]int{}
	for _, m := range entry.FindAllStringSubmatch(read(t, "reference/glossary.md"), -1) {
		seen[m[1]]++
		if !named.MatchString(m[0]) {
			t.Errorf("%q does not say where in the code it lives", m[1])
		}
	}
	for _, w := range words {
		w = strings.TrimSpace(w)
		if seen[w] != 1 {
			t.Errorf("%q is defined %d times", w, seen[w])
		}
		delete(seen, w)
	}
	for w := range seen {
		t.Errorf("%q is defined, and not in the list of this test", w)
	}
}

var accepts = regexp.MustCompile(`flag\.Bool\("(update[a-z-]*|record)"|golden\.Check\(`)

// CONTRIBUTING.md lists the flags that accept golden output, each with its
// package. What the command prints is accepted by the steps for a dialect.
func TestFlagsThatAcceptOutputAreListed(t *testing.T) {
	text := read(t, "../CONTRIBUTING.md")
	n := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range accepts.FindAllStringSubmatch(string(source), -1) {
			folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
			if m[1] == "" && strings.HasPrefix(folder, "cmd/") {
				continue
			}
			line := regexp.MustCompile(`(?m)^\|.*go test .*\./` + regexp.QuoteMeta(folder) + `( .*)? -` +
				cmp.Or(m[1], "update") + "`")
			if n++; !line.MatchString(text) {
				t.Errorf("CONTRIBUTING.md does not list -%s of ./%s", cmp.Or(m[1], "update"), folder)
			}
		}
		return err
	})
	if err != nil || n < 9 {
		t.Errorf("%d flags found, %v", n, err)
	}
}
