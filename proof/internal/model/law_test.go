// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
	"github.com/getsetlock/getsetlock/skew"
)

// The limits at which a getsetlock client takes a lock from an old one, and an
// old one from a getsetlock client: the closed form and the search, on both
// sides of both limits.
func TestLawWithGetsetlockAgreesWithExplorer(t *testing.T) {
	for _, d := range raced.Few([]dialect.Dialect{
		dialect.Jedis(), dialect.RedisPy(), dialect.Faye(), dialect.PageNil()}) {
		u := tick(d)
		n := func(k int) time.Duration { return time.Duration(k) * u }
		for _, c := range []struct{ job, margin int }{{2, 1}, {3, 1}, {3, 2}, {1, 4}} {
			law := skew.Law{Dialect: d, Lease: n(5), Job: n(c.job), Delay: u, Spread: u, Behind: n(c.margin),
				Ahead: dialect.Zero}
			v, err := law.Verdict()
			if err != nil || v.Beside.Margin != n(c.margin) || v.Beside.LookAge != 0 {
				t.Fatalf("%+v, %v", v.Beside, err)
			}
			greatest := int(v.Beside.GreatestBehind.Bound / u)
			for _, behind := range []int{greatest, greatest + 1} {
				sc := Scenario{Olds: Olds{Dialect: d, Old: 1, Lease: 5, Job: c.job, Gap: 1, Behind: behind,
					Ahead: 1 - behind}}
				sc.Ours = Ours{Clients: 1, Phase: PhaseDual, TTL: 2, Margin: 1, Stop: 1, Known: true,
					TakeoverMargin: c.margin}
				if x := searched(t, sc); x.Found != (behind > greatest) {
					t.Errorf("%s job %d margin %d behind %d: %v\n%v", d, c.job, c.margin, behind, x.Found,
						x.Trace)
				}
			}
		}
		v, err := skew.Law{Dialect: d, Lease: n(5), Ahead: n(3)}.Verdict()
		if err != nil || v.Beside.GreatestBehind.Bounded ||
			v.Beside.LookAge != n(5)+max(d.EffectiveSlack(), 0)+max(d.Unit.Step(), time.Microsecond) {
			t.Errorf("%s, nothing known: %+v, %v", d, v.Beside, err)
		}
		over := int((v.Beside.GreatestAhead.Bound - v.Beside.StampAhead) / u)
		for _, ahead := range []int{2 + over, 3 + over} {
			sc := Scenario{Olds: Olds{Dialect: d, Old: 1, Lease: 5, Job: 1, Gap: 1, Behind: -ahead,
				Ahead: ahead}}
			sc.Ours = Ours{Clients: 1, Phase: PhaseObserve, TTL: 3, Margin: 1, Stop: 1, StampAhead: 2}
			if x := searched(t, sc); x.Found != (ahead > 2+over) {
				t.Errorf("%s, %d ahead of a stamp that is so by 2: %v\n%v", d, ahead, x.Found, x.Trace)
			}
		}
	}
}

// The lease rule too: a getsetlock lease at its bound is safe with clocks that
// are read anywhere within a unit. That holds for a guard and for a stamp that
// is itself cut. A fraction of a unit more is not safe.
func TestLeaseRuleIsTightWithinAUnit(t *testing.T) {
	for _, d := range raced.Few([]dialect.Dialect{
		dialect.Jedis(), dialect.Errorception(), dialect.Page(), dialect.PageNil(), dialect.ServiceStack()}) {
		for _, p := range []Phase{PhaseObserve, PhaseDual} {
			sc := Scenario{Olds: Olds{Dialect: d, Unit: 2, Old: 2, Lease: 6, Gap: 1, Ahead: 1}}
			sc.Job = sc.Lease + 2*int(d.EffectiveSlack()/tick(d)) - sc.Ahead - sc.Gap
			sc.Ours = Ours{Clients: 1, Phase: p, TTL: sc.Job, Margin: 1, Stop: 1}
			mustBeSafe(t, sc)
			if sc.Ours.TTL++; p == PhaseDual && !searched(t, sc).Found {
				t.Errorf("%s: half a unit more does no harm", d)
			}
		}
	}
}
