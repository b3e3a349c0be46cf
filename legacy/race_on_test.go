//go:build race

package legacy_test

// raced: the race detector is on.
const raced = true
