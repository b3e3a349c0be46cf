// SPDX-License-Identifier: Apache-2.0

package skew

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
)

// The law and the search on a dense grid: every dialect that compares times or
// has TTLs; leases, delays and spreads up to beyond the lease; fleets behind
// and ahead; jobs on both sides of the limit.
func TestLawAgreesWithExplorerOnDenseGrid(t *testing.T) {
	tried := 0
	for _, d := range raced.Few(dialect.Presets()) {
		if !d.Excludes() || !d.HasTakeover() && !d.ServerExpires() {
			continue
		}
		for lease := 1; lease <= 4; lease++ {
			for gap := 0; gap <= 2; gap++ {
				for _, clocks := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 3}, {-2, 3}, {4, 1}} {
					tried += sweepJobs(t,
						Scenario{Dialect: d, Old: 2, Lease: lease, Gap: gap, Behind: clocks[0],
							Ahead: clocks[1]})
				}
			}
		}
	}
	t.Logf("%d parameter sets", tried)
	if tried < 4000 && !raced.On {
		t.Errorf("only %d parameter sets", tried)
	}
}

// Below the unit: clients read clocks anywhere within it and cut the reading.
// What a stamp loses is what the strict comparison gains. So the law's slack is
// right for every phase, and a smaller slack would not be.
func TestLawHoldsWhereverWithinAUnitClocksAreRead(t *testing.T) {
	tried := 0
	for _, d := range raced.Few(dialect.Presets()) {
		if !d.Excludes() || !d.HasTakeover() || d.Unit == dialect.UnitFloatSeconds ||
			d.Unit == dialect.UnitNanos {
			continue
		}
		for unit := 2; unit <= 3; unit++ {
			for _, p := range [][4]int{{1, 0, 0, 0}, {2, 0, 0, 1}, {2, 1, 1, 0}, {1, 1, 0, 2}, {2, 2, 1, 1}} {
				tried += sweepJobs(t,
					Scenario{Dialect: d, Unit: unit, Old: 2, Lease: p[0] * unit, Gap: p[1], Behind: p[2],
						Ahead: p[3]})
			}
		}
	}
	t.Logf("%d parameter sets", tried)
}

// sweepJobs compares on both sides of the longest safe job, and far from it. It
// returns the number of comparisons.
func sweepJobs(t *testing.T, sc Scenario) (tried int) {
	t.Helper()
	unit, parts := tick(sc.Dialect), time.Duration(max(sc.Unit, 1))
	n := func(ticks int) time.Duration { return time.Duration(ticks) * unit / parts }
	law := Law{Dialect: sc.Dialect, Lease: n(sc.Lease), Delay: n(sc.Gap), Spread: n(sc.Behind + sc.Ahead)}
	v, err := law.Verdict()
	if err != nil {
		t.Fatal(err)
	}
	longest := int(v.LongestJob.Bound * parts / unit)
	last := -1
	for _, job := range []int{0, longest - 1, longest, longest + 1, longest + 3} {
		if job <= last {
			continue
		}
		last = job
		sc.Job, law.Job = job, n(job)
		v, err := law.Verdict()
		if err != nil {
			t.Fatal(err)
		}
		if x := searched(t, sc); x.Found != v.Possible {
			t.Errorf("%s unit %d lease %d job %d gap %d clocks -%d+%d: explorer %v, law %v\n%v",
				sc.Dialect.Name, sc.Unit, sc.Lease, job, sc.Gap, sc.Behind, sc.Ahead, x.Found, v.Possible,
				x.Trace.Words())
		}
		tried++
	}
	return tried
}
