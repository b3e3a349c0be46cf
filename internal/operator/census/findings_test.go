// SPDX-License-Identifier: Apache-2.0

package census

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

func TestFindingSaysOnceOrHowOften(t *testing.T) {
	for n, says := range map[int64]string{
		0: "", 1: "a:1: once it was still at work", 2: "a:1: 2 times it was still at work"} {
		all := writerDeeds(&Writer{Client: Client{Addr: "a:1"}, Counts: Counts{Overlaps: n}})
		if n == 0 && len(all) != 0 || n > 0 && (len(all) != 1 || !strings.HasPrefix(all[0].What, says)) {
			t.Errorf("of %d overlaps it says %+v", n, all)
		}
	}
}

func TestWriterOfStartTimesIsAFinding(t *testing.T) {
	for _, c := range []struct {
		name   string
		value  func(ms int) string
		lease  time.Duration
		polled bool
		found  bool
	}{
		{"starts", func(ms int) string { return stamp(ms - 60_001) }, 0, false, true},
		{"starts, with a lease", func(ms int) string { return stamp(ms - 60_001) }, time.Minute, false, true},
		{"starts seen by polls", func(ms int) string { return stamp(ms - 60_001) }, 0, true, true},
		{"ends", stamp, 0, false, false},
		{"ends seen by polls", stamp, time.Minute, true, false},
		{"ends of a short lease", func(ms int) string { return stamp(ms - 60_001 + 700) },
			700 * time.Millisecond, false, false},
	} {
		f := newFilm(t, Config{Lease: c.lease})
		if c.polled {
			f = polledFilm(t, Config{Lease: c.lease, Dialects: []dialect.Dialect{dialect.Jedis()}})
		}
		for i := range 3 {
			ms := i * 1000
			if c.polled {
				f.Look(ms, "lock:a", "")
				f.Look(ms+10, "lock:a", c.value(ms+5))
				continue
			}
			f.Do(ms, anna, "SETNX", "lock:a", c.value(ms))
			f.Do(ms+10, anna, "DEL", "lock:a")
		}
		found := false
		for _, one := range f.result().Findings {
			found = found || one.Kind == "start_time" && one.Severity == SeverityWarning
		}
		if found != c.found {
			t.Errorf("%s: found %v: %+v", c.name, found, f.result().Findings)
		}
	}
}
