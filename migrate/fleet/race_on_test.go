//go:build race

package fleet

// raced: the race detector is on, which costs eight times the time and sees as
// much at every eighth message.
const raced = true
