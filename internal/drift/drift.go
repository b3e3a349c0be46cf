// SPDX-License-Identifier: Apache-2.0

// Package drift is the arithmetic of a clock that is wrong: it starts with an
// offset, runs at its own rate, is stepped and is slewed.
//
// The package is pure: the caller passes true time, as a span since some
// beginning, and the random source. Waiting and timers by such a clock are
// elsewhere. A rate is how many seconds a clock gains per second; positive is
// fast.
package drift

import (
	"math"
	"math/rand/v2"
	"time"
)

// Gained returns what a clock of a rate gains on true time in a span.
func Gained(span time.Duration, rate float64) time.Duration {
	return time.Duration(rate * float64(span))
}

// GainedPPM is Gained with the rate in parts per million. It is exact where the
// product is.
func GainedPPM(span time.Duration, ppm float64) time.Duration {
	return time.Duration(float64(span) * ppm / 1e6)
}

// Lasts returns the true time in which a clock of a rate counts a span, rounded
// up. Gained is cut, so the clock may show a nanosecond less by then.
func Lasts(span time.Duration, rate float64) time.Duration {
	return time.Duration(math.Ceil(float64(span) / (1 + rate)))
}

// Leg is a span in which a clock runs at one rate.
type Leg struct {
	From    time.Duration // true time at its beginning
	Offset  time.Duration // clock less true time then
	Elapsed time.Duration // what the monotonic clock counts then
	Rate    float64
}

// OffsetAt returns clock less true time at a moment of the leg.
func (l Leg) OffsetAt(t time.Duration) time.Duration { return l.Offset + Gained(t-l.From, l.Rate) }

// ElapsedAt returns what the monotonic clock counts at a moment of the leg.
func (l Leg) ElapsedAt(t time.Duration) time.Duration {
	return l.Elapsed + (t - l.From) + Gained(t-l.From, l.Rate)
}

// Then returns the leg that begins at a moment of this one and continues it.
func (l Leg) Then(t time.Duration) Leg {
	return Leg{From: t, Offset: l.OffsetAt(t), Elapsed: l.ElapsedAt(t), Rate: l.Rate}
}

// Never is later than any event.
const Never = time.Duration(math.MaxInt64)

// century bounds what Until draws.
const century = 100 * 366 * 24 * time.Hour

// Until draws the time to the next trouble of a clock: memoryless with that
// mean, or exactly that if it comes once. It is never 0, so that troubles
// cannot repeat in one instant for ever.
func Until(r *rand.Rand, every time.Duration, once bool) time.Duration {
	if once {
		return every
	}
	return 1 + time.Duration(min(float64(every)*r.ExpFloat64(), float64(century)))
}

// Offsets are the clocks' first offsets: one of Choices if there are any;
// otherwise from Low to High, evenly, or log-evenly with a random sign.
type Offsets struct {
	Low, High time.Duration
	LogEven   bool
	Choices   []time.Duration
}

// Draw returns the offset of one clock.
func (o Offsets) Draw(r *rand.Rand) time.Duration {
	switch {
	case len(o.Choices) > 0:
		return o.Choices[r.IntN(len(o.Choices))]
	case o.LogEven:
		low, high := math.Log(float64(o.Low)), math.Log(float64(o.High))
		size := time.Duration(math.Exp(low + r.Float64()*(high-low)))
		if r.IntN(2) == 0 {
			return -size
		}
		return size
	}
	return o.Low + time.Duration(r.Int64N(int64(o.High-o.Low)+1))
}

// Inward returns an offset after a step towards the right time by a span. The
// step may go beyond it.
func Inward(offset, by time.Duration) time.Duration {
	if offset > 0 {
		return offset - by
	}
	return offset + by
}

// Towards returns a slew of a clock towards the right time, as chrony makes it:
// the rate meanwhile, and how long it takes. It ends at the right time, or
// after most. own is the clock's rate without the slew, and by is how much the
// slew changes it.
func Towards(offset time.Duration, own, by float64, most time.Duration) (rate float64, span time.Duration) {
	if offset == 0 {
		return own, 0
	}
	rate = own + by
	if offset > 0 {
		rate = own - by
	}
	if closing := -rate * float64(offset); closing > 0 {
		most = min(most, time.Duration(math.Ceil(math.Abs(float64(offset)/rate))))
	}
	return rate, most
}

// Afflicted returns how many of n clocks a share is: at least one. A share of
// zero is all.
func Afflicted(share float64, n int) int {
	if share == 0 {
		share = 1
	}
	return max(1, int(math.Round(share*float64(n))))
}
