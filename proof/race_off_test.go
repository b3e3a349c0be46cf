//go:build !race

package proof

// raced: the race detector is on.
const raced = false
