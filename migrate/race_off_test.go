//go:build !race

package migrate

// raced: the race detector is on.
const raced = false
