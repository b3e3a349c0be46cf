package offset

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func observedAt(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

func everyObserved() []Observed {
	at := observedAt(1_770_000_000_123_456)
	return []Observed{
		{At: at, Kind: ObservedCommand, Addr: "10.0.0.7:51234",
			Args: []string{"SETNX", "stock", "1770000060125"}},
		{At: at, Kind: ObservedCommand, Addr: "lua", DB: 3, Args: []string{"get", "a b\"\\\x00\xffé", ""}},
		{At: at, Kind: ObservedLook, Key: "stock", Exists: true, Value: "1770000060125"},
		{At: at, Kind: ObservedLook, Key: "stock", Exists: true, Value: "-", HasTTL: true, TTL: 29996 * ms},
		{At: at, Kind: ObservedLook, Key: "-"},
		{At: at, Kind: ObservedEvent, Event: "expired", Key: "stock"},
		{At: at, Kind: ObservedHold, Addr: "10.0.0.7:51234", Key: "stock", For: 4999875 * time.Microsecond},
		{At: at, Kind: ObservedStep, For: -2500 * ms},
		{At: at, Kind: ObservedGap, For: time.Minute, Reason: "budget spent"},
		{At: at, Kind: ObservedClient, Addr: "10.0.0.7:51234", Name: "stock-7", Library: "jedis 5.1.0"},
		{At: at, Kind: ObservedStats, Event: "setnx", Count: 8124},
		{At: at, Kind: ObservedProbe, Event: "type", Args: []string{"lock:", "hash", "2", "lock:7"}},
	}
}

// The file is the format's vector. Other languages can read it, and it may not
// change within a version.
func TestRecordMatchesItsVector(t *testing.T) {
	want, err := os.ReadFile("testdata/observed.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/clocks.md")
	if err != nil {
		t.Fatal(err)
	}
	if sample := "    " + strings.ReplaceAll(strings.TrimSpace(string(want)), "\n",
		"\n    "); !strings.Contains(string(page),
		strings.ReplaceAll(sample, `    1770000000.123456 cmd "lua" 3 "get" "a b\"\\\x00\xff\xc3\xa9" ""`+
			"\n", "")) {
		t.Error("docs/clocks.md shows another record")
	}
	var got bytes.Buffer
	w, err := NewObservedWriter(&got)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range everyObserved() {
		if err := w.Write(o); err != nil {
			t.Fatal(err)
		}
	}
	if got.String() != string(want) {
		t.Fatalf("wrote\n%s, the vector is\n%s", got.String(), want)
	}
	r, err := NewObservedReader(bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range everyObserved() {
		back, err := r.Next()
		if err != nil || !back.equal(o) || r.Line() != i+2 {
			t.Fatalf("line %d: %+v, %v", r.Line(), back, err)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the last: %v", err)
	}
	holds, err := ReadHolds(bytes.NewReader(want))
	if err != nil || len(holds) != 1 || holds[0] != 4999875*time.Microsecond {
		t.Errorf("holds %v, %v", holds, err)
	}
}

func TestBrokenLineErrorHasItsNumber(t *testing.T) {
	const good = `1770000000.123456 event "del" "stock"` + "\n"
	for broken, reason := range map[string]string{
		"":                                        "the instant is missing",
		`1770000000.12345 event "del" "a"`:        "six digits",
		`1770000000.+12345 event "del" "a"`:       "six digits",
		`01770000000.123456 event "del" "a"`:      "six digits",
		`99999999999.123456 event "del" "a"`:      "six digits",
		`1770000000.123456 evnt "del" "a"`:        `no kind "evnt"`,
		`1770000000.123456`:                       "the kind is missing",
		`1770000000.123456 `:                      "a blank ends the line",
		`1770000000.123456  event "del" "a"`:      "the kind is missing",
		`1770000000.123456 event "del"`:           "the key is not in quotes",
		`1770000000.123456 event "del" a`:         "the key is not in quotes",
		`1770000000.123456 event "del"  "a"`:      "the key is not in quotes",
		`1770000000.123456 event "del" "a" `:      "not followed by one blank",
		`1770000000.123456 event "del" "a""b"`:    "not followed by one blank",
		`1770000000.123456 event "del" "a" "b"`:   "more words",
		`1770000000.123456 event "del" "a`:        "closing quote",
		`1770000000.123456 event "del" "a\n"`:     "backslash",
		`1770000000.123456 event "del" "\x41"`:    "backslash",
		`1770000000.123456 event "del" "\xFF"`:    "backslash",
		"1770000000.123456 event \"del\" \"é\"":   "byte 0xc3",
		`1770000000.123456 cmd "a:1" 0`:           "argument 1 is not in quotes",
		`1770000000.123456 cmd "a:1" -1 "GET"`:    "the database -1 is not from 0",
		`1770000000.123456 cmd "a:1" 00 "GET"`:    "no whole number",
		`1770000000.123456 look "a" - 5`:          "a missing key has a TTL",
		`1770000000.123456 look "a" "v"`:          "the TTL is missing",
		`1770000000.123456 look "a" -`:            "the value, or -, is not in quotes",
		`1770000000.123456 hold "a:1" "k" -5`:     "the hold -5 is not from 0",
		`1770000000.123456 client "a:1" "n" "l"`:  "the user is not in quotes",
		`1770000000.123456 stats "setnx" -1`:      "the count -1 is not from 0",
		`1770000000.123456 step +5`:               "no whole number",
		`1770000000.123456 gap 5 "why"` + "\r":    "not followed by one blank",
		`1770000000.123456 step 9000000000000000`: "is not from",
	} {
		record := observedHeader + "\n" + good + good + broken + "\n" + good
		r, err := NewObservedReader(strings.NewReader(record))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			_, err = r.Next()
			var at *ObservedError
			if !errors.As(err, &at) || at.Line != 4 || !strings.Contains(at.Reason, reason) {
				t.Errorf("%q: %v, want line 4 and %q", broken, err, reason)
			}
		}
	}
}

func TestRecordWithoutHeaderOrEndIsRefused(t *testing.T) {
	for record, reason := range map[string]string{
		"":                              "line 1: the record is empty",
		"getsetlock.observed/2\n":       "line 1: version",
		"1770000000.123456 step 5\n":    "line 1: not a record",
		observedHeader:                  "line 1: cut off",
		"\xef\xbb\xbf" + observedHeader: "line 1: cut off",
	} {
		if _, err := NewObservedReader(strings.NewReader(record)); err == nil ||
			!strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v", record, err)
		}
	}
	r, err := NewObservedReader(strings.NewReader(observedHeader + "\n1770000000.123456 step 5"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err == nil || err.Error() != "line 2: cut off: no end of line" {
		t.Errorf("cut: %v", err)
	}
	long := observedHeader + "\n" + strings.Repeat("x", longestObserved+2) + "\n"
	if _, err := ReadHolds(strings.NewReader(long)); err == nil ||
		!strings.HasPrefix(err.Error(), "line 2: longer") {
		t.Errorf("long: %v", err)
	}
}

func TestUnreadableEventIsNotWritten(t *testing.T) {
	at := observedAt(5)
	for _, o := range []Observed{
		{},
		{At: at, Kind: "other"},
		{At: at.Add(1), Kind: ObservedStep},
		{At: time.Unix(-1, 0), Kind: ObservedStep},
		{At: at, Kind: ObservedStep, For: 1},
		{At: at, Kind: ObservedStep, Key: "k"},
		{At: at, Kind: ObservedCommand},
		{At: at, Kind: ObservedCommand, Args: []string{"GET"}, DB: -1},
		{At: at, Kind: ObservedLook, Key: "k", HasTTL: true},
		{At: at, Kind: ObservedLook, Key: "k", Value: "v"},
		{At: at, Kind: ObservedLook, Key: "k", Exists: true, HasTTL: true, TTL: time.Microsecond},
		{At: at, Kind: ObservedHold, For: -time.Second},
		{At: at, Kind: ObservedEvent, Key: strings.Repeat("k", longestObserved)},
	} {
		var out bytes.Buffer
		w, _ := NewObservedWriter(&out)
		before := out.Len()
		if err := w.Write(o); err == nil || out.Len() != before {
			t.Errorf("%+v written as %q", o, out.String()[before:])
		}
	}
}

// FuzzObservedLine checks that a line that is read is written back byte for
// byte.
func FuzzObservedLine(f *testing.F) {
	for _, o := range everyObserved() {
		f.Add(o.String())
	}
	f.Add(`1770000000.123456 event "\x41" "é"`)
	f.Fuzz(func(t *testing.T, line string) {
		o, err := parseObserved(line)
		if err != nil {
			return
		}
		if back := o.String(); back != line {
			t.Fatalf("%q is read, and written as %q", line, back)
		}
	})
}

// FuzzObservedEvent checks that an event that is written is read back
// unchanged.
func FuzzObservedEvent(f *testing.F) {
	f.Add(int64(1_770_000_000_123_456), uint8(0), "10.0.0.7:1", "stock", "v", int64(5), true, false)
	f.Add(int64(0), uint8(1), "", "\x00\xff\"\\", "", int64(-1), false, true)
	kinds := []ObservedKind{ObservedCommand, ObservedLook, ObservedEvent, ObservedHold, ObservedStep,
		ObservedGap, ObservedClient, ObservedStats, ObservedProbe}
	f.Fuzz(func(t *testing.T, micros int64, kind uint8, a, b, c string, n int64, yes, ttl bool) {
		o := Observed{At: observedAt(micros % 7e15), Kind: kinds[int(kind)%len(kinds)]}
		switch o.Kind {
		case ObservedCommand:
			o.Addr, o.Args, o.DB = a, []string{b, c}, int(n)
		case ObservedLook:
			o.Key, o.Value, o.Exists, o.HasTTL, o.TTL = a, b, yes, ttl, time.Duration(n)*ms
		case ObservedEvent:
			o.Event, o.Key = a, b
		case ObservedHold:
			o.Addr, o.Key, o.For = a, b, time.Duration(n)*time.Microsecond
		case ObservedStep:
			o.For = time.Duration(n) * time.Microsecond
		case ObservedGap:
			o.For, o.Reason = time.Duration(n)*time.Microsecond, a
		case ObservedClient:
			o.Addr, o.Name, o.Library, o.User = a, b, c, b
		case ObservedStats:
			o.Event, o.Count = a, n
		}
		line, err := o.appendLine([]byte("x"))
		if err != nil {
			return
		}
		back, err := parseObserved(string(line[1:]))
		if err != nil || !back.equal(o) || bytes.ContainsAny(line, "\n\r") {
			t.Fatalf("%+v is written as %q and read as %+v, %v", o, line, back, err)
		}
	})
}

// If equal ignored a field, an event could be written that is read back as
// another.
func TestEqualComparesEveryField(t *testing.T) {
	for i := range reflect.TypeFor[Observed]().NumField() {
		var o Observed
		switch f := reflect.ValueOf(&o).Elem().Field(i); f.Interface().(type) {
		case time.Time:
			o.At = o.At.Add(time.Microsecond)
		case []string:
			o.Args = []string{""}
		case bool:
			f.SetBool(true)
		case int, int64, time.Duration:
			f.SetInt(1)
		default:
			f.SetString("x")
		}
		if o.equal(Observed{}) || (Observed{}).equal(o) {
			t.Errorf("%s is not compared", reflect.TypeFor[Observed]().Field(i).Name)
		}
	}
}
