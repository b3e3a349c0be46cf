package votes

// few returns the greater number, or the lesser one under the race detector: a
// search has no goroutine, so the detector finds nothing in it.
func few(most, least int) int {
	if raceEnabled {
		return least
	}
	return most
}
