// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/golden"
)

const vectorDir = "testdata/vectors"

const vectorHeader = `# Vectors of the dialect named below. Lines are words parted by one blank.
#
# NOW and EXPIRY are nanoseconds since 1970. A VALUE is nil, or = and printable ASCII without blanks,
# or hex: and the bytes. ID is the client's own uuid or token, - where it has none.
#
#   dialect NAME
#   with FIELD VALUE                from here on the dialect is a copy with this field changed
#   stamp NOW LEASE_MS ID VALUE     a client whose clock shows NOW writes VALUE
#   decode NOW VALUE EXPIRY         VALUE is a stamp for EXPIRY to a server whose clock shows NOW, or
#   decode NOW VALUE REASON         it is none: unreadable, implausible, no-stamp; then it is held
#   next NOW ID SEEN STEP           after a lost SETNX its GET returned SEEN: wait, getset, setnx_once,
#                                   again, give_up, fail
#   wins NOW SEEN OLD OUTCOME       its GETSET returned OLD: won, lost, threw
#   release NOW OWN SEEN STEP       it holds by OWN, and sees SEEN if it looks: del, leave, fail,
#                                   compare_and_delete
`

// line is one vector.
type line struct {
	at    string // file and line number
	kind  string
	words []string
}

func readVectors(t *testing.T, path string) []line {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []line
	number := 0
	for text := range strings.Lines(string(data)) {
		number++
		words := strings.Split(strings.TrimSuffix(text, "\n"), " ")
		if words[0] == "" || words[0] == "#" || strings.HasPrefix(words[0], "#") {
			continue
		}
		lines = append(lines, line{fmt.Sprintf("%s:%d", filepath.Base(path), number), words[0], words[1:]})
	}
	return lines
}

// count makes sure that a file cannot lose a kind of line unnoticed.
func count(t *testing.T, path string, lines []line, least map[string]int) {
	t.Helper()
	for _, lack := range lacking(lines, least) {
		t.Errorf("%s: %s", path, lack)
	}
}

func lacking(lines []line, least map[string]int) []string {
	have := map[string]int{}
	for _, l := range lines {
		have[l.kind]++
	}
	var lacks []string
	for kind, n := range least {
		if have[kind] < n {
			lacks = append(lacks, fmt.Sprintf("%d lines %q, at least %d are needed", have[kind], kind, n))
		}
	}
	return lacks
}

func TestVectorFileCannotLoseKindOfLine(t *testing.T) {
	lines := readVectors(t, jarFile)
	if lacks := lacking(lines, jarKinds); len(lacks) > 0 {
		t.Error(lacks)
	}
	for kind := range jarKinds {
		kept := slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return l.kind == kind })
		if lacks := lacking(kept, jarKinds); len(lacks) != 1 || !strings.Contains(lacks[0], kind) {
			t.Errorf("without %q: %v", kind, lacks)
		}
	}
}

func wordOf(value string) string {
	for i := range len(value) {
		if value[i] <= ' ' || value[i] > '~' {
			return "hex:" + hex.EncodeToString([]byte(value))
		}
	}
	return "=" + value
}

func replyWord(r Reply) string {
	if r.Nil {
		return "nil"
	}
	return wordOf(r.Value)
}

func replyOf(t *testing.T, word string) Reply {
	t.Helper()
	switch {
	case word == "nil":
		return Nil()
	case strings.HasPrefix(word, "="):
		return Text(word[1:])
	case strings.HasPrefix(word, "hex:"):
		raw, err := hex.DecodeString(word[4:])
		if err != nil {
			t.Fatal(err)
		}
		return Text(string(raw))
	}
	t.Fatalf("no value: %q", word)
	return Reply{}
}

func nanosOf(t *testing.T, word string) time.Time {
	t.Helper()
	cut := max(0, len(word)-9)
	seconds, err1 := strconv.ParseInt("0"+word[:cut], 10, 64)
	nanos, err2 := strconv.ParseInt(word[cut:], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return time.Unix(seconds, nanos)
}

func idOf(word string) string {
	if word == "-" {
		return ""
	}
	return word
}

func decodeWord(s Stamp, err error) string {
	switch {
	case errors.Is(err, ErrUnreadable):
		return "unreadable"
	case errors.Is(err, ErrImplausible):
		return "implausible"
	case errors.Is(err, errNoStamp):
		return "no-stamp"
	case err != nil:
		return err.Error()
	}
	return strconv.FormatInt(s.Expiry.UnixNano(), 10)
}

// answer returns this package's answer to a vector's question, and the last
// word, which is the file's.
func answer(t *testing.T, d Dialect, l line) (got, want string) {
	t.Helper()
	w := l.words
	want = w[len(w)-1]
	now := nanosOf(t, w[0])
	switch l.kind {
	case "stamp":
		lease, err := strconv.ParseInt(w[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		text, err := d.Stamp(now, time.Duration(lease)*time.Millisecond, idOf(w[2]))
		if err != nil {
			return err.Error(), want
		}
		raw, err := d.EncodeValue(text)
		if err != nil {
			return err.Error(), want
		}
		return wordOf(raw), want
	case "decode":
		return decodeWord(d.Decode(replyOf(t, w[1]).Value, now)), want
	case "next":
		return string(d.LegacyNext(replyOf(t, w[2]), idOf(w[1]), now)), want
	case "wins":
		return string(d.LegacyWins(replyOf(t, w[2]), replyOf(t, w[1]), now)), want
	case "release":
		return string(d.LegacyReleases(replyOf(t, w[1]).Value, replyOf(t, w[2]), now)), want
	}
	t.Fatalf("%s: no kind of vector: %q", l.at, l.kind)
	return "", ""
}

func checkVectors(t *testing.T, path string, least map[string]int) {
	t.Helper()
	lines := readVectors(t, path)
	count(t, path, lines, least)
	var d Dialect
	for _, l := range lines {
		switch l.kind {
		case "dialect":
			var err error
			if d, err = Lookup(l.words[0]); err != nil {
				t.Fatal(err)
			}
			continue
		case "with":
			if err := d.overlay(fmt.Appendf(nil, "{%q:%q}", l.words[0], l.words[1])); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, want := answer(t, d, l); got != want {
			t.Errorf("%s: %s %s: got %s", l.at, l.kind, strings.Join(l.words, " "), got)
		}
	}
}

func TestVectorsPinEveryDialect(t *testing.T) {
	for _, d := range Presets() {
		path := filepath.Join(vectorDir, strings.ToLower(d.Name)+".txt")
		golden.Check(t, path, makeVectors(t, d))
		checkVectors(t, path, map[string]int{
			"dialect": 1, "stamp": 3, "decode": 10, "next": 10, "wins": 10, "release": 6})
	}
}

func TestRealLibrariesMatchTheirPresets(t *testing.T) {
	least := map[string]int{"dialect": 1, "stamp": 4, "next": 20, "wins": 40, "release": 4}
	found, err := filepath.Glob(filepath.Join(vectorDir, "recorded-*.txt"))
	if err != nil || len(found) < 4 {
		t.Fatalf("recorded vectors: %v, %v; at least four files belong here", found, err)
	}
	for _, path := range found {
		checkVectors(t, path, least)
	}
}
