//go:build race

package replay_test

// raced: the race detector is on, which costs ten times the time and sees as much in a short walk.
const raced = true
