// SPDX-License-Identifier: Apache-2.0

package skew

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/seeds"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// The test compares the law with the dialects' own bytes and comparisons: a
// holder whose stamp was written late, and a challenger that looks at the last
// instant before the release.
func TestLawAgreesWithTheBytesOfEveryTakeoverDialect(t *testing.T) {
	for _, seed := range seeds.With(t, 1) {
		lawAgreesWithBytes(t, rand.New(rand.NewPCG(seed, 2)))
	}
}

func lawAgreesWithBytes(t *testing.T, random *rand.Rand) {
	t.Helper()
	for _, d := range dialect.Presets() {
		// Or-mine clients overlap whatever the law says, and keys with TTLs end
		// by themselves.
		if !d.HasTakeover() || d.OrMine || d.ServerExpires() {
			continue
		}
		unit := lawStep(d)
		for range 4000 {
			span := func(most int) time.Duration { return time.Duration(random.IntN(most)) * unit }
			l := Law{Dialect: d, Lease: span(20) + unit, Job: span(30), Delay: span(5), Spread: span(30)}
			want := overlapsByBytes(t, l)
			got, err := l.Verdict()
			if err != nil {
				t.Fatalf("%s: %v", d, err)
			}
			if got.Possible != (want || got.LateWinner) {
				t.Fatalf("%s lease %v job %v delay %v spread %v: law says %v, the bytes %v",
					d, l.Lease, l.Job, l.Delay, l.Spread, got.Possible, want)
			}
		}
	}
}

// lawStep is a grid for the random times. A double cannot distinguish all
// microseconds of today, so float seconds use a coarser grid.
func lawStep(d dialect.Dialect) time.Duration {
	if d.Unit == dialect.UnitFloatSeconds {
		return ms
	}
	return d.Unit.Step()
}

// overlapsByBytes lets a holder read its clock at several phases of the unit,
// write after the delay, and end after the job. A challenger whose clock is
// ahead by the spread judges just before that end.
func overlapsByBytes(t *testing.T, l Law) bool {
	t.Helper()
	d, start := l.Dialect, time.Unix(1_770_000_000, 0)
	step := lawStep(d)
	for _, phase := range []time.Duration{0, step / 2, step - step/10} {
		read := start.Add(phase)
		text, err := d.Stamp(read, l.Lease, "")
		if err != nil {
			t.Fatal(err)
		}
		end := read.Add(l.Delay + l.Job + l.Spread - step/100)
		if d.LegacyExpired(dialect.Text(text), "", end) {
			return true
		}
	}
	return false
}

func TestSpreadBeyondTheLeaseIsAnAnswer(t *testing.T) {
	v, err := Law{Dialect: dialect.Jedis(), Lease: 5 * sec, Job: sec, Spread: time.Hour}.Verdict()
	if err != nil {
		t.Fatal(err)
	}
	if !v.Possible || v.LongestJob.Bound >= 0 || v.Recovery.Earliest != 0 {
		t.Errorf("an hour of spread over a lease of 5 s: %+v", v)
	}
	if want := time.Hour + 5*sec + ms; v.Recovery.Latest != want {
		t.Errorf("crashed holder blocks the slowest client for %v, want %v", v.Recovery.Latest, want)
	}
}

func TestLawOfNamedFleets(t *testing.T) {
	for _, c := range []struct {
		name     string
		law      Law
		possible bool
		overlap  time.Duration
		job      Limit
	}{
		{"jedis at its bound", Law{Dialect: dialect.Jedis(), Job: 58*sec + ms, Delay: sec, Spread: sec},
			false, 0, Limit{58*sec + ms, true}},
		{"jedis one over", Law{Dialect: dialect.Jedis(), Job: 58*sec + 2*ms, Delay: sec, Spread: sec}, true,
			ms, Limit{58*sec + ms, true}},
		{"stalled loser at zero skew", Law{Dialect: dialect.Jedis(), Job: 30 * sec, Delay: 50 * sec}, true,
			20*sec - ms, Limit{10*sec + ms, true}},
		{"clocks further apart than the lease",
			Law{Dialect: dialect.Jedis(), Job: 10 * sec, Spread: 2 * time.Minute}, true, 10 * sec,
			Limit{ms - 60*sec, true}},
		{"a job of no length there", Law{Dialect: dialect.Jedis(), Spread: 2 * time.Minute}, true, 0,
			Limit{ms - 60*sec, true}},
		{"or mine", Law{Dialect: dialect.JedisUUID()}, true, 0, Limit{60*sec + ms, true}},
		{"SET NX EX", Law{Dialect: dialect.SetDel(), Lease: 3 * sec, Job: 7 * sec, Spread: time.Hour}, true,
			4 * sec, Limit{3 * sec, true}},
		{"SET NX EX in time", Law{Dialect: dialect.SetDel(), Lease: 3 * sec, Job: 3 * sec, Spread: time.Hour},
			false, 0, Limit{3 * sec, true}},
		{"no time at all", Law{Dialect: dialect.Bare(), Job: time.Hour}, false, 0, Limit{}},
		{"TTL and stamp", Law{Dialect: dialect.Gorlock(), Job: 14 * sec, Delay: sec, Spread: sec}, true, sec,
			Limit{13 * sec, true}},
	} {
		v, err := c.law.Verdict()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if v.Possible != c.possible || v.Overlap != c.overlap || v.LongestJob != c.job {
			t.Errorf("%s: possible %v overlap %v longest job %v", c.name, v.Possible, v.Overlap, v.LongestJob)
		}
	}
}

func TestImpossibleParametersNameFieldAndBound(t *testing.T) {
	for field, l := range map[string]Law{
		"Lease -1s: must be at least 0": {
			Dialect: dialect.Jedis(), Lease: -sec},
		"Job -1ms: must be at least 0": {Dialect: dialect.Jedis(), Job: -ms},
		"Delay -1s: must be at least 0": {
			Dialect: dialect.Jedis(), Delay: -sec},
		"Spread -1s: must be at least 0": {
			Dialect: dialect.Jedis(), Spread: -sec},
		"Lease 0s: must be more than 0: Page has no lease of its own": {Dialect: dialect.Page()},
		"Lease 1.5s: must be a whole number of 1s, the unit of Page": {
			Dialect: dialect.Page(), Lease: 1500 * ms},
	} {
		_, err := l.Verdict()
		var parameter *ParameterError
		if !errors.As(err, &parameter) || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want %q", err, field)
		}
	}
	if v, err := (Law{Dialect: dialect.Kdyby(), Lease: 1500 * ms}).Verdict(); err != nil ||
		v.LongestJob.Bound != 2*sec {
		t.Errorf("a client that cuts its lease: %v, %v", v.LongestJob, err)
	}
}

func TestKeyWithoutTimeNeverRecovers(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Bare(), dialect.BareExpire()} {
		v, err := Law{Dialect: d, Lease: sec}.Verdict()
		if err != nil || !v.Recovery.Never {
			t.Errorf("%s: %+v, %v", d, v.Recovery, err)
		}
	}
}
