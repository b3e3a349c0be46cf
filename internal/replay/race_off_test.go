//go:build !race

package replay_test

// raced: the race detector is on.
const raced = false
