package wire

import (
	"sync"
	"time"
)

// alarm is a one-shot timer whose func is joined by a WaitGroup, so that closing leaves no goroutine
// behind. Its owner serialises set and stop, and sets it only when it is not pending.
type alarm struct {
	wg    *sync.WaitGroup
	ring  func()
	timer *time.Timer
}

// set makes the func run in d.
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

// stop keeps the func from running, unless it is running already.
func (a *alarm) stop() {
	if a.timer != nil && a.timer.Stop() {
		a.wg.Done()
	}
}
