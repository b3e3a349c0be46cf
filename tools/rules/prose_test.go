package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// readSample runs one check of prose on a file of testdata, as if it had
// another name.
func readSample(t *testing.T, check, sample, as string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + sample)
	if err != nil {
		t.Fatal(err)
	}
	all, err := readProse(fstest.MapFS{as: {Data: text}}, "")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all.places[check], "\n")
}

func TestEachProseCheckFindsItsBreaches(t *testing.T) {
	for _, c := range []struct{ check, sample, as, want string }{
		{"comments", "prose.txt", "x/x_test.go", `x/x_test.go:4: a comment of 85 columns, more than 80
x/x_test.go:6: a comment of 82 columns, more than 80
x/x_test.go:12: a comment of 81 columns, more than 80`},
		{"code", "prose.txt", "x/x_test.go", `x/x_test.go:14: code of 114 columns, more than 110
x/x_test.go:19: code of 112 columns, more than 110`},
		{"words", "prose.txt", "x/x_test.go", `x/x_test.go:8: "theirs": say the old client's
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
x/x_test.go:44: "was told": say name who reports what: the client gets, the server reports`},
		{"words", "prose_page.txt", "x/x.md", `x/x.md:1: "hangs on": say depends on
x/x.md:1: "ours": say the getsetlock client's
x/x.md:3: "beside": say alongside, next to, besides
x/x.md:3: "somebody": say name the actor: another client, the holder
x/x.md:9: "theirs": say the old client's`},
		{"words", "prose_java.txt", "x/x.java", `x/x.java:2: "is told": say name who reports what: the client gets, the server reports
x/x.java:2: "somebody": say name the actor: another client, the holder
x/x.java:5: "Beside": say alongside, next to, besides`},
		{"names", "prose.txt", "x/x_test.go", `x/x_test.go:31: NameOfFiftyOneCharactersAfterTestIsTooLong123456789: a name of more than 50 characters: subject, verb, condition; the rest is a comment
x/x_test.go:33: NameOfFiftyOneCharactersAfterFuzzIsTooLong123456789: a name of more than 50 characters: subject, verb, condition; the rest is a comment`},
		{"names", "prose.txt", "x/x.go", ""},
	} {
		if got := readSample(t, c.check, c.sample, c.as); got != c.want {
			t.Errorf("%s of %s:\n%s\nwant\n%s", c.check, c.as, got, c.want)
		}
	}
}

func TestWidthBoundsAreEightyAndHundredTen(t *testing.T) {
	for _, c := range []struct {
		check, line string // of dashes up to the bound
		bound       int
	}{
		{"comments", "// x -", 80}, {"comments", "\t\t// x -", 80}, {"code", "var x = a -", 110},
		{"code", "\tx = a -", 110},
	} {
		for more := range 2 {
			// A word of ten characters at most, so that none is too long by
			// itself.
			line := c.line
			for columns(line) < c.bound+more {
				line += string("- -- -----"[columns(line)%10])
			}
			all, err := readProse(fstest.MapFS{"x/x.go": {Data: []byte("package x\n" + line + "\n")}}, "")
			if err != nil || len(all.places[c.check]) != more {
				t.Errorf("%d columns of %s: %q, %v", columns(line), c.check, all.places[c.check], err)
			}
		}
	}
}

// A line stays whole if it is a long string and little else.
func TestLongStringExcusesWidthOfLittleElse(t *testing.T) {
	text := func(long, rest int) string {
		return "package x\nf(\"" + strings.Repeat("s", long-2) + "\"" + strings.Repeat(", a", rest) + ")\n"
	}
	for _, c := range []struct {
		long, rest, want int
	}{{63, 15, 0}, {63, 16, 1}, {106, 20, 0}, {105, 20, 1}} {
		all, err := readProse(fstest.MapFS{"x/x.go": {Data: []byte(text(c.long, c.rest))}}, "")
		if err != nil || len(all.places["code"]) != c.want {
			t.Errorf("%d and %d: %q, %v", c.long, c.rest, all.places["code"], err)
		}
	}
}

func TestPlainWordIsAllowedInItsFileOnly(t *testing.T) {
	tree := fstest.MapFS{"a.md": {Data: []byte("Told of ours.\n")}, "b.md": {Data: []byte("ours\n")}}
	all, err := readProse(tree,
		"# a comment\n\na.md: ours  # the name of a thing\nb.md: tells of  # not there\n")
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(slices.Values(all.places["words"]))
	if want := []string{`a.md:1: "Told of": say report`, `b.md:1: "ours": say the getsetlock client's`,
		"tools/rules/plain.txt: b.md: tells of is not there any more: delete the line"}; !slices.Equal(got,
		want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, bad := range []string{"a.md ours  # why", "a.md: ours", "a.md: ours # why", "a.md: ours  # "} {
		if _, err := readProse(tree, bad); err == nil || !strings.Contains(err.Error(), "plain.txt:1") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestLeftCountsFoldersAndWords(t *testing.T) {
	all, err := readProse(fstest.MapFS{
		"a/x.md": {Data: []byte("Ours stands on theirs.\n")}, "b/x.go": {Data: []byte("package b // ours\n")},
		"testdata/x.md": {Data: []byte("ours\n")}, ".x/x.md": {Data: []byte("ours\n")},
		"target/x.md": {Data: []byte("ours\n")},
	}, "")
	const want = ` comments     code    words    names  folder
        0        0        3        0  a
        0        0        1        0  b
        0        0        4        0  all
        2  "ours"
        1  "stands on"
        1  "theirs"
`
	if err != nil || all.left() != want {
		t.Errorf("%v\n%swant\n%s", err, all.left(), want)
	}
}

func TestRepositoryKeepsItsProse(t *testing.T) {
	plain, err := os.ReadFile("plain.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := readProse(os.DirFS("../.."), string(plain))
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range enforced {
		for _, p := range all.places[check] {
			t.Error(p)
		}
	}
}

func TestEnforcedChecksExist(t *testing.T) {
	for _, name := range enforced {
		found := false
		for _, c := range proseChecks {
			found = found || c.name == name
		}
		if !found {
			t.Errorf("no check is called %q", name)
		}
	}
}
