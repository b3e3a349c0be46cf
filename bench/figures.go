// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"slices"
	"time"
)

// quantile returns a quantile of durations in any order, which it sorts; 0 if
// there are none.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)-1)+0.5)]
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

// Span is one acquisition, in ns of the wall clock that all processes share.
type Span struct {
	Key      int   `json:"k"`
	Process  int   `json:"p,omitempty"`
	Acquired int64 `json:"a"`
	Released int64 `json:"r"` // before the release was sent
}

// gaps returns the times from each release of a key to its next acquisition by
// any client, and how many of these clients were in another process. A negative
// gap is an overlap: two clients held at once.
func gaps(spans []Span) (between []time.Duration, passed, overlaps int) {
	slices.SortFunc(spans, func(a, b Span) int {
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
		if next.Process != before.Process {
			passed++
		}
		if gap := next.Acquired - before.Released; gap < 0 {
			overlaps++
		} else {
			between = append(between, time.Duration(gap))
		}
	}
	return between, passed, overlaps
}
