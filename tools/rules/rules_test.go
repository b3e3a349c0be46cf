package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func found(t *testing.T, name, text string) string {
	t.Helper()
	places, err := check(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(places, "\n")
}

func TestRulesFindEveryBreach(t *testing.T) {
	text, err := os.ReadFile("testdata/broken.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"lock/broken.go": `lock/broken.go:27: time.Now outside clock.go: ask the Clock
lock/broken.go:28: time.Sleep outside clock.go: ask the Clock
lock/broken.go:29: time.After outside clock.go: ask the Clock
lock/broken.go:8: Bare has no comment
lock/broken.go:10: Exported has no comment
lock/broken.go:19: One has no comment`,
		"lock/clock.go": `lock/clock.go:8: Bare has no comment
lock/clock.go:10: Exported has no comment
lock/clock.go:19: One has no comment`,
		"lock/locktest/kit.go": `lock/locktest/kit.go:8: Bare has no comment
lock/locktest/kit.go:10: Exported has no comment
lock/locktest/kit.go:19: One has no comment`,
		"lock/broken_test.go": `lock/broken_test.go:28: time.Sleep: a test that sleeps: await an event, or move virtual time in a bubble
lock/broken_test.go:35: t.Skip: a test that skips: fail, and say what is missing
lock/broken_test.go:36: t.SkipNow: a test that skips: fail, and say what is missing`,
	} {
		if got := found(t, name, string(text)); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestSleepInABubbleIsVirtual(t *testing.T) {
	const text = "package x\nimport \"testing/synctest\"\nfunc f() { time.%s(1) }\n"
	if got := found(t, "x/x_test.go", fmt.Sprintf(text, "Sleep")); got != "" {
		t.Error(got)
	}
}

func TestSeventyLinesAreAFunctionAndSeventyOneTooMany(t *testing.T) {
	for lines, want := range map[int]string{70: "", 71: "cmd/x.go:2: f has 71 lines, more than 70"} {
		text := fmt.Sprintf("package main\nfunc f() {%s}\n", strings.Repeat("\n", lines-1))
		if got := found(t, "cmd/x.go", text); got != want {
			t.Errorf("%d lines: %q, want %q", lines, got, want)
		}
	}
}

func TestPackageWithoutCommentIsNamed(t *testing.T) {
	got, err := checkTree(fstest.MapFS{
		"a/a.go":           {Data: []byte("package a\n")},
		"b/b.go":           {Data: []byte("package b\n")},
		"b/doc.go":         {Data: []byte("// Package b is.\npackage b\n")},
		"c/c_test.go":      {Data: []byte("package c\n")},
		"d/testdata/d.go":  {Data: []byte("no Go")},
		".cache/module.go": {Data: []byte("no Go")},
	}, nil, nil)
	if err != nil || strings.Join(got, " ") != "a: no file has a package comment" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestExportedNamesAreCounted(t *testing.T) {
	const text = `package x

type (
	T struct{ Field int }
	I interface{ Method() }
	t int
)

const A, b = 1, 2

var C = 3

func F() {}
func (T) M() {}
func (*T) String() string { return "" }
func (t) N() {}
`
	for name, want := range map[string]int{
		"x/x.go": 6, "x/x_test.go": 0, "x.go": 0, "internal/x/x.go": 0, "x/internal/y/y.go": 0,
		"cmd/x/x.go": 0,
	} {
		names := map[string]int{}
		if err := count(names, name, text); err != nil ||
			names["x"]+names["x/internal/y"]+names["internal/x"]+names["cmd/x"]+names["."] != want {
			t.Errorf("%s: %v, %v", name, names, err)
		}
	}
}

func TestTooManyNamesAreFound(t *testing.T) {
	got := tooMany(map[string]int{"migrate": 50, "x": 121, "y": 120, "z": 600})
	if slices.Sort(got); len(got) != 3 || !strings.HasPrefix(got[0], "all public packages: 891") ||
		!strings.HasPrefix(got[1], "x: 121") || !strings.HasPrefix(got[2], "z: 600") {
		t.Errorf("%q", got)
	}
}

// Methods are not among the names that a user of package lock meets first.
func TestNamesOfPackageLockAreBounded(t *testing.T) {
	for text, want := range map[string]int{
		strings.Repeat("var V int\n", 25) + "type t int\nfunc (T) M() {}\n": 0,
		strings.Repeat("var V int\n", 26):                                   1,
	} {
		names := map[string]int{}
		if err := count(names, "lock/x.go", "package lock\n"+text); err != nil {
			t.Fatal(err)
		}
		if got := tooMany(names); len(got) != want {
			t.Errorf("%v: %q", names, got)
		}
	}
}

func TestRepositoryKeepsItsRules(t *testing.T) {
	got, err := checkTree(os.DirFS("../.."), walls, exceptions)
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range got {
		t.Error(place)
	}
}

func TestBranchesAreCounted(t *testing.T) {
	ways := "\tif a && b || c {\n\t}\n\tfor range d {\n\t}\n\tswitch {\n\tcase a:\n\tdefault:\n\t}\n" // 5
	for n, want := range map[int]int{(mostBranches - 1) / 5: 0, mostBranches/5 + 1: 1} {
		text := "package x\n\nfunc f() {\n" + strings.Repeat(ways, n) + "}\n"
		got, err := check("x/x.go", text)
		if err != nil {
			t.Fatal(err)
		}
		found := slices.DeleteFunc(got,
			func(s string) bool { return !strings.Contains(s, "branches, more than") })
		if len(found) != want {
			t.Errorf("%d times 5 branches: %q", n, got)
		}
		if got, _ := check("x/x_test.go", text); slices.ContainsFunc(got,
			func(s string) bool { return strings.Contains(s, "branches") }) {
			t.Errorf("of a test: %q", got)
		}
	}
}
