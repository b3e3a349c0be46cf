// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

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
