// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"slices"
	"testing"
	"time"
)

// Ratio runs first and second alternately, fifty calls at a time and b.N calls
// each. It returns the median ratio of second's time to first's. Only second's
// time counts as the benchmark's own.
func Ratio(b *testing.B, first, second func()) float64 {
	const turn = 50
	first()
	second()
	var ratios []float64
	b.StopTimer()
	b.ResetTimer()
	for done := 0; done < b.N; done += turn {
		n := min(turn, b.N-done)
		begin := time.Now()
		for range n {
			first()
		}
		between := time.Now()
		b.StartTimer()
		for range n {
			second()
		}
		b.StopTimer()
		ratios = append(ratios, float64(time.Since(between))/float64(between.Sub(begin)))
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}
