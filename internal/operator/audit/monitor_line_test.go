// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

func TestMonitorLinesAreParsedExactly(t *testing.T) {
	var p parser
	for text, want := range map[string]line{
		`1770000000.123456 [0 127.0.0.1:6379] "SETNX" "stock" "1770000060125"`: {
			1770000000123456, 0, "127.0.0.1:6379", []string{"SETNX", "stock", "1770000060125"}, false},
		`1770000000.000001 [15 lua] "get" "a b"`: {
			1770000000000001, 15, "lua", []string{"get", "a b"}, false},
		`1770000000.000001 [3 [::1]:5000] "ping"`: {
			1770000000000001, 3, "[::1]:5000", []string{"ping"}, false},
		`1770000000.000001 [0 unix:/tmp/a b.sock] "ping"`: {
			1770000000000001, 0, "unix:/tmp/a b.sock", []string{"ping"}, false},
		`1770000000.000001 [0 a:1] "set" "k\"\\\n\r\t\a\b\x00\xff" ""`: {
			1770000000000001, 0, "a:1", []string{"set", "k\"\\\n\r\t\a\b\x00\xff", ""}, false},
		`1770000000.000001 [0 a:1] "set" "] \"x" "1" "2" "3"`: {
			1770000000000001, 0, "a:1", []string{"set", `] "x`, "1", "2"}, true},
		`1770000000.000001 [0 a:1] "set" "` + strings.Repeat("v", 99) +
			`"`: {1770000000000001, 0, "a:1", []string{"set", strings.Repeat("v", 20)}, false},
		`1770000000.000001 [0 a:1] "set" "\"` + strings.Repeat("v", 99) +
			`"`: {1770000000000001, 0, "a:1", []string{"set", `"` + strings.Repeat("v", 19)}, false},
	} {
		got, err := p.parse(text, 4, 20)
		if err != nil || got.micros != want.micros || got.db != want.db || got.addr != want.addr ||
			!slices.Equal(got.args, want.args) || got.more != want.more {
			t.Errorf("%s\n is read as %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "OK", "1770000000", "1770000000.123456", `1770000000.12345 [0 a:1] "x"`,
		`1770000000.123456 [0 a:1]`, `1770000000.123456 [0] "x"`,
		`1770000000.123456 [x a:1] "x"`, `1770000000.123456 [0 a:1] "x`, `1770000000.123456 [0 a:1] "x\"`,
		`1770000000.123456 [0 a:1] "x" y`,
		`1770000000.123456 [0 a:1] "\x0g"`, `1770000000.123456 [0 a:1] "\q"`, `-1.123456 [0 a:1] "x"`,
	} {
		if got, err := p.parse(text, 4, 20); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// asServer formats a line of MONITOR as the server does.
func asServer(micros int64, db int, addr string, args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d.%06d [%d %s]", micros/1e6, micros%1e6, db, addr)
	for _, a := range args {
		b.WriteString(` "`)
		for i := range len(a) {
			switch c := a[i]; {
			case c == '"' || c == '\\':
				b.WriteString("\\" + string(rune(c)))
			case c == '\n':
				b.WriteString(`\n`)
			case c == '\r':
				b.WriteString(`\r`)
			case c == '\t':
				b.WriteString(`\t`)
			case c == '\a':
				b.WriteString(`\a`)
			case c == '\b':
				b.WriteString(`\b`)
			case c < ' ' || c > '~':
				fmt.Fprintf(&b, `\x%02x`, c)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('"')
	}
	return b.String()
}

// The parser reads back what a server wrote, and no input makes the parser or
// the filter panic.
func FuzzMonitorLine(f *testing.F) {
	f.Add(int64(1_770_000_000_123_456), 0, "SETNX", "stock", "1770000060125", `1770000000.123456 [0 lua] "x"`)
	f.Add(int64(0), 3, "", "\x00\xff\"\\", "\n\r", `1.000000 [0 [::1]:1] "a" "\x`)
	f.Fuzz(func(t *testing.T, micros int64, db int, a, b, c, raw string) {
		micros, db = (micros&(1<<62-1))%4e15, db&0xffff
		var p parser
		got, err := p.parse(asServer(micros, db, "10.0.0.1:1", a, b, c), 8, 1<<20)
		if err != nil || got.micros != micros || got.db != db || !slices.Equal(got.args, []string{a, b, c}) {
			t.Fatalf("%q %q %q is read as %+v, %v", a, b, c, got, err)
		}
		_, _ = p.parse(raw, 3, 10)
		cfg := census.Config{}
		folded, err := census.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		filter := newFilter(filled(t, Config{Config: cfg}), func(string) {})
		var out []offset.Observed
		for _, text := range []string{
			raw, asServer(micros, 0, "lua", a, b, c), asServer(micros, 0, "x:1", "SETNX", b, c), raw,
			asServer(micros+1, 0, "x:1", a, b, c)} {
			out = filter.line(text, out)
		}
		for _, o := range out {
			folded.Add(o)
		}
		folded.Evidence()
	})
}

// What a connection or a script did before a hole says nothing about the
// commands after it: the address may belong to another connection by then.
func TestFilterForgetsAcrossAHole(t *testing.T) {
	for _, before := range [][]string{{"a:1", "PING"}, {"a:1", "EVALSHA", "f00", "1", "lock:x"}} {
		after := []string{"a:1", "SETNX", "lock:x", stamp(0)}
		if before[1] != "PING" {
			after = []string{"lua", "DEL", "lock:x"}
		}
		for hole, want := range map[bool]int{false: 2, true: 1} {
			filter := newFilter(filled(t, Config{Config: census.Config{Match: "lock:*"}}), func(string) {})
			at := at(0).UnixMicro()
			filter.line(asServer(at-1, 0, "b:1", "SETNX", "lock:x", stamp(0)), nil) // makes the key known
			out := filter.line(asServer(at, 0, before[0], before[1:]...), nil)
			if hole {
				filter.forget()
			}
			out = filter.line(asServer(at+1, 0, after[0], after[1:]...), out)
			if out = whole(out); len(out) != want {
				t.Errorf("%v, a hole %v, %v: %d events, want %d", before, hole, after, len(out), want)
			}
		}
	}
}

func TestFilterKeepsLocksAndWhatPrecedesThem(t *testing.T) {
	cfg := census.Config{Match: "lock:*"}
	var found []string
	filter := newFilter(filled(t, Config{Config: cfg}), func(k string) { found = append(found, k) })
	at := at(0).UnixMicro()
	var out []offset.Observed
	for i, args := range [][]string{
		{"a:1", "PING"}, {"a:1", "HGETALL", "secret"}, {"a:1", "SETNX", "lock:x", stamp(0)},
		{"b:1", "GET", "lock:x"}, {"b:1", "GET", "other"},
		{"a:1", "SETNX", "cache", stamp(0)}, {"a:1", "SET", "lock:y", "no stamp"},
		{"b:1", "EVALSHA", "f00", "1", "lock:x"}, {"lua", "PTTL", "lock:x"}, {"lua", "DEL", "lock:x"},
		{"c:1", "DEL", "a", "b", "c", "d", "e", "f", "g", "h", "i", "lock:x"},
	} {
		out = filter.line(asServer(at+int64(i), 0, args[0], args[1:]...), out)
	}
	var got []string
	for _, o := range whole(out) {
		got = append(got, fmt.Sprint(o.At.UnixMicro()-at, " ", o.Addr, " ",
			strings.Join(o.Args[:min(3, len(o.Args))], " ")))
	}
	want := []string{"1 a:1 OTHER", "2 a:1 SETNX lock:x " + stamp(0), "3 b:1 GET lock:x", "7 b:1 EVALSHA",
		"9 lua DEL lock:x", "10 c:1 DEL a b"}
	if !slices.Equal(got, want) || !slices.Equal(found, []string{"lock:x"}) {
		t.Errorf("kept\n%s\nwant\n%s\nfound %v", strings.Join(got, "\n"), strings.Join(want, "\n"), found)
	}
}
