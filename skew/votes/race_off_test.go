//go:build !race

package votes

const raceEnabled = false
