// SPDX-License-Identifier: Apache-2.0

package offset

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/seeds"
)

// Pauses weaken what a write shows of a clock and never move it out, and a rate
// error of less than 500 ppm is no step.
func TestSteadyClockStaysInsideAndSteps(t *testing.T) {
	for seed := range seeds.Range(t, 0, 300) {
		random := rand.New(rand.NewPCG(seed, 5))
		offset := time.Duration(random.Int64N(int64(20*sec))) - 10*sec
		ppm := float64(random.IntN(900) - 450)
		var c Clock
		start := time.Unix(1_770_000_000, 0)
		at := start
		stepAt := random.IntN(200)
		for i := range 400 {
			at = at.Add(time.Duration(random.Int64N(int64(5 * sec))))
			if i == 200+stepAt {
				offset += 7 * sec // the clock is set
			}
			theta := offset + time.Duration(ppm/1e6*float64(at.Sub(start)))
			one := Interval{theta - time.Duration(random.Int64N(int64(sec))),
				theta + time.Duration(random.Int64N(int64(sec)))}
			switch random.IntN(10) {
			case 0:
				one.High = NoHigh
			case 1:
				one.Low = NoLow
			}
			step, stepped := c.Add(at, one)
			if stepped && (i < 200+stepAt || step.By > 7*sec+50*ms || !step.Until.Equal(at)) {
				t.Fatalf("seed %d, write %d: %v", seed, i, step)
			}
			if got := c.At(at); !got.Contains(theta) && (i < 200+stepAt || i > 200+stepAt+20) {
				t.Fatalf("seed %d, write %d: %v is not in %v", seed, i, theta, got)
			}
		}
	}
}

func TestStepSaysItsDirectionAndLeastSize(t *testing.T) {
	at := time.Unix(1_770_000_000, 0).UTC()
	for by, want := range map[time.Duration]string{
		7 * sec:  "clock stepped forwards by at least 6.899s, between 2026-02-02T02:40:00.000Z and 2026-02-02T02:40:00.100Z",
		-2 * sec: "clock stepped back by at least 1.899s, between 2026-02-02T02:40:00.000Z and 2026-02-02T02:40:00.100Z",
		sec / 2:  "",
	} {
		var c Clock
		if at0 := c.At(at); at0.Bounded() {
			t.Fatal(at0)
		}
		if _, stepped := c.Add(at, Interval{-50 * ms, 50 * ms}); stepped {
			t.Fatal("the first write is no step")
		}
		step, stepped := c.Add(at.Add(100*ms), Interval{by - 50*ms, by + 50*ms})
		step.By = step.By.Truncate(ms)
		if got := step.String(); stepped != (want != "") || stepped && got != want {
			t.Errorf("%v: %q, %v", by, got, stepped)
		}
		if !c.At(at.Add(100 * ms)).Contains(by) {
			t.Errorf("%v: %v", by, c.At(at))
		}
	}
}

// A write may leave an end open. It is no step, and what was known before
// stays.
func TestOpenEndIsNoStep(t *testing.T) {
	at := time.Unix(1_770_000_000, 0)
	var c Clock
	c.Add(at, Interval{-ms, ms})
	if _, stepped := c.Add(at, Interval{NoLow, NoHigh}); stepped || c.At(at) != (Interval{-ms, ms}) {
		t.Errorf("%v", c.At(at))
	}
}
