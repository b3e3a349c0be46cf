// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"time"
)

// Wait is how long clients of one kind waited for the lock.
type Wait struct {
	Name string
	// Half and Most are the times within which half and 99 % of all attempts
	// had the lock; negative: fewer than that ever had it.
	Half, Most    time.Duration
	Longest       time.Duration // wait of an attempt that had the lock in the end
	Tried, GaveUp int64         // attempts, and those of them that gave up
}

// WaitsLegend says what [Waits] draws.
const WaitsLegend = "A bar runs from the wait of half of the attempts to that of 99 in 100. An attempt that gave up never had the lock: where more than one in 100 gave up, the bar is red and has no end."

// Waits draws a bar for each kind of clients, from half to 99 of 100 attempts.
// An attempt that gave up counts as one that waits forever, however soon it
// gave up: where fewer than 99 % of the attempts had the lock, the bar has no
// end.
func Waits(all []Wait) *Ranges {
	longest := time.Duration(0)
	for _, w := range all {
		longest = max(longest, w.Longest)
	}
	unit, name := Unit(longest)
	at := func(d time.Duration) float64 { return float64(d) / float64(unit) }
	r := &Ranges{Name: "Waits for the lock, from half to 99 % of the attempts", X: "wait, " + name}
	for _, w := range all {
		bar := Range{Name: w.Name, Low: at(w.Half), High: at(w.Most),
			Says: fmt.Sprintf("%d of %d attempts gave up", w.GaveUp, w.Tried)}
		if w.Half < 0 {
			bar.Low = at(w.Longest)
		}
		if w.Most < 0 {
			bar.High, bar.OpenHigh, bar.Alarm = at(w.Longest), true, true
		}
		r.Rows = append(r.Rows, bar)
	}
	return r
}
