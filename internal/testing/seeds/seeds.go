// Package seeds gives random tests a seed that changes with each commit, beside
// their fixed one.
//
// scripts/test.sh draws it from the commit's hash, prints it, and hands it over
// in the environment variable GETSETLOCK_SEED. Without the variable only fixed
// seeds are used, so that a test that is run by hand does the same each time.
package seeds

import (
	"os"
	"strconv"
	"testing"
)

// Variable names the environment variable with the commit's seed.
const Variable = "GETSETLOCK_SEED"

// With returns the fixed seed, and the commit's one where there is one. It says
// in the test's log how to repeat that, and ends the test if the variable is no
// number from 0 to 2⁶⁴−1.
func With(t testing.TB, fixed uint64) []uint64 {
	t.Helper()
	text, given := os.LookupEnv(Variable)
	if !given || text == "" {
		return []uint64{fixed}
	}
	drawn, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is no seed: %v", Variable, text, err)
	}
	if drawn == fixed {
		return []uint64{fixed}
	}
	t.Logf("seeds %d and %d: %s=%d repeats the second", fixed, drawn, Variable, drawn)
	return []uint64{fixed, drawn}
}
