package skew

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

func explore(t *testing.T, sc Scenario) Exploration {
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

// The test compares two answers, for every dialect whose clients exclude each
// other: the closed form, and all interleavings of two clients.
func TestExplorerAgreesWithTheLaw(t *testing.T) {
	tried := 0
	for _, d := range few(dialect.Presets()) {
		if !d.Excludes() || !d.HasTakeover() && !d.ServerExpires() {
			continue
		}
		for _, p := range []struct{ lease, gap, behind, ahead int }{
			{4, 0, 0, 0}, {4, 1, 0, 0}, {5, 1, 0, 1}, {5, 2, 1, 1}, {6, 0, 2, 0},
		} {
			law := inTicks(d, p.lease, 0, p.gap, p.behind+p.ahead)
			longest := int(law.LongestJob.Bound / tick(d))
			for job := max(0, longest-1); job <= longest+2; job++ {
				sc := Scenario{Dialect: d, Old: 2, Lease: p.lease, Job: job, Gap: p.gap, Behind: p.behind,
					Ahead: p.ahead}
				want := inTicks(d, p.lease, job, p.gap, p.behind+p.ahead).Possible
				if x := explore(t, sc); x.Found != want {
					t.Errorf("%s lease %d job %d gap %d clocks -%d+%d: explorer %v, law %v\n%v",
						d, p.lease, job, p.gap, p.behind, p.ahead, x.Found, want, x.Trace)
				}
				tried++
			}
		}
	}
	if tried < 72 && !raceEnabled {
		t.Errorf("only %d parameter sets", tried)
	}
}

// A GETSET that returned a live value has lost. A client that reads its clock
// again to judge the reply, late enough, takes it for won, however short the
// jobs: the law's second condition.
func TestLateJudgeOfTheReplyWinsWhatItLost(t *testing.T) {
	for _, d := range few([]dialect.Dialect{
		dialect.JedisAQS(), dialect.Page(), dialect.PageNil(), dialect.PageGet(), dialect.RedisObjects()}) {
		for _, p := range []struct{ lease, gap, ahead int }{{4, 1, 0}, {5, 1, 1}, {6, 2, 1}} {
			room := p.lease + int(d.C()/tick(d)) - p.ahead
			for reply := max(0, room-2*p.gap-1); reply <= room-2*p.gap+1; reply++ {
				sc := Scenario{Dialect: d, Old: 2, Lease: p.lease, Job: 1, Gap: p.gap, Reply: reply,
					Ahead: p.ahead}
				x, want := explore(t, sc), 2*p.gap+reply > room
				if x.Found != want {
					t.Errorf("%s lease %d gap %d ahead %d reply %d: %v\n%v", d, p.lease, p.gap, p.ahead,
						reply, x.Found, x.Trace)
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
		if x := explore(t, Scenario{Dialect: d, Old: 2, Lease: 4, Job: 1, Gap: 1, Reply: 20}); x.Found {
			t.Errorf("%s: %v", d, x.Trace)
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
			if x := explore(t, sc); x.Found != (job > bound) {
				t.Errorf("%s with three clients, job %d: %v\n%v", d, job, x.Found, x.Trace)
			}
		}
	}
}

// People who had these failures named them. The explorer finds each without a
// hint.
func TestExplorerFindsTheNamedFailures(t *testing.T) {
	jedis := Scenario{Dialect: dialect.Jedis(), Old: 2, Lease: 6, Job: 3, Gap: 2}
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
			Dialect: dialect.SetDel(), Old: 3, Lease: 2, Gap: 1, Overrun: true, Goal: chain}, 8},
		{"double grant of or mine", Scenario{Dialect: dialect.JedisUUID(), Old: 2, Lease: 6, Job: 2, Gap: 2},
			13},
		{"double grant, nobody delayed", Scenario{Dialect: dialect.JedisUUID(), Old: 2, Lease: 6, Job: 2},
			13},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := explore(t, c.sc)
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

// A model that reads the clock in the instant of the write calls an unsafe
// fleet safe: it has no stalled loser.
func TestModelThatStampsAtTheGetsetCallsUnsafeSafe(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Jedis(), dialect.Page(), dialect.RedisMutex()} {
		law := inTicks(d, 6, 0, 0, 0)
		sc := Scenario{Dialect: d, Old: 3, Lease: 6, Job: int(law.LongestJob.Bound / tick(d)), Gap: 3}
		if x := explore(t, sc); !x.Found {
			t.Errorf("%s: job %d over lease %d less gap %d: safe", d, sc.Job, sc.Lease, sc.Gap)
		}
		sc.StampAtWrite = true
		if x := explore(t, sc); x.Found {
			t.Errorf("%s: the model that stamps at the write sees it:\n%v", d, x.Trace)
		}
	}
}

func TestTraceReadsBackAsWritten(t *testing.T) {
	x := explore(t, Scenario{Dialect: dialect.Errorception(), Old: 2, Lease: 4, Job: 4, Gap: 1, Ahead: 1})
	events, err := ParseTrace(strings.NewReader(x.Trace.String()))
	if err != nil || !slices.Equal(events, x.Trace.Events) {
		t.Errorf("%v\n%v\n%v", err, events, x.Trace)
	}
	if words := x.Trace.Words(); !strings.Contains(words, "SETNX: it holds") || strings.Contains(words, "%") {
		t.Errorf("in words:\n%s", words)
	}
	for _, c := range []struct{ text, says string }{
		{"0 old1 clock +0\n0 old1 juggle", "line 2"}, {"x old1 setnx won", "not a tick"},
		{"1 old1 clock", "needs a number"},
		{"3 old1 setnx won\n2 old2 setnx lost", "tick 2 after tick 3"},
		{"0 old1 setnx won again", "too much"}, {"0 old1", "is not TICK"},
	} {
		if _, err := ParseTrace(strings.NewReader(c.text)); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %q", c.text, err, c.says)
		}
	}
}

func TestImpossibleScenariosNameTheField(t *testing.T) {
	for field, sc := range map[string]Scenario{
		"Old 4":               {Dialect: dialect.Jedis(), Old: 4, Lease: 3},
		"Lease 0":             {Dialect: dialect.Jedis(), Old: 1},
		"Gap -1":              {Dialect: dialect.Jedis(), Old: 1, Lease: 3, Gap: -1},
		"Ours.TTL 0":          {Dialect: dialect.Jedis(), Ours: Ours{Clients: 1}},
		"Ours.Margin 3":       {Dialect: dialect.Jedis(), Ours: Ours{Clients: 1, TTL: 2, Margin: 3}},
		"Ours.Phase sometime": {Dialect: dialect.Jedis(), Ours: Ours{Clients: 1, TTL: 2, Phase: "sometime"}},
	} {
		if _, err := Explore(sc); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want %q", err, field)
		}
	}
}

func TestSameScenarioHasTheSameTrace(t *testing.T) {
	sc := Scenario{Dialect: dialect.Jedis(), Old: 3, Lease: 4, Job: 3, Gap: 2, Goal: stalledLoser}
	a, b := explore(t, sc), explore(t, sc)
	if a.States != b.States || a.Trace.String() != b.Trace.String() {
		t.Errorf("%d and %d states\n%v\n%v", a.States, b.States, a.Trace, b.Trace)
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
			b.Fatal(err, x.Trace)
		}
		states += x.States
	}
	b.ReportMetric(float64(states)/b.Elapsed().Seconds(), "states/s")
}
