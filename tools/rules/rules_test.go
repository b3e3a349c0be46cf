package main

import (
	"fmt"
	"os"
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
		"lock/broken_test.go": `lock/broken_test.go:28: a test that sleeps: await an event, or move virtual time in a bubble
lock/broken_test.go:35: a test that skips: fail, and say what is missing
lock/broken_test.go:36: a test that skips: fail, and say what is missing`,
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
	})
	if err != nil || strings.Join(got, " ") != "a: no file has a package comment" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRepositoryKeepsItsRules(t *testing.T) {
	got, err := checkTree(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range got {
		t.Error(place)
	}
}
