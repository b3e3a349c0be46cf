//go:build !race

package fleet

// raced: the race detector is on.
const raced = false
