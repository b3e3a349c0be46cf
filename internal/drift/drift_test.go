// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"math/rand/v2"
	"testing"
	"time"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

func TestLegsFollowEachOtherWithoutJump(t *testing.T) {
	first := Leg{Offset: 3 * sec, Rate: 0.01}
	if got := first.OffsetAt(100 * sec); got != 4*sec {
		t.Errorf("after 100 s it is %v off", got)
	}
	if got := first.ElapsedAt(100 * sec); got != 101*sec {
		t.Errorf("after 100 s it has counted %v", got)
	}
	next := first.Then(100 * sec)
	if next != (Leg{From: 100 * sec, Offset: 4 * sec, Elapsed: 101 * sec, Rate: 0.01}) {
		t.Errorf("goes on as %+v", next)
	}
	next.Offset, next.Rate = 0, -0.02 // stepped to the right time, and slewed
	if o, e := next.OffsetAt(150*sec), next.ElapsedAt(150*sec); o != -sec || e != 150*sec {
		t.Errorf("then it is %v off and has counted %v", o, e)
	}
}

// In the time that Lasts returns, a clock counts the span, apart from rounding.
func TestLastsInvertsGained(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		rate := (r.Float64() - 0.5) / 2
		span := time.Duration(r.Int64N(int64(time.Hour)))
		d := Lasts(span, rate)
		if got := d + Gained(d, rate); got > span+2 || got < span-1 {
			t.Fatalf("rate %v: %v counted in %v, wanted %v", rate, got, d, span)
		}
	}
}

func TestGainedPPMIsExact(t *testing.T) {
	for ppm, want := range map[float64]time.Duration{300: 3 * ms, -300: -3 * ms, 0: 0, 500_000: 5 * sec} {
		if got := GainedPPM(10*sec, ppm); got != want {
			t.Errorf("%v ppm: %v", ppm, got)
		}
	}
}

func TestOffsetsAreDrawnWithinTheirBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	negative := 0
	for range 1000 {
		if d := (Offsets{Low: -sec, High: sec}).Draw(r); d < -sec || d > sec {
			t.Fatal(d)
		}
		d := (Offsets{Low: 11 * ms, High: 288 * sec, LogEven: true}).Draw(r)
		if d.Abs() < 11*ms-1 || d.Abs() > 288*sec {
			t.Fatal(d)
		}
		if d < 0 {
			negative++
		}
		if d := (Offsets{Choices: []time.Duration{-sec, ms}}).Draw(r); d != -sec && d != ms {
			t.Fatal(d)
		}
	}
	if negative < 400 || negative > 600 {
		t.Errorf("%d of 1000 are behind", negative)
	}
}

func TestTroublesComeAfterTheirMeanTime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	if d := Until(r, time.Hour, true); d != time.Hour {
		t.Errorf("the only one comes after %v", d)
	}
	var sum time.Duration
	for range 10_000 {
		d := Until(r, sec, false)
		if d < 1 {
			t.Fatal(d)
		}
		sum += d / 10_000
	}
	if sum < 950*ms || sum > 1050*ms {
		t.Errorf("mean %v", sum)
	}
	if d := Until(r, 1, false); d < 1 {
		t.Errorf("at once: %v", d)
	}
}

func TestInwardAndAfflicted(t *testing.T) {
	for from, want := range map[time.Duration]time.Duration{
		5 * sec: 3 * sec, sec: -sec, -5 * sec: -3 * sec, 0: 2 * sec} {
		if got := Inward(from, 2*sec); got != want {
			t.Errorf("%v goes to %v", from, got)
		}
	}
	for _, c := range []struct {
		share float64
		n     int
		want  int
	}{{0, 4, 4}, {0.25, 4, 1}, {0.01, 4, 1}, {0.5, 5, 3}, {1, 7, 7}} {
		if got := Afflicted(c.share, c.n); got != c.want {
			t.Errorf("%v of %d: %d", c.share, c.n, got)
		}
	}
}

// A slew takes a clock to the right time and no further, from either side.
func TestSlewTowardsRightTimeEndsThere(t *testing.T) {
	const by = 0.083333
	for _, c := range []struct {
		offset, most, span, left time.Duration
		own                      float64
	}{
		{sec, time.Minute, 12_000_048_000, 0, 0},
		{-sec, time.Minute, 12_000_048_000, 0, 0},
		{sec, 6 * sec, 6 * sec, 500_002 * time.Microsecond, 0},
		{-300 * ms, time.Minute, 3_600_014_400, 0, 0},
		{0, time.Minute, 0, 0, 0},
		{sec, 10 * sec, 10 * sec, 2 * sec, 0.183333}, // a clock that drifts faster than it is slewed
	} {
		rate, span := Towards(c.offset, c.own, by, c.most)
		left := c.offset + Gained(span, rate)
		if (span-c.span).Abs() > time.Microsecond || (left-c.left).Abs() > time.Microsecond {
			t.Errorf("%v off: %v at %v, which leaves %v", c.offset, span, rate, left)
		}
	}
}
