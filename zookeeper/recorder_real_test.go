// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/history"
)

// contest is what all contenders for one lock did.
type contest struct {
	history.Steps
	failed atomic.Int64 // attempts that got no lease
}

// attempt waits for the lock for at most wait, looks whether the lease is
// trusted, at most looks times, and releases it.
func (h *contest) attempt(ctx context.Context, c *history.Contender, wait time.Duration, looks int) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	from := history.Now()
	l, err := c.Client.Acquire(waiting, "k")
	cancel()
	if err != nil {
		h.failed.Add(1)
		return
	}
	c.Hold(l, from, func(look int) <-chan time.Time {
		if look == looks {
			return nil
		}
		return time.After(time.Duration(c.Rand.IntN(20)) * time.Millisecond)
	})
}
