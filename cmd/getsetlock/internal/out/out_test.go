// SPDX-License-Identifier: Apache-2.0

package out

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// named is a number that is printed as a word.
type named int

func (n named) String() string { return "word" }

// pair is printed as another value.
type pair struct{ a, b int }

func (p pair) JSON() any { return p.a + p.b }

type part struct {
	Lease time.Duration `json:"lease_ms"`
}

func TestAnswersArePrintedByTheirTags(t *testing.T) {
	one := "a<\xff"
	for want, v := range map[string]any{
		`{"lease_ms":1500}`: struct {
			part
			Unnamed int
		}{part{1500 * time.Millisecond}, 1},
		`{"lease_ms":0}`: struct {
			Part *part `answer:"inline"`
		}{},
		`{"text":null,"key":null,"n":0}`: struct {
			Text string   `json:"text" answer:"null"`
			Key  *string  `json:"key"`
			N    int      `json:"n"`
			More []string `json:"more,omitempty"`
		}{},
		`{"keys":["a<\\xff"],"one":"a<\\xff"}`: struct {
			Keys []string `json:"keys" answer:"bytes"`
			One  *string  `json:"one" answer:"bytes,null"`
		}{[]string{one}, &one},
		`{"zero":0,"none":null}`: struct {
			Zero time.Duration `json:"zero" answer:"claim"`
			None time.Duration `json:"none" answer:"claim"`
		}{Zero: dialect.Zero},
		`{"texts":["word"],"plain":{"at":"0001-01-01T00:00:00Z"}}`: struct {
			Texts []named `json:"texts" answer:"text"`
			Plain any     `json:"plain" answer:"plain"`
		}{[]named{1}, map[string]any{"at": time.Time{}}},
		`[[],{},null,null,0.33333,3,"word"]`: []any{[]int(nil), map[string]int(nil), NoBound, time.Time{},
			1.0 / 3, pair{1, 2}, named(7)},
		`{"1":"b","2":null}`: map[int]any{2: nil, 1: "b"},
		`[0,1000,1.5,-1,1.235,100000,283824000000]`: []time.Duration{0, time.Second, 1500 * time.Microsecond,
			-time.Millisecond, 1234567, 100 * time.Second, 9 * 365 * 24 * time.Hour},
		`["2026-03-02T12:00:00.123Z",null]`: []time.Time{
			time.Date(2026, 3, 2, 13, 0, 0, 123456789, time.FixedZone("", 3600)),
			time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		var text, compact bytes.Buffer
		if err := (&Env{Stdout: &text}).PrintJSON(v); err != nil {
			t.Error(err)
		}
		if err := json.Compact(&compact, text.Bytes()); err != nil || compact.String() != want {
			t.Errorf("%s, want %s: %v", &compact, want, err)
		}
	}
	if err := (&Env{Stdout: io.Discard}).PrintJSON(map[string]any{"a": func() {}}); err == nil {
		t.Error("a function was printed")
	}
}

func FuzzEscapedNamesAreReadBackAndPrintable(f *testing.F) {
	for _, s := range []string{"plain", "ünïcode", "\xac\xed\x00\x05t\x00\x04lock", `a\b`, `\x41`, `\\x41`,
		"\u202e", "\x7f\xff", `\`, `\x`, `\xg0`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		shown := Escaped(s)
		if back := Unescaped(shown); back != s {
			t.Errorf("%q was shown as %s, which is %q", s, shown, back)
		}
		if strings.ContainsFunc(shown,
			func(r rune) bool { return r < ' ' || r == 0x7f || r == '�' && !strings.ContainsRune(s, '�') }) {
			t.Errorf("%q was shown as %q", s, shown)
		}
	})
}

func TestUnescapedKeepsPlainBackslashes(t *testing.T) {
	for s, want := range map[string]string{
		`a\b`: `a\b`, `\`: `\`, `\x4`: `\x4`, `\xzz`: `\xzz`, `\\`: `\`, `\x41\`: `A\`} {
		if got := Unescaped(s); got != want {
			t.Errorf("%s: %q, want %q", s, got, want)
		}
	}
}

// The library's errors are for programs too. A user of the command has flags
// and variables only.
func TestErrorsOfRedisNameNoFields(t *testing.T) {
	file := filepath.Join(t.TempDir(), "word")
	if err := os.WriteFile(file, []byte("w"), 0o600); err != nil {
		t.Fatal(err)
	}
	passwords := map[string]string{"GETSETLOCK_SENTINEL_PASSWORD": "w",
		"GETSETLOCK_SENTINEL_PASSWORD_FILE": file}
	for _, c := range []struct {
		flags ServerFlags
		vars  map[string]string
		says  string
	}{
		{ServerFlags{Redis: "redis://u@h"}, nil,
			"by a file (--password-file, $GETSETLOCK_PASSWORD_FILE) or by $GETSETLOCK_PASSWORD"},
		{ServerFlags{Redis: "redis://:p@h", PasswordFile: file}, nil,
			"a password ($GETSETLOCK_PASSWORD) and a file (--password-file, $GETSETLOCK_PASSWORD_FILE)"},
		{ServerFlags{Redis: "redis://h", Cert: file}, nil, "(--cert and --key) is for addresses"},
		{ServerFlags{Redis: "rediss://h", Cert: file}, nil,
			"give both (--cert and --key, $GETSETLOCK_CERT and $GETSETLOCK_KEY_FILE)"},
		{ServerFlags{Redis: "redis+sentinel://h/m"}, passwords,
			"($GETSETLOCK_SENTINEL_PASSWORD) or a file ($GETSETLOCK_SENTINEL_PASSWORD_FILE)"},
		{ServerFlags{Redis: "redis+sentinel://h/m"}, map[string]string{"GETSETLOCK_SENTINEL_USER": "u"},
			"the sentinels' user ($GETSETLOCK_SENTINEL_USER) has no password: set $GETSETLOCK_SENTINEL_PASSWORD or "},
	} {
		_, _, err := c.flags.Open(in(c.vars))
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "Options.") {
			t.Errorf("%s: %v, want %q", c.flags.Redis, err, c.says)
		}
	}
	for said, want := range map[string]string{
		`lock: key "k": modern: could not take key "k": ERR x`:                  `key "k": could not take key "k": ERR x`,
		`lock: modern: Config.Timeout is -1s`:                                   `Config.Timeout is -1s`,
		`lock: key "my lock: b": ERR getsetlock: c`:                             `key "my lock: b": ERR getsetlock: c`,
		"(--cacert, $X; Options.CACert)":                                        "(--cacert, $X)",
		"set $A or $B (Options.SentinelPassword, Options.SentinelPasswordFile)": "set $A or $B",
		"write x://, or set Options.SentinelPlain if the server speaks TLS":     "write x://",
		"(Config.TTL less Config.Margin); raise Config.TTL": "(--ttl less its margin of safety); " +
			"raise --ttl",
	} {
		if got := (unprefixed{errors.New(said)}).Error(); got != want {
			t.Errorf("%s: %q, want %q", said, got, want)
		}
	}
}

func TestOneLineHidesPasswordsAndLineBreaks(t *testing.T) {
	got := OneLine("dial redis://app:s3cret@host/0:\r\n\tno\x1b[31m, and unix://u:p@/s")
	if want := "dial redis://***@host/0: no?[31m, and unix://***@/s"; strings.Join(strings.Fields(got),
		" ") != want {
		t.Errorf("%q", got)
	}
}

// A connection has another local port each time. Another time of day is another
// event.
func TestSameWarningIsPrintedOnceAndCounted(t *testing.T) {
	var errs bytes.Buffer
	e := &Env{Stderr: &errs, told: &told{}}
	log := e.Logger(false)
	for _, port := range []string{"40001", "40002", "40003"} {
		log.Warn("lease not renewed", "key", "k", "until", "12:00:05",
			"error", "read tcp 127.0.0.1:"+port+"->127.0.0.1:6379: i/o timeout")
	}
	log.Warn("lease not renewed", "key", "k", "until", "12:00:35", "error", "i/o timeout")
	e.told.sum(e)
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "40001") || !strings.Contains(lines[1], "12:00:35") ||
		!strings.Contains(lines[2], "warning: 2 more times: lease not renewed") {
		t.Errorf("%q", lines)
	}
}

func TestProgressPrintsPlainLinesWithoutATerminal(t *testing.T) {
	errs := &strings.Builder{}
	now := time.Unix(0, 0)
	begin := func(quiet bool, total int64) *Progress {
		p := (&Env{Stderr: errs}).Progress(quiet, "keys", total)
		p.now = func() time.Time { return now }
		p.last = now
		return p
	}
	p, silent, endless := begin(false, 100), begin(true, 100), begin(false, -1)
	for done := range int64(11) {
		for _, p := range []*Progress{p, silent, endless} {
			p.Set(done)
		}
		now = now.Add(time.Second)
	}
	p.End()
	want := "getsetlock: keys: 5 of 100\ngetsetlock: keys: 5\ngetsetlock: keys: 10 of 100\ngetsetlock: keys: 10\n"
	if errs.String() != want {
		t.Errorf("%q", errs.String())
	}
}

// A row as wide as the terminal would wrap, and a part of it would stay.
func TestProgressDrawsOneRowOnATerminal(t *testing.T) {
	columns, rows := 80, 24
	e, written := screenOf(&columns, &rows)
	p := e.Progress(false, "simulating", 100)
	now := p.begun
	p.now = func() time.Time { return now }
	for _, done := range []int64{1, 2, 3} {
		now = now.Add(60 * time.Millisecond)
		p.Set(done)
	}
	now, columns = now.Add(time.Minute), 22
	p.Set(99)
	p.End()
	want := "\r\x1b[2Ksimulating: 2 of 100, 0s\r\x1b[2Ksimulating: 99 of 10…\r\x1b[2K"
	if written.String() != want {
		t.Errorf("%q", written.String())
	}
}

func TestLoggerPrintsALineOnStderr(t *testing.T) {
	errs := &strings.Builder{}
	e := &Env{Stderr: errs}
	e.Logger(true).Error("dropped")
	l := e.Logger(false).With("key", "k")
	l.Info("too little")
	l.Warn("not renewed", "until", time.Date(2026, 3, 2, 12, 0, 5, 0, time.UTC), "within", time.Second,
		"error", io.EOF)
	// Stores warn of what a program would set, in words or by an error.
	e.Logger(false).Warn("set Config.TTL to four ticks")
	e.Logger(false).Warn("short", "error", errors.New("zookeeper: no reply within Config.Timeout"))
	want := "getsetlock: warning: not renewed (key \"k\", until 12:00:05, within 1s, error EOF)\n" +
		"getsetlock: warning: set --ttl to four ticks\ngetsetlock: warning: short (error no reply in time)\n"
	if errs.String() != want {
		t.Errorf("%q", errs.String())
	}
}
