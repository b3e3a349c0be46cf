// SPDX-License-Identifier: Apache-2.0

package skew

import (
	"math"
	"time"
)

// scaleTicks is a lease in ticks: enough to tell times apart, few enough for a
// readable trace.
const scaleTicks = 10

// Scenario is the law's question for the explorer, with n old clients and times
// in ticks of a tenth of the lease. The second result is the length of a tick.
// Times are rounded, and the job is then moved so that the law's answer stays.
// The scenario shows how it happens, not to the millisecond when. It fails as
// Verdict does.
func (l Law) Scenario(n int) (Scenario, time.Duration, error) {
	v, err := l.Verdict()
	if err != nil {
		return Scenario{}, 0, err
	}
	if l, err = l.filled(); err != nil {
		return Scenario{}, 0, err
	}
	tick := max(l.Lease/scaleTicks, 1)
	if l.Lease == 0 {
		tick = max(l.Job, l.Delay, l.Spread, scaleTicks) / scaleTicks
	}
	in := func(d time.Duration, most int) int {
		return int(min(math.Round(float64(d)/float64(tick)), float64(most)))
	}
	// What is small compared with a tick becomes zero, not one tick.
	d := l.Dialect
	if d.Slack < tick/2 {
		d.Slack = 0
	}
	if d.Unit.Step() < tick/2 {
		d.Inclusive = false
	}
	sc := Scenario{Dialect: d, Old: n, Lease: in(l.Lease, scaleTicks), Job: in(l.Job, 60),
		Gap: in(l.Delay, 20), Reply: in(l.Reply, 40), Ahead: in(l.Spread, 30)}
	if !v.LongestJob.Bounded || v.LateWinner {
		return sc, tick, nil
	}
	m, err := sc.machine()
	if err != nil {
		return Scenario{}, 0, err
	}
	// The job, in ticks, at which the answer changes.
	longest := sc.Lease
	if l.Dialect.HasTakeover() {
		longest = min(sc.Lease+m.EffectiveSlack()-sc.Ahead-sc.Gap, l.ttlBound(sc))
	}
	if v.Overlap > 0 || v.outlasted(l.Job) {
		sc.Job = max(sc.Job, longest+1)
	} else {
		sc.Job = max(0, min(sc.Job, longest))
	}
	return sc, tick, nil
}

// ttlBound returns the longest job that the keys' TTL allows, in ticks.
func (l Law) ttlBound(sc Scenario) int {
	if l.Dialect.ServerExpires() {
		return sc.Lease
	}
	return math.MaxInt
}
