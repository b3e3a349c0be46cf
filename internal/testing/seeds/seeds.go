// SPDX-License-Identifier: Apache-2.0

// Package seeds gives random tests a second seed that changes with each commit.
//
// scripts/test.sh derives it from the commit's hash, prints it, and passes it
// in the environment variable GETSETLOCK_SEED. Without the variable only fixed
// seeds are used, so a test run by hand does the same each time.
package seeds

import (
	"iter"
	"os"
	"strconv"
	"testing"
)

// Variable names the environment variable that holds the commit's seed.
const Variable = "GETSETLOCK_SEED"

// Range returns n seeds, of which the first is fixed, and n more from the
// commit's seed on, if there is one. It fails as [With] does.
func Range(t testing.TB, fixed, n uint64) iter.Seq[uint64] {
	t.Helper()
	firsts := With(t, fixed)
	return func(yield func(uint64) bool) {
		for _, first := range firsts {
			for i := range n {
				if !yield(first + i) {
					return
				}
			}
		}
	}
}

// With returns the fixed seed and, if there is one, the commit's seed. It logs
// how to repeat the latter, and ends the test if the variable is not a number
// from 0 to 2⁶⁴−1.
func With(t testing.TB, fixed uint64) []uint64 {
	t.Helper()
	text, given := os.LookupEnv(Variable)
	if !given || text == "" {
		return []uint64{fixed}
	}
	drawn, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is not a seed: %v", Variable, text, err)
	}
	if drawn == fixed {
		return []uint64{fixed}
	}
	t.Logf("seeds %d and %d: %s=%d repeats the second", fixed, drawn, Variable, drawn)
	return []uint64{fixed, drawn}
}
