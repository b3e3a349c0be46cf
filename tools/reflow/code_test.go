package main

import (
	"bytes"
	"fmt"
	"go/format"
	"go/scanner"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/getsetlock/getsetlock/internal/testing/seeds"
)

// name is a word of ten columns, of which lines are made.
const name = "abcdefghij"

func TestCodeIsBrokenWhereItIsLeastDeep(t *testing.T) {
	six := strings.TrimSuffix(strings.Repeat(name+", ", 6), ", ")
	for _, c := range []struct{ what, code, want string }{
		{"short", "f(" + six + ")", ""},
		{"arguments", "f(" + six + ", g(" + six + "))", "f(" + six + ",\n\t\tg(" + six + "))"},
		{
			"condition", "if " + name + " || f(" + six + ") || g(" + name + ", " + name + ") {\n\t}",
			"if " + name + " || f(" + six + ") ||\n\t\tg(" + name + ", " + name + ") {\n\t}",
		},
		{
			"function literal", "f(func() { g(" + six + "); g(" + six + ") })",
			"f(func() {\n\t\tg(" + six + ")\n\t\tg(" + six + ")\n\t})",
		},
		{
			"comment after code", "f(" + six + ") // " + name + " " + name + " " + name,
			"// " + name + " " + name + " " + name + "\n\tf(" + six + ")",
		},
		{
			"comment after a brace", "if f(" + six + ") { // " + name + " " + name + " " + name + "\n\t}",
			"if f(" + six + ") {\n\t\t// " + name + " " + name + " " + name + "\n\t}",
		},
		{"directive after code", "f(" + six + ") //nolint:" + strings.Repeat(name, 4), ""},
		{"long string", "f(1, 2, \"" + strings.Repeat(name, 11) + "\", 3)", ""},
		{"raw string", "f(`\n" + strings.Repeat(name+", ", 12) + "`)", ""},
		{"assigned", "a, b := f(" + six + ", " + six + ")",
			"a, b := f(" + six + ", " + name + ", " + name + ",\n\t\t" +
				strings.TrimSuffix(strings.Repeat(name+", ", 4), ", ") + ")"},
		{
			"many assigned", six + " := f(g(" + name + ", " + name + ", " + name + "))",
			six + " := f(\n\t\tg(" + name + ", " + name + ", " + name + "))",
		},
		{
			"function literal that would fit broken",
			"f(" + six + ", func() { g(); g(" + name + ", " + name + ") })",
			"f(" + six + ", func() {\n\t\tg()\n\t\tg(" + name + ", " + name + ")\n\t})",
		},
		{
			"brackets at the limit", "f(" + six + ", " + name + ", " + name + ", T{" + name + "})",
			"f(" + six + ", " + name + ", " + name + ",\n\t\tT{" + name + "})",
		},
		{
			"nothing but a selector", strings.Repeat(name, 9) + "." + name + "()." + name,
			strings.Repeat(name, 9) + "." + name + "().\n\t\t" + name,
		},
		{
			"brackets that gofmt joins", "if " + strings.Repeat(name, 4) + " != (T{" + six + "}) {\n\t}",
			"if " + strings.Repeat(name, 4) + " != (T{\n\t\t" + six + "}) {\n\t}",
		},
		{"nothing at all", strings.Repeat(name, 11), ""},
		{
			"key and value", "x = T{" + strings.Repeat(name, 5) + ": " + strings.Repeat(name, 6) + "}",
			"x = T{\n\t\t" + strings.Repeat(name, 5) + ": " + strings.Repeat(name, 6) + "}",
		},
		{"kept", "kept(" + six + ", " + six + ")", ""},
	} {
		text := "package x\n\nfunc x() {\n\t" + c.code + "\n}\n"
		formatted, err := format.Source([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.what, err, text)
		}
		want := "package x\n\nfunc x() {\n\t" + c.want + "\n}\n"
		if c.want == "" {
			want = string(formatted)
		}
		got, err := breakCode(formatted, map[string]bool{"kept(" + six + ", " + six + ")": true})
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.what, err, got, want)
		}
	}
}

func TestFunctionOfOneLineIsOpened(t *testing.T) {
	args := strings.TrimSuffix(strings.Repeat(name+", ", 5), ", ")
	text := "package x\n\nfunc x(" + args + " int) int { return f(" + args + ") }\n"
	want := "package x\n\nfunc x(" + args + " int) int {\n\treturn f(" + args + ")\n}\n"
	if got, err := breakCode([]byte(text), nil); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestLinesThatMutantsNameAreKept(t *testing.T) {
	got := mutated(fstest.MapFS{
		"a.txt": {Data: []byte("file x.go\n- \tif a {\n+ \tif b {\n# -c\n")}, "b.go": {Data: []byte("- x\n")},
	})
	if len(got) != 1 || !got["if a {"] {
		t.Errorf("%v", got)
	}
}

// keepsCode fails the test unless breakCode keeps a file's tokens and the words
// of its comments, is idempotent, and leaves no work to gofmt.
func keepsCode(t *testing.T, name string, text []byte) {
	t.Helper()
	once, err := breakCode(text, nil)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if twice, err := breakCode(once, nil); err != nil || !bytes.Equal(once, twice) {
		t.Errorf("%s: a second run changes it again, %v:\n%s\nthen\n%s", name, err, once, twice)
	}
	wasCode, wasWords := parts(text)
	isCode, isWords := parts(once)
	if !slices.Equal(wasCode, isCode) {
		t.Errorf("%s: the tokens changed:\n%q\nnow\n%q", name, wasCode, isCode)
	}
	slices.Sort(wasWords)
	slices.Sort(isWords)
	if !slices.Equal(wasWords, isWords) {
		t.Errorf("%s: the comments changed:\n%q\nnow\n%q", name, wasWords, isWords)
	}
	if formatted, err := format.Source(text); err != nil || !bytes.Equal(formatted, text) {
		return // it was not clean before
	}
	if formatted, err := format.Source(once); err != nil || !bytes.Equal(formatted, once) {
		t.Errorf("%s: gofmt would change it, %v:\n%s", name, err, once)
	}
}

// parts are the tokens of a file without semicolons, which a line end stands in
// for, and the words of its comments.
func parts(text []byte) (code, comments []string) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(text)), text, nil, scanner.ScanComments)
	for {
		_, kind, lit := s.Scan()
		switch kind {
		case token.EOF:
			return code, comments
		case token.SEMICOLON:
		case token.COMMENT:
			comments = append(comments, strings.Fields(lit)...)
		default:
			code = append(code, kind.String()+lit)
		}
	}
}

func TestBrokenCodeKeepsTokensOfTheRepository(t *testing.T) {
	n := 0
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != "../.." && skipped(d.Name()) {
			return fs.SkipDir
		}
		if filepath.Ext(file) != ".go" {
			return nil
		}
		text, err := os.ReadFile(file)
		if n++; err == nil {
			keepsCode(t, file, text)
		}
		return err
	})
	if err != nil || n < 100 {
		t.Errorf("%d files, %v", n, err)
	}
}

func TestBrokenCodeKeepsTokensOfRandomCode(t *testing.T) {
	for _, seed := range seeds.With(t, 2) {
		r := rand.New(rand.NewPCG(seed, 0))
		for range 600 {
			text, err := format.Source([]byte("package x\n\nfunc x() {\n" + randomStatements(r, 2) + "}\n"))
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if keepsCode(t, fmt.Sprintf("seed %d", seed), text); t.Failed() {
				return
			}
		}
	}
}

func randomStatements(r *rand.Rand, depth int) string {
	var b strings.Builder
	for range 1 + r.IntN(3) {
		x := randomExpression(r, 3)
		switch r.IntN(7) {
		case 0:
			b.WriteString("if f(" + x + ") == 1 {")
			if r.IntN(3) == 0 {
				b.WriteString(" // " + name + " " + name)
			}
			b.WriteString("\n" + randomBlock(r, depth) + "}\n")
		case 1:
			b.WriteString("a, b := " + x + ", " + randomExpression(r, 2) + "\n")
		case 2:
			b.WriteString("f(func() { " + x + " })\n")
		case 3:
			b.WriteString("f(func() { " + x + "; " + randomExpression(r, 2) + " }) // " + name + "\n")
		case 4:
			b.WriteString("switch " + name + " {\ncase " + x + ", " + randomExpression(r, 2) + ": // " +
				name + "\n}\n")
		case 5:
			b.WriteString("return " + x + ", " + randomExpression(r, 2) + "\n")
		default:
			b.WriteString(x + " // " + name + " " + name + "\n")
		}
	}
	return b.String()
}

func randomBlock(r *rand.Rand, depth int) string {
	if depth == 0 {
		return ""
	}
	return randomStatements(r, depth-1)
}

func randomExpression(r *rand.Rand, depth int) string {
	if depth == 0 {
		return []string{name, "1", "\"" + strings.Repeat("s", 1+r.IntN(60)) + "\"",
			"`raw\nstring, of two lines`", "x"}[r.IntN(5)]
	}
	a, b := randomExpression(r, depth-1), randomExpression(r, depth-1)
	switch r.IntN(6) {
	case 0:
		return "f(" + a + ", " + b + ")"
	case 1:
		return "f(T{" + a + ", F: " + b + "}.m())"
	case 2:
		return "f(" + a + " + " + b + ")"
	case 3:
		return "f(" + a + " || " + b + " && x[" + name + "])"
	case 4:
		return "f(" + a + ", []int{1, 2}...)"
	default:
		return "f(" + a + ", func(a, b int) (c, d int) { return " + b + ", 1 })"
	}
}
