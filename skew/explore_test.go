// SPDX-License-Identifier: Apache-2.0

package skew

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
)

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

// A GETSET that returned a live value has lost. A client that reads its clock
// again to judge the reply, late enough, takes it for won, however short the
// jobs: the law's second condition.
func TestLateJudgeOfTheReplyWinsWhatItLost(t *testing.T) {
	for _, d := range raced.Few([]dialect.Dialect{
		dialect.JedisAQS(), dialect.Page(), dialect.PageNil(), dialect.PageGet(), dialect.RedisObjects()}) {
		for _, p := range []struct{ lease, gap, ahead int }{{4, 1, 0}, {5, 1, 1}, {6, 2, 1}} {
			room := p.lease + int(d.EffectiveSlack()/tick(d)) - p.ahead
			for reply := max(0, room-2*p.gap-1); reply <= room-2*p.gap+1; reply++ {
				sc := Scenario{Dialect: d, Old: 2, Lease: p.lease, Job: 1, Gap: p.gap, Reply: reply,
					Ahead: p.ahead}
				x, want := searched(t, sc), 2*p.gap+reply > room
				if x.Found != want {
					t.Errorf("%s lease %d gap %d ahead %d reply %d: %v\n%v", d, p.lease, p.gap, p.ahead,
						reply, x.Found, x.Trace.Words())
				}
				u := tick(d)
				law, err := Law{Dialect: d, Lease: time.Duration(p.lease) * u, Job: u,
					Delay: time.Duration(p.gap) * u,
					Reply: time.Duration(reply) * u, Spread: time.Duration(p.ahead) * u}.Verdict()
				if err != nil || law.Possible != want {
					t.Errorf("%s lease %d gap %d ahead %d reply %d: law %+v, %v", d, p.lease, p.gap, p.ahead,
						reply, law, err)
				}
			}
		}
	}
	// Dialects that judge by the reading that made the stamp, or compare texts,
	// do not have this failure.
	for _, d := range []dialect.Dialect{dialect.Jedis(), dialect.RedisPy(), dialect.RedisMutex()} {
		if x := searched(t, Scenario{Dialect: d, Old: 2, Lease: 4, Job: 1, Gap: 1, Reply: 20}); x.Found {
			t.Errorf("%s: %v", d, x.Trace.Words())
		}
	}
}

func tick(d dialect.Dialect) time.Duration {
	if d.Slack > 0 {
		return d.Slack
	}
	if d.HasTakeover() && d.Unit != dialect.UnitFloatSeconds {
		return d.Unit.Step()
	}
	return sec
}

// inTicks asks the law, with the dialect's slack or its unit as one tick.
func inTicks(d dialect.Dialect, lease, job, gap, spread int) Verdict {
	u := tick(d)
	n := func(k int) time.Duration { return time.Duration(k) * u }
	v, err := Law{Dialect: d, Lease: n(lease), Job: n(job), Delay: n(gap), Spread: n(spread)}.Verdict()
	if err != nil {
		panic(err)
	}
	return v
}

func TestThirdClientChangesNothingInTheLaw(t *testing.T) {
	for _, d := range []dialect.Dialect{
		dialect.Jedis(), dialect.Page(), dialect.RedisMutex(), dialect.Errorception(), dialect.SetGetDel()} {
		bound := int(inTicks(d, 4, 0, 1, 1).LongestJob.Bound / tick(d))
		for _, job := range []int{bound, bound + 1} {
			sc := Scenario{Dialect: d, Old: 3, Lease: 4, Job: job, Gap: 1, Ahead: 1}
			if x := searched(t, sc); x.Found != (job > bound) {
				t.Errorf("%s with three clients, job %d: %v\n%v", d, job, x.Found, x.Trace.Words())
			}
		}
	}
}

// A model that reads the clock in the instant of the write calls an unsafe
// fleet safe: it has no stalled loser.
func TestModelThatStampsAtTheGetsetCallsUnsafeSafe(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Jedis(), dialect.Page(), dialect.RedisMutex()} {
		law := inTicks(d, 6, 0, 0, 0)
		sc := Scenario{Dialect: d, Old: 3, Lease: 6, Job: int(law.LongestJob.Bound / tick(d)), Gap: 3}
		if x := searched(t, sc); !x.Found {
			t.Errorf("%s: job %d over lease %d less gap %d: safe", d, sc.Job, sc.Lease, sc.Gap)
		}
		sc.StampAtWrite = true
		if x := searched(t, sc); x.Found {
			t.Errorf("%s: the model that stamps at the write sees it:\n%v", d, x.Trace.Words())
		}
	}
}

func TestImpossibleScenariosNameTheField(t *testing.T) {
	for field, sc := range map[string]Scenario{
		"Old 4":      {Dialect: dialect.Jedis(), Old: 4, Lease: 3},
		"Lease 0":    {Dialect: dialect.Jedis(), Old: 1},
		"Gap -1":     {Dialect: dialect.Jedis(), Old: 1, Lease: 3, Gap: -1},
		"Goal glory": {Dialect: dialect.Jedis(), Old: 1, Lease: 3, Goal: "glory"},
	} {
		var bad *ParameterError
		if _, err := Explore(sc); !errors.As(err, &bad) || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want %q", err, field)
		}
	}
}

func TestSameScenarioHasTheSameTrace(t *testing.T) {
	sc := Scenario{Dialect: dialect.Jedis(), Old: 3, Lease: 4, Job: 3, Gap: 2,
		Goal: "two hold after a clobber"}
	a, b := searched(t, sc), searched(t, sc)
	if a.States != b.States || a.Trace.Words() != b.Trace.Words() {
		t.Errorf("%d and %d states\n%s\n%s", a.States, b.States, a.Trace.Words(), b.Trace.Words())
	}
}

func TestSpaceTooLargeIsNotCalledSafe(t *testing.T) {
	x, err := Explore(Scenario{Dialect: dialect.Jedis(), Old: 3, Lease: 6, Job: 3, Gap: 2, MaxStates: 100})
	if err != nil || x.Safe() || x.Complete || x.Found {
		t.Errorf("%+v, %v", x, err)
	}
}

func BenchmarkExplore(b *testing.B) {
	sc := Scenario{Dialect: dialect.Jedis(), Old: 3, Lease: 6, Job: 3, Gap: 2, Ahead: 1}
	states := 0
	for b.Loop() {
		x, err := Explore(sc)
		if err != nil || !x.Safe() {
			b.Fatal(err, x.Trace.Words())
		}
		states += x.States
	}
	b.ReportMetric(float64(states)/b.Elapsed().Seconds(), "states/s")
}
