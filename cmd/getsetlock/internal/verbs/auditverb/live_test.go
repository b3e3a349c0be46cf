package auditverb

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/audit"
	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/skew/offset"
)

func liveResult(writers int) *audit.Result {
	r := &audit.Result{}
	for n := range writers {
		r.Evidence.Writers = append(r.Evidence.Writers, census.Writer{
			Addr: "10.0.0.1:" + clitest.Decimal(int64(n)), Dialect: "Jedis",
			Offset: census.Offset{Interval: offset.Interval{
				Low: -1500 * time.Microsecond, High: offset.NoHigh}, Writes: 1},
		})
	}
	return r
}

// screenOf does what a terminal does with the lines: it goes up and erases.
func screenOf(text string) []string {
	var lines []string
	text = strings.ReplaceAll(text, "\r\x1b[2K", "") // of the empty line below
	for text != "" {
		if rest, ok := strings.CutPrefix(text, "\x1b[1A\x1b[2K"); ok {
			lines, text = lines[:len(lines)-1], rest
			continue
		}
		line, rest, _ := strings.Cut(text, "\n")
		lines, text = append(lines, line), rest
	}
	return lines
}

func TestLiveViewIsDrawnOverItselfAndErased(t *testing.T) {
	var out bytes.Buffer
	v := &liveView{out: &out, terminal: true, total: 30 * time.Second, begun: time.Now()}
	for _, writers := range []int{1, 20, 2} {
		v.show(liveResult(writers))
		lines := screenOf(out.String())
		if want := 1 + min(writers, liveWriters) + min(1, max(0, writers-liveWriters)); len(lines) != want ||
			!strings.HasPrefix(lines[0], "watching, ") {
			t.Errorf("%d writers: %q", writers, lines)
		}
		for _, l := range lines {
			if len([]rune(l)) > 79 {
				t.Errorf("it would wrap: %q", l)
			}
		}
	}
	if lines := screenOf(out.String()); !strings.Contains(lines[1], "-1.5ms … ?") {
		t.Errorf("%q", lines)
	}
	v.end()
	if lines := screenOf(out.String()); len(lines) != 0 {
		t.Errorf("left on the screen: %q", lines)
	}
}

func TestLiveViewIsPlainLinesWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	v := &liveView{out: &out, begun: time.Now()}
	v.show(liveResult(3))
	v.show(liveResult(3))
	v.end()
	if strings.Contains(out.String(), "\x1b") || strings.Count(out.String(), "getsetlock: watching, ") != 2 ||
		strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%q", out.String())
	}
}

func TestShownOffsetsAreRoundedOutwards(t *testing.T) {
	for _, c := range []struct {
		low, high time.Duration
		says      string
	}{
		{1879776, 103315391, "+1.87ms … +103.32ms"},
		{-4325457, -1434528639, "-4.33ms … -1.43452s"},
		{0, 10 * time.Microsecond, "0s … +10µs"},
		{-1, 1, "-10µs … +10µs"},
	} {
		got := offsetWords(census.Offset{Interval: offset.Interval{Low: c.low, High: c.high}, Writes: 1})
		if got != c.says {
			t.Errorf("%d … %d: %s, want %s", c.low, c.high, got, c.says)
		}
	}
}

func TestTableOfThousandsOfWritersFitsAPage(t *testing.T) {
	a := &auditAnswer{result: liveResult(2000)}
	a.result.Evidence.Spread.Guaranteed = offset.NoHigh
	var printed bytes.Buffer
	printWriters(&out.Env{Stdout: &printed}, a)
	a.printClocks(&printed)
	if lines := strings.Count(printed.String(), "\n"); lines > 65 ||
		!strings.Contains(printed.String(), "and 1950 more") {
		t.Errorf("%d lines\n%s", lines, printed.String())
	}
	for _, line := range strings.Split(printed.String(), "\n") {
		if len(line) > 300 {
			t.Errorf("%d bytes in a line", len(line))
		}
	}
}
