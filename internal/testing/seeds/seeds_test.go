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
