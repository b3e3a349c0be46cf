//go:build race

package proof

// raced: the race detector is on, which costs ten times the time and sees as much in a short walk.
const raced = true
