// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"sync"
	"time"
)

// alarm is a one-shot timer whose func is counted in a WaitGroup, so that
// closing leaves no goroutine. Its owner serialises set and stop, and calls set
// only when the alarm is not pending.
type alarm struct {
	wg    *sync.WaitGroup
	ring  func()
	timer *time.Timer
}

// set runs the func after d.
func (a *alarm) set(d time.Duration) {
	a.wg.Add(1)
	if a.timer != nil {
		a.timer.Reset(d)
		return
	}
	a.timer = time.AfterFunc(d, func() {
		defer a.wg.Done()
		a.ring()
	})
}

// stop prevents the func from running, unless it is running already.
func (a *alarm) stop() {
	if a.timer != nil && a.timer.Stop() {
		a.wg.Done()
	}
}
