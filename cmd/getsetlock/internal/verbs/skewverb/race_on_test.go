//go:build race

package skewverb

const raceEnabled = true
