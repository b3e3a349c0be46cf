// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"regexp"
	"time"

	"github.com/getsetlock/getsetlock/internal/clocks"
)

// tellEvery is how long what is waited for is not repeated while it stays the
// same.
const tellEvery = 10 * time.Second

// told is what Options.Progress was called with last.
type told struct {
	shape string // without numbers: a duration that runs down is nothing new
	at    clocks.Moment
}

var numbers = regexp.MustCompile(`[0-9][0-9.:hmsµn]*`)

// progress calls Options.Progress with what a verb waits for since the moment
// began. It does so at once where that is new. Otherwise it does so every
// tellEvery, and adds how long the verb waits at most.
func (d *desk) progress(what string, began clocks.Moment) {
	if d.opts.Progress == nil {
		return
	}
	shape := numbers.ReplaceAllString(what, "0")
	if shape == d.told.shape {
		if d.clock.Since(d.told.at) < tellEvery {
			return
		}
		what = fmt.Sprintf("%s (for another %v at most)", what,
			(d.opts.Wait - d.clock.Since(began)).Round(time.Second))
	}
	d.told = told{shape, d.clock.Moment()}
	d.opts.Progress(what)
}
