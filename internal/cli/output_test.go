package cli

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
)

func TestDurationsAreNumbersOfMilliseconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", time.Second: "1000", 1500 * time.Microsecond: "1.5", -time.Millisecond: "-1",
		1234567 * time.Nanosecond: "1.235", 100 * time.Second: "100000", 9 * 365 * 24 * time.Hour: "283824000000",
	} {
		if got := millis(d); string(got) != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
		if _, err := json.Marshal(millis(d)); err != nil {
			t.Errorf("%v: %v", d, err)
		}
	}
}

func TestInstantsAreUTCWithMillisecondsAndNullBeyondTheYear9999(t *testing.T) {
	at := time.Date(2026, 3, 2, 13, 0, 0, 123456789, time.FixedZone("", 3600))
	if got := instant(at); got == nil || *got != "2026-03-02T12:00:00.123Z" {
		t.Error(got)
	}
	for _, at := range []time.Time{{}, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got := instant(at); got != nil {
			t.Errorf("%v: %s", at, *got)
		}
	}
}

func FuzzEscapedNamesAreReadBackAndPrintable(f *testing.F) {
	for _, s := range []string{"plain", "ünïcode", "\xac\xed\x00\x05t\x00\x04lock", `a\b`, `\x41`, `\\x41`, "\u202e", "\x7f\xff", `\`, `\x`, `\xg0`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		shown := escaped(s)
		if back := unescaped(shown); back != s {
			t.Errorf("%q was shown as %s, which is %q", s, shown, back)
		}
		if strings.ContainsFunc(shown, func(r rune) bool { return r < ' ' || r == 0x7f || r == '�' && !strings.ContainsRune(s, '�') }) {
			t.Errorf("%q was shown as %q", s, shown)
		}
	})
}

func TestABackslashBeforeNothingSpecialIsItself(t *testing.T) {
	for s, want := range map[string]string{`a\b`: `a\b`, `\`: `\`, `\x4`: `\x4`, `\xzz`: `\xzz`, `\\`: `\`, `\x41\`: `A\`} {
		if got := unescaped(s); got != want {
			t.Errorf("%s: %q, want %q", s, got, want)
		}
	}
}

func TestNamesOfPackagesAreTakenOffAndNothingElse(t *testing.T) {
	for said, want := range map[string]string{
		`lock: key "k": modern: could not take key "k": ERR x`: `key "k": could not take key "k": ERR x`,
		`lock: modern: Config.Timeout is -1s`:                  `Config.Timeout is -1s`,
		`lock: key "my lock: b": ERR getsetlock: c`:            `key "my lock: b": ERR getsetlock: c`,
	} {
		if got := (unprefixed{errors.New(said)}).Error(); got != want {
			t.Errorf("%s: %q, want %q", said, got, want)
		}
	}
}

func TestAMessageFitsALineAndHoldsNoPassword(t *testing.T) {
	got := oneLine("dial redis://app:s3cret@host/0:\r\n\tno\x1b[31m, and unix://u:p@/s")
	if want := "dial redis://***@host/0: no?[31m, and unix://***@/s"; strings.Join(strings.Fields(got), " ") != want {
		t.Errorf("%q", got)
	}
}

func TestATableAlignsNumbersAndEndsLinesAtTheirText(t *testing.T) {
	out := newWatched()
	g := newGrid(left("name"), right("left"), left("value"))
	g.add("a", "1s", "x")
	g.add("longer", "100ms", "")
	(&Env{Stdout: out}).print(g)
	if want := "NAME     LEFT  VALUE\na          1s  x\nlonger  100ms\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestAnAnswerThatCannotBePrintedIsAFailureWhateverItSays(t *testing.T) {
	s := newStage(t)
	s.stdout = full{}
	stamp := stampOf(redistest.Start.Add(-time.Hour))
	for _, key := range []string{"k", "another"} {
		if err := s.world.Mini.Set(key, stamp); err != nil {
			t.Fatal(err)
		}
	}
	for line, code := range map[string]int{
		"version": 3, "version --json": 3, "--help": 3, "ls": 3, "ls --json": 3, "completion zsh": 3, "run --help": 125,
		"doctor --match k --lease 1m": 3, "unlock another --value " + stamp: 3, "skew --lease 60s --job 5s..90s --clients 2": 3,
	} {
		got := s.run(strings.Fields(line)...)
		if got.code != code || strings.Count(got.errors, "no space left on device") != 1 {
			t.Errorf("%s: code %d, want %d: %s", line, got.code, code, got.errors)
		}
	}
	if got := s.run("ls", "--nonsense"); got.code != 2 {
		t.Errorf("wrong use: %+v", got)
	}
}

func TestProgressIsALineEveryFewSecondsWhereThereIsNoTerminal(t *testing.T) {
	errs := newWatched()
	now := time.Unix(0, 0)
	begin := func(quiet bool, total int64) *progress {
		p := (&Env{Stderr: errs}).progress(quiet, "keys", total)
		p.now = func() time.Time { return now }
		p.last = now
		return p
	}
	p, silent, endless := begin(false, 100), begin(true, 100), begin(false, -1)
	for done := range int64(11) {
		for _, p := range []*progress{p, silent, endless} {
			p.set(done)
		}
		now = now.Add(time.Second)
	}
	p.end()
	want := "getsetlock: keys: 5 of 100\ngetsetlock: keys: 5\ngetsetlock: keys: 10 of 100\ngetsetlock: keys: 10\n"
	if errs.String() != want {
		t.Errorf("%q", errs.String())
	}
}

func TestWhatIsLoggedIsALineOnStderr(t *testing.T) {
	errs := newWatched()
	e := &Env{Stderr: errs}
	e.logger(true).Error("dropped")
	l := e.logger(false).With("key", "k")
	l.Info("too little")
	l.Warn("not renewed", "until", time.Date(2026, 3, 2, 12, 0, 5, 0, time.UTC), "within", time.Second, "error", io.EOF)
	e.logger(false).Warn("short")
	want := "getsetlock: warning: not renewed (key \"k\", until 12:00:05, within 1s, error EOF)\ngetsetlock: warning: short\n"
	if errs.String() != want {
		t.Errorf("%q", errs.String())
	}
}

// A file fails by the errors that a unix socket fails by. Only the socket is
// explained as one.
func TestUnwritableFilesAreNotExplainedAsSockets(t *testing.T) {
	s := newStage(t)
	const away = "/nonexistent/file"
	for _, line := range []string{
		"audit --demo --report " + away, "audit --demo --record " + away, "audit --record " + away, "audit --report " + away,
		"audit --replay " + away, "skew --lease 60s --job 5s --clients 2 --report " + away,
		"skew --lease 60s --trace " + away, "rehearse --orders " + away, "rehearse --dialect-file " + away, "ls --dialect-file " + away,
		"run --dialect-file " + away + " k -- true", "ls --redis rediss://127.0.0.1:1 --cacert " + away,
	} {
		got := s.run(strings.Fields(line)...)
		if !strings.Contains(got.errors, away) || !strings.HasSuffix(got.errors, "no such file or directory\n") {
			t.Errorf("%s: code %d: %s", line, got.code, got.errors)
		}
	}
	got := s.run("ls", "--redis", "unix://"+away)
	if !strings.HasSuffix(got.errors, "no such file or directory; there is no such socket: check the path and unixsocket in the server's configuration\n") {
		t.Errorf("a missing socket: code %d: %s", got.code, got.errors)
	}
}
