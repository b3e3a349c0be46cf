// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

func liveResult(writers int) *audit.Result {
	r := &audit.Result{}
	for n := range writers {
		r.Evidence.Writers = append(r.Evidence.Writers, census.Writer{
			Client: census.Client{Addr: "10.0.0.1:" + clitest.Decimal(int64(n))}, Dialect: "Jedis",
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

// terminalOf is a terminal of that width.
func terminalOf(columns int, to io.Writer) *out.Env {
	return &out.Env{Stderr: to, Size: func(io.Writer) (int, int, bool) { return columns, 24, columns > 0 }}
}

func TestLiveViewIsDrawnOverItselfAndErased(t *testing.T) {
	for columns, head := range map[int]int{50: 3, 80: 2, 200: 1} {
		var printed bytes.Buffer
		v := newLiveView(terminalOf(columns, &printed), false, 30*time.Second)
		for _, writers := range []int{1, 20, 2} {
			v.show(liveResult(writers))
			lines := screenOf(printed.String())
			want := head + min(writers, liveWriters) + min(1, max(0, writers-liveWriters))
			if len(lines) != want || !strings.HasPrefix(lines[0], "watching, ") ||
				!strings.HasSuffix(lines[head-1], "0 findings") {
				t.Errorf("%d columns, %d writers: %q", columns, writers, lines)
			}
			for _, l := range lines {
				if len([]rune(l)) >= columns {
					t.Errorf("it would wrap: %q", l)
				}
			}
		}
		lines := screenOf(printed.String())
		if !strings.HasSuffix(lines[head], "-1.5ms … ?") ||
			strings.Contains(lines[head], "Jedis") != (columns > 60) {
			t.Errorf("%q", lines)
		}
		v.end()
		if lines := screenOf(printed.String()); len(lines) != 0 {
			t.Errorf("left on the screen: %q", lines)
		}
	}
}

func TestLiveViewIsPlainLinesWithoutATerminal(t *testing.T) {
	var printed bytes.Buffer
	v := newLiveView(terminalOf(0, &printed), false, 0)
	v.show(liveResult(3))
	v.show(liveResult(3))
	v.end()
	if strings.Contains(printed.String(), "\x1b") ||
		strings.Count(printed.String(), "getsetlock: watching, ") != 2 ||
		strings.Count(printed.String(), "\n") != 2 {
		t.Errorf("%q", printed.String())
	}
	printed.Reset()
	quiet := newLiveView(terminalOf(80, &printed), true, 0)
	quiet.show(liveResult(3))
	quiet.end()
	if printed.Len() > 0 {
		t.Errorf("%q in spite of --quiet", printed.String())
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
	(&out.Env{Stdout: &printed}).PrintAnswer(a.answer())
	if lines := strings.Count(printed.String(), "\n"); lines > 70 ||
		!strings.Contains(printed.String(), "and 1950 more") {
		t.Errorf("%d lines\n%s", lines, printed.String())
	}
	for _, line := range strings.Split(printed.String(), "\n") {
		if len(line) > 300 {
			t.Errorf("%d bytes in a line", len(line))
		}
	}
}
