package main

import (
	"math"
	"slices"
	"time"
)

// ticks are durations in units of 10 ns, which makes a million of them small;
// they reach up to 42 s.
type ticks []uint32

const tick = 10 * time.Nanosecond

func (t *ticks) add(d time.Duration) {
	*t = append(*t, uint32(min(max(d/tick, 0), math.MaxUint32)))
}

// quantile returns a quantile of durations in any order; 0 if there are none.
func (t ticks) quantile(q float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	s := slices.Clone(t)
	slices.Sort(s)
	return time.Duration(s[int(q*float64(len(s)-1)+0.5)]) * tick
}

func quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(xs))
	return s[int(q*float64(len(s)-1)+0.5)]
}

// median returns the middle value, or the mean of the two middle ones.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(xs))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// jain returns Jain's index of fairness: 1 if all shares are equal, 1/n if one
// of n has everything.
func jain(shares []int) float64 {
	var sum, squares float64
	for _, n := range shares {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// span is one acquisition of one key by one process, in ns of the wall clock
// that all processes share.
type span struct {
	Key      int   `json:"k"`
	Acquired int64 `json:"a"`
	Released int64 `json:"r"` // before the release was sent
}

// gaps returns the times from each release of a key to its next acquisition by
// any client. A negative gap is an overlap: two clients held at once.
func gaps(spans []span) (between ticks, overlaps int) {
	slices.SortFunc(spans, func(a, b span) int {
		if a.Key != b.Key {
			return a.Key - b.Key
		}
		return int(a.Acquired - b.Acquired)
	})
	for i := 1; i < len(spans); i++ {
		before, next := spans[i-1], spans[i]
		if before.Key != next.Key {
			continue
		}
		gap := next.Acquired - before.Released
		if gap < 0 {
			overlaps++
			continue
		}
		between.add(time.Duration(gap))
	}
	return between, overlaps
}
