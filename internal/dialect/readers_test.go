// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// recorded reads a file that a real interpreter wrote: on each line a JSON
// text, then words.
func recorded(t *testing.T, name string) map[string][]string {
	t.Helper()
	data, err := os.ReadFile("testdata/readers/" + name)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndexByte(line, '"') + 1
		var text string
		if err := json.Unmarshal([]byte(line[:end]), &text); err != nil {
			t.Fatalf("%s: %s: %v", name, line, err)
		}
		lines[text] = strings.Fields(line[end:])
	}
	if len(lines) < 100 {
		t.Fatalf("%s holds %d texts, which proves little", name, len(lines))
	}
	return lines
}

// agrees compares a reading with what the interpreter printed.
func agrees(r reading, want string) bool {
	if want == "unreadable" || r.Kind != kindNumber {
		return want == "unreadable" && r.Kind == kindUnreadable
	}
	f, err := strconv.ParseFloat(want, 64)
	if r.IsFloat {
		return r.Float == f || math.IsNaN(r.Float) && math.IsNaN(f)
	}
	n, intErr := strconv.ParseInt(want, 10, 64) // saturates, as reading does
	return r.Int == n && (intErr == nil || err == nil && math.Abs(f) > math.MaxInt64/2)
}

func TestReadersAgreeWithRealInterpreters(t *testing.T) {
	for _, c := range []struct {
		file   string
		reader Reader
		word   int
	}{
		{"python.txt", ReadPythonFloat, 1},
		{"ruby.txt", ReadRubyFloat, 1},
		{"ruby.txt", ReadRubyInt, 3},
		{"js.txt", ReadJSParseFloat, 1},
		{"js.txt", ReadJSParseInt, 3},
		{"java.txt", ReadJavaLong, 1},
	} {
		for text, words := range recorded(t, c.file) {
			if got := readNumber(c.reader, text); !agrees(got, words[c.word]) {
				t.Errorf("%s of %q: got %+v, the interpreter says %s", c.reader, text, got, words[c.word])
			}
		}
	}
}

func TestJavaScriptEqualityReadsTheWholeText(t *testing.T) {
	for text, words := range recorded(t, "js.txt") {
		got := readNumber(ReadJSParseFloat, text)
		got.Float = jsNumber(text)
		if !agrees(got, words[5]) {
			t.Errorf("Number(%q): got %v, Node says %s", text, got.Float, words[5])
		}
	}
}

func TestJedisUUIDReadsWhatJavaReads(t *testing.T) {
	for text, words := range recorded(t, "java.txt") {
		got := readNumber(ReadJavaUUID, text)
		want := words[3]
		if want == "unreadable" {
			if got.Kind != kindUnreadable || got.UUID != "" {
				t.Errorf("uuid:long of %q: got %+v, Java threw", text, got)
			}
			continue
		}
		if have := got.UUID + ":" + strconv.FormatInt(got.Int, 10); have != want {
			t.Errorf("uuid:long of %q: got %s, Java says %s", text, have, want)
		}
	}
}

func TestPHP8ComparesAsPHPDoes(t *testing.T) {
	seconds := Kdyby()
	seconds.Reader, seconds.Unreadable, seconds.Empty = ReadPHP8, UnreadableHeld, EmptyIsText
	millis := seconds
	millis.Unit = UnitMillis
	now := at(1_400_000_000_000)
	// Unreadable decides only what PHP itself leaves open, which is nothing.
	seconds.Unreadable, millis.Unreadable = UnreadableZero, UnreadableZero
	for text, words := range recorded(t, "php8.txt") {
		for i, d := range []Dialect{seconds, millis} {
			if got := d.LegacyExpired(Text(text), "", now); strconv.FormatBool(got) != words[i] {
				t.Errorf("%q < now in %s: got %v, PHP says %s", text, d.Unit, got, words[i])
			}
		}
	}
}

func TestPHP7ReadsLeadingNumberOrZero(t *testing.T) {
	for text, want := range map[string]int64{
		"123abc": 123, "abc": 0, " 12": 12, "12 ": 12, "-5x": -5, ".x": 0} {
		if got := readNumber(ReadPHP7, text); got.Kind != kindNumber || got.IsFloat || got.Int != want {
			t.Errorf("php7 of %q: got %+v, want %d", text, got, want)
		}
	}
	if got := readNumber(ReadPHP7, "1.5e3x"); !got.IsFloat || got.Float != 1500 {
		t.Errorf("php7 of 1.5e3x: got %+v", got)
	}
}

func TestDotNetAndGoRefuseTheSameTexts(t *testing.T) {
	for text, want := range map[string][2]bool{ // .NET, Go
		"5": {true, true}, " 5 ": {true, false}, "+5": {true, true}, "5\x00": {true, false},
		"":    {false, false},
		"5.0": {false, false}, "9223372036854775808": {false, false}, "0x5": {false, false},
		"5_0": {false, false},
	} {
		for i, reader := range []Reader{ReadDotNetLong, ReadGoInt} {
			if got := readNumber(reader, text).Kind == kindNumber; got != want[i] {
				t.Errorf("%s of %q: readable %v", reader, text, got)
			}
		}
	}
}
