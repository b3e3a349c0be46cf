// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// breaches checks a tree that has one file, and no words that are allowed.
func breaches(t *testing.T, file, text string) []string {
	t.Helper()
	found, err := checkTree(fstest.MapFS{file: {Data: []byte(text)}, "tools/rules/plain.txt": {}})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// inProse are the breaches in testdata/prose.txt besides its tests' names.
const inProse = `x/x_test.go:4: a comment of 85 columns, more than 80
x/x_test.go:6: a comment of 82 columns, more than 80
x/x_test.go:12: a comment of 81 columns, more than 80
x/x_test.go:8: "theirs": say the old client's
x/x_test.go:13: "hangs on": say depends on
x/x_test.go:13: "somebody's": say name the actor: another client, the holder
x/x_test.go:13: "is told": say name who reports what: the client gets, the server reports
x/x_test.go:13: "ours": say the getsetlock client's
x/x_test.go:13: "he": say it; a person is they
x/x_test.go:13: "stands on": say is stored on, is on
x/x_test.go:13: "theirs": say the old client's
x/x_test.go:26: "Whoever": say name the actor: the caller, the client that
x/x_test.go:26: "gives on": say hand over
x/x_test.go:26: "tells of": say report
x/x_test.go:26: "beside": say alongside, next to, besides
x/x_test.go:26: "whom": say name the actor
x/x_test.go:26: "had by": say held by
x/x_test.go:27: "be had": say get, find out; "cannot be had": unknown
x/x_test.go:28: "for want of": say without, because there is no
x/x_test.go:28: "clocks apart": say clock spread
x/x_test.go:43: "ours": say the getsetlock client's
x/x_test.go:44: "was told": say name who reports what: the client gets, the server reports`

const longTestNames = `
x/x_test.go:31: NameOfFiftyOneCharactersAfterTestIsTooLong123456789` + tooLong + `
x/x_test.go:33: NameOfFiftyOneCharactersAfterFuzzIsTooLong123456789` + tooLong

const tooLong = ": a name of more than 50 characters: subject, verb, condition; the rest is a comment"

func TestEachCheckFindsItsBreaches(t *testing.T) {
	for _, c := range []struct{ sample, as, want string }{
		{"prose_page.txt", "x/x.md", `x/x.md:1: "hangs on": say depends on
x/x.md:1: "ours": say the getsetlock client's
x/x.md:3: "beside": say alongside, next to, besides
x/x.md:3: "somebody": say name the actor: another client, the holder
x/x.md:9: "theirs": say the old client's`},
		{"prose_java.txt", "x/x.java", `x/x.java:2: "is told": say name who reports what: the client gets, the server reports
x/x.java:2: "somebody": say name the actor: another client, the holder
x/x.java:5: "Beside": say alongside, next to, besides`},
		{"prose.txt", "x/x.go", strings.ReplaceAll(inProse, "x_test", "x")},
		{"prose.txt", "x/x_test.go", inProse + longTestNames},
	} {
		text, err := os.ReadFile("testdata/" + c.sample)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(c.want, "\n")
		slices.Sort(want)
		if got := breaches(t, c.as, string(text)); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.as, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestCommentsHaveEightyColumns(t *testing.T) {
	for _, line := range []string{"// x -", "\t\t// x -"} {
		for more := range 2 {
			// A word of ten characters at most, so that none is too long by
			// itself.
			for columns(line) < commentWidth+more {
				line += string("- -- -----"[columns(line)%10])
			}
			if got := breaches(t, "x/x.go", "package x\n"+line+"\n"); len(got) != more {
				t.Errorf("%d columns: %q", columns(line), got)
			}
		}
	}
}

func TestSourceNamesItsLicence(t *testing.T) {
	for text, want := range map[string]bool{
		"// " + licence + "\n\npackage x\n": true,
		"#!/bin/sh\n# " + licence + "\n":    true,
		"package x\n\n// " + licence + "\n": false,
		"package x\n":                       false,
		"":                                  false,
		"// SPDX-License-Identifier: MIT\npackage": false,
	} {
		if got := licensed(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// A comment on a file's first line is one like all others.
func TestFirstLineHasEightyColumns(t *testing.T) {
	if got := breaches(t, "x/x.go", "// "+strings.Repeat("word ", 16)+"\npackage x\n"); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

func TestSleepInABubbleIsVirtual(t *testing.T) {
	const text = "package x\n\nimport (\n\t\"time\"\n)\n\nfunc f() { time." + "Sleep(1); clock.Sleep(2) }\n"
	for file, want := range map[string]int{"x/x_test.go": 1, "x/x.go": 0} {
		if got := breaches(t, file, text); len(got) != want ||
			want == 1 && !strings.HasPrefix(got[0], "x/x_test.go:7: a test that sleeps") {
			t.Errorf("%s: %q", file, got)
		}
		bubbles := strings.Replace(text, "\"time\"", "\"testing/synctest\"", 1)
		if got := breaches(t, file, bubbles); len(got) != 0 {
			t.Errorf("%s with bubbles: %q", file, got)
		}
	}
}

func TestPlainWordIsAllowedInItsFileOnly(t *testing.T) {
	tree := fstest.MapFS{"a.md": {Data: []byte("Told of ours.\n")}, "b.md": {Data: []byte("ours\n")},
		"testdata/x.md": {Data: []byte("ours\n")}, ".x/x.md": {Data: []byte("ours\n")},
		"target/x.md": {Data: []byte("ours\n")}}
	plain := func(text string) ([]string, error) {
		tree["tools/rules/plain.txt"] = &fstest.MapFile{Data: []byte(text)}
		return checkTree(tree)
	}
	got, err := plain("# a comment\n\na.md: ours  # the name of a thing\nb.md: tells of  # not there\n")
	if want := []string{`a.md:1: "Told of": say report`, `b.md:1: "ours": say the getsetlock client's`,
		"tools/rules/plain.txt: b.md: tells of is not there any more: delete the line"}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	for _, bad := range []string{"a.md ours  # why", "a.md: ours", "a.md: ours # why", "a.md: ours  # "} {
		if _, err := plain(bad); err == nil || !strings.Contains(err.Error(), "plain.txt:1") {
			t.Errorf("%q: %v", bad, err)
		}
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
	got := tooMany(map[string]int{"migrate": 50, "x": 121, "y": 120, "z": 600,
		"adapters/a": 30, "adapters/b": 13})
	if slices.Sort(got); len(got) != 4 || !strings.HasPrefix(got[0], "all adapters: 43") ||
		!strings.HasPrefix(got[1], "all public packages: 891") || !strings.HasPrefix(got[2], "x: 121") ||
		!strings.HasPrefix(got[3], "z: 600") {
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

func TestWallsReachThroughImports(t *testing.T) {
	const (
		operator = module + "internal/operator/"
		all      = module + "lock context net time\n" + operator + "census lock " + operator + "simulate\n" +
			"x " + module + "skewed network osmosis github.com/gomodule/redigo/redis\n"
	)
	for i, want := range []string{
		operator + "census imports " + operator + "simulate for ./migrate: a service",
		module + "lock imports net for ./skew/... ./internal/operator/census ",
	} {
		got := walls[i].breaches(all)
		if len(got) != i+1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%q, want %s", got, want)
		}
		listing, err := walls[i].listing("../..")
		if err != nil || !strings.Contains(listing, module+"internal/dialect ") {
			t.Errorf("go list: %.200s, %v", listing, err)
		}
	}
}

func TestRepositoryKeepsItsRules(t *testing.T) {
	got, err := checkTree(os.DirFS("../.."))
	more, failed := reached("../..")
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	for _, place := range append(got, more...) {
		t.Error(place)
	}
}
