//go:build !race

package getsetlock_test

// raced: the race detector is on.
const raced = false
