// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"sync"
	"testing"
	"time"
)

// Patience is how long an await gives the code under test. It only decides when
// a test that would hang fails instead, so it is longer than any machine is
// busy with other work.
const Patience = 2 * time.Minute

// bell tells waiters that something which they may be waiting for has changed.
type bell struct {
	virtual bool // inside a bubble, where a watchdog's timer would itself move time

	mu   sync.Mutex
	rung chan struct{} // closed at the next ring
}

func newBell(virtual bool) *bell { return &bell{virtual: virtual, rung: make(chan struct{})} }

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}

func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung
}

// await returns when met is true; it checks again at every ring. In a bubble
// there is no watchdog: if nothing can end the wait, the runtime reports a
// deadlock and names the goroutines.
func (b *bell) await(t testing.TB, met func() bool, state func() string) {
	t.Helper()
	var late <-chan time.Time
	if !b.virtual {
		watchdog := time.NewTimer(Patience)
		defer watchdog.Stop()
		late = watchdog.C
	}
	for {
		rung := b.next() // taken before the check, or a ring between the two would be missed
		if met() {
			return
		}
		select {
		case <-rung:
		case <-late:
			t.Fatalf("redistest: gave up after %v: %s", Patience, state())
		}
	}
}
