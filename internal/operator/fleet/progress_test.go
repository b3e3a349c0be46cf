// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// TestCleanRepeatsAWaitingLineEveryTenSeconds waits for a minute for a member
// whose lease of modern runs on. The member acknowledges clean first.
func TestCleanRepeatsAWaitingLineEveryTenSeconds(t *testing.T) {
	inBubble(t, func(f *fleet) {
		m := f.join(migrate.MemberConfig{})
		f.to(migrate.Modern)
		end := f.begin(m, time.Hour)
		defer end()
		f.beats()
		var lines []string
		r := f.clean(Options{Go: true, Wait: time.Minute,
			Progress: func(line string) { lines = append(lines, line) }})
		closed(t, r.Gate, "leases")
		if len(lines) < 3 || len(lines) > 8 || !strings.Contains(lines[0], "not acknowledged") {
			t.Fatalf("%d lines: %q", len(lines), lines)
		}
		leases := slices.IndexFunc(lines,
			func(l string) bool { return strings.HasPrefix(l, "leases of phase modern still run") })
		for i, line := range lines[leases:] {
			if repeated := strings.HasSuffix(line, "at most)"); repeated != (i > 0) {
				t.Errorf("line %d: %q", i, line)
			}
		}
	})
}

// TestProgressTakesADurationThatRunsDownForNoNews and another sentence for
// news.
func TestProgressTakesADurationThatRunsDownForNoNews(t *testing.T) {
	inBubble(t, func(f *fleet) {
		var lines []string
		d := &desk{clock: clocks.New(f.w.Clock(redistest.Skew{})),
			opts: Options{Wait: time.Minute, Progress: func(line string) { lines = append(lines, line) }}}
		began := d.clock.Moment()
		for i := range 12 {
			d.progress(fmt.Sprintf("their leases are over in %v", time.Minute-time.Duration(i)*time.Second),
				began)
			f.w.Pass(time.Second)
		}
		d.progress("a tombstone stands", began)
		want := []string{"their leases are over in 1m0s",
			"their leases are over in 50s (for another 50s at most)", "a tombstone stands"}
		if !slices.Equal(lines, want) {
			t.Errorf("%q", lines)
		}
	})
}
