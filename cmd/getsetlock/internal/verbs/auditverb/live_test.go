// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"bytes"
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

func TestWatchPrintsALineForEachLook(t *testing.T) {
	var printed bytes.Buffer
	e := &out.Env{Stderr: &printed}
	show := liveLines(e, false, 0)
	show(liveResult(3))
	show(liveResult(3))
	if strings.Count(printed.String(), "getsetlock: watching, 0s: 0 keys, 3 writers, ") != 2 ||
		strings.Count(printed.String(), "\n") != 2 {
		t.Errorf("%q", printed.String())
	}
	printed.Reset()
	liveLines(e, true, 0)(liveResult(3))
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
