//go:build race

package rehearse

// raced: the race detector is on.
const raced = true
