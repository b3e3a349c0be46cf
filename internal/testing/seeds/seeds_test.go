// SPDX-License-Identifier: Apache-2.0

package seeds

import (
	"slices"
	"testing"
)

func TestWithReturnsTheCommitsSeedToo(t *testing.T) {
	for text, want := range map[string][]uint64{
		"": {5}, "5": {5}, "0": {5, 0}, "18446744073709551615": {5, 18446744073709551615},
	} {
		t.Setenv(Variable, text)
		if got := With(t, 5); !slices.Equal(got, want) {
			t.Errorf("%s=%q: %v, want %v", Variable, text, got, want)
		}
	}
}

func TestRangeGoesOnFromEachSeed(t *testing.T) {
	t.Setenv(Variable, "40")
	if got := slices.Collect(Range(t, 5, 3)); !slices.Equal(got, []uint64{5, 6, 7, 40, 41, 42}) {
		t.Errorf("got %v", got)
	}
	for seed := range Range(t, 5, 3) {
		if seed != 5 {
			t.Errorf("%d after the end", seed)
		}
		break
	}
}
