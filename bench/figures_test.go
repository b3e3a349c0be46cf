// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestGapsRunFromAReleaseToTheNextAcquisition(t *testing.T) {
	between, passed, overlaps := gaps([]Span{
		{Key: 0, Acquired: 500, Released: 600, Process: 1},
		{Key: 1, Acquired: 100, Released: 900},
		{Key: 0, Acquired: 100, Released: 200},
		{Key: 0, Acquired: 610, Released: 700, Process: 1},
		{Key: 0, Acquired: 699, Released: 800}, // overlaps the span before
	})
	if want := []time.Duration{300, 10}; !slices.Equal(between, want) || passed != 2 || overlaps != 1 {
		t.Errorf("gaps %v, %d passed on and %d overlaps; want %v, 2 and 1", between, passed, overlaps, want)
	}
}

func TestJainIsOneForEqualAndOneNthForOneWinner(t *testing.T) {
	for _, c := range []struct {
		shares []int
		want   float64
	}{{[]int{7, 7, 7, 7}, 1}, {[]int{9, 0, 0, 0}, 0.25}, {[]int{0, 0}, 0}, {nil, 0}} {
		if got := jain(c.shares); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("jain(%v) = %v; want %v", c.shares, got, c.want)
		}
	}
}
