// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// traces is the folder of the kept traces.
const traces = "../../testdata/traces/"

func searched(t *testing.T, sc Scenario) Exploration {
	t.Helper()
	x, err := Explore(sc)
	if err != nil {
		t.Fatal(err)
	}
	if !x.Found && !x.Complete {
		t.Fatalf("%d states were not all of %+v", x.States, sc)
	}
	return x
}

func tick(d dialect.Dialect) time.Duration {
	if d.Slack > 0 {
		return d.Slack
	}
	if d.HasTakeover() && d.Unit != dialect.UnitFloatSeconds {
		return d.Unit.Step()
	}
	return time.Second
}

// longestJob asks the law for the longest safe job, in ticks.
func longestJob(d dialect.Dialect, lease, gap, spread int) int {
	u := tick(d)
	n := func(k int) time.Duration { return time.Duration(k) * u }
	v, err := skew.Law{Dialect: d, Lease: n(lease), Delay: n(gap), Spread: n(spread)}.Verdict()
	if err != nil {
		panic(err)
	}
	return int(v.LongestJob.Bound / u)
}

// People who had these failures named them. The explorer finds each without a
// hint.
func TestExplorerFindsTheNamedFailures(t *testing.T) {
	jedis := Scenario{Olds: Olds{Dialect: dialect.Jedis(), Old: 2, Lease: 6, Job: 3, Gap: 2}}
	with := func(sc Scenario, change func(*Scenario)) Scenario { change(&sc); return sc }
	for _, c := range []struct {
		name   string
		sc     Scenario
		events int
	}{
		{"clobber", with(jedis, func(sc *Scenario) { sc.Old, sc.Goal = 3, clobber }), 11},
		{"ghost", with(jedis, func(sc *Scenario) { sc.Old, sc.Goal = 3, ghost }), 12},
		{"stalled loser at zero skew",
			with(jedis, func(sc *Scenario) { sc.Old, sc.Goal, sc.Job, sc.Gap = 3, stalledLoser, 3, 5 }), 13},
		{"fast thief", with(jedis, func(sc *Scenario) { sc.Gap, sc.Ahead = 0, 5 }), 6},
		{"born expired", with(jedis, func(sc *Scenario) { sc.Gap, sc.Behind = 0, 8 }), 6},
		{"overrun chain", with(jedis,
			func(sc *Scenario) { sc.Old, sc.Goal, sc.Overrun, sc.Lease = 3, chain, true, 2 }), 10},
		{"chain under SET NX EX", Scenario{
			Olds: Olds{Dialect: dialect.SetDel(), Old: 3, Lease: 2, Gap: 1, Overrun: true}, Goal: chain}, 8},
		{"double grant of or mine", Scenario{
			Olds: Olds{Dialect: dialect.JedisUUID(), Old: 2, Lease: 6, Job: 2, Gap: 2}}, 13},
		{"double grant, nobody delayed", Scenario{
			Olds: Olds{Dialect: dialect.JedisUUID(), Old: 2, Lease: 6, Job: 2}}, 13},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := searched(t, c.sc)
			if !x.Found {
				t.Fatalf("not found in %d states", x.States)
			}
			t.Logf("%d events\n%s", len(x.Trace.Events), x.Trace.Words())
			if c.events != len(x.Trace.Events) {
				t.Errorf("%d events, want %d", len(x.Trace.Events), c.events)
			}
			kept(t, x.Trace)
		})
	}
}

func TestTraceHasWordsForEveryEvent(t *testing.T) {
	x := searched(t, Scenario{
		Olds: Olds{Dialect: dialect.Errorception(), Old: 2, Lease: 4, Job: 4, Gap: 1, Ahead: 1}})
	if words := x.Trace.Words(); !strings.Contains(words, "SETNX: it holds") || strings.Contains(words, "%") {
		t.Errorf("in words:\n%s", words)
	}
}
