// SPDX-License-Identifier: Apache-2.0

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
	}
}

// The file is the format's vector. Other languages can read it, and it may not
// change within a version.
func TestRecordMatchesItsVector(t *testing.T) {
	want, err := os.ReadFile("testdata/observed.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/guide/clocks.md")
	if err != nil {
		t.Fatal(err)
	}
	if sample := "    " + strings.ReplaceAll(strings.TrimSpace(string(want)), "\n",
		"\n    "); !strings.Contains(string(page), sample) {
		t.Error("docs/guide/clocks.md shows another record")
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
		if err != nil || !reflect.DeepEqual(back, o) || r.line != i+2 {
			t.Fatalf("line %d: %+v, %v", r.line, back, err)
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
	const at = `{"at":"2026-02-02T02:40:00.123456Z","kind":`
	const good = at + `"event","key":"stock","event":"del"}` + "\n"
	for broken, reason := range map[string]string{
		"":                                "not the JSON",
		at + `"event"} {}`:                "not the JSON",
		at + `"event","key":"stock"`:      "not the JSON",
		at + `"event","key":5}`:           "not the JSON",
		at + `"evnt"}`:                    `no kind "evnt"`,
		`{"kind":"event"}`:                "from 1970",
		at + `"event","other":"a"}`:       "writes it as",
		at + `"event","key":""}`:          "writes it as",
		at + `"event", "key":"a"}`:        "writes it as",
		at + `"event","key":"\u0061"}`:    "writes it as",
		at + `"event","Key":"a"}`:         "writes it as",
		at + `"event","key":"日"}`:         "writes it as",
		at + `"cmd","addr":"a:1"}`:        "a cmd without arguments",
		at + `"look","has_ttl":true}`:     "a missing key has",
		at + `"look","value":"v"}`:        "a missing key has",
		at + `"hold","for_ns":-5000}`:     "a time that no server says",
		at + `"hold","for_ns":5}`:         "a time that no server says",
		at + `"stats","count":-1}`:        "below zero",
		at + `"step","for_ns":9000000e3}`: "not the JSON",
		at + `"gap"}` + "\r":              "writes it as",
		`{"at":"2026-02-02T03:40:00.123456+01:00","kind":"gap"}`: "writes it as",
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
		"{}\n":                          "line 1: not a record",
		observedHeader:                  "line 1: cut off",
		"\xef\xbb\xbf" + observedHeader: "line 1: cut off",
	} {
		if _, err := NewObservedReader(strings.NewReader(record)); err == nil ||
			!strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v", record, err)
		}
	}
	r, err := NewObservedReader(strings.NewReader(observedHeader + "\n{}"))
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
	f.Add(`{"at":"2026-02-02T02:40:00.123456Z","kind":"event","key":"é"}`)
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
		ObservedGap, ObservedClient, ObservedStats}
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
		line, err := o.line()
		if err != nil {
			return
		}
		back, err := parseObserved(string(line))
		if err != nil || !reflect.DeepEqual(back, o) || bytes.ContainsAny(line, "\n\r") {
			t.Fatalf("%+v is written as %q and read as %+v, %v", o, line, back, err)
		}
	})
}

// If a field were left out, its bytes would be lost.
func TestBytesOfEachTextAreKept(t *testing.T) {
	for i := range reflect.TypeFor[Observed]().NumField() {
		var o, want Observed
		for o, s := range map[*Observed]string{&o: "\xff", &want: "ÿ"} {
			switch f := reflect.ValueOf(o).Elem().Field(i); f.Interface().(type) {
			case []string:
				o.Args = []string{s}
			case string:
				f.SetString(s)
			}
		}
		if !reflect.DeepEqual(o.mapped(textOf), want) || !reflect.DeepEqual(want.mapped(bytesOf), o) {
			t.Errorf("%s: %+v", reflect.TypeFor[Observed]().Field(i).Name, o.mapped(textOf))
		}
	}
}
