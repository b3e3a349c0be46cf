// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"time"

	"github.com/getsetlock/getsetlock/lock/internal/call"
)

// Instant is one moment as a Clock saw it in both its ways. To keep a lease the
// client must be pessimistic: the age of an Instant is what the clock that ran
// further says.
type Instant struct {
	Wall    time.Time
	Elapsed time.Duration
}

// ReadClock reads the clock by which the caller of a Backend keeps trust: that
// of the lock.Client that made ctx, else the machine's. A Backend calls it
// right before it sends the write that counts.
func ReadClock(ctx context.Context) Instant {
	var now Instant
	if clock, ok := call.ClockOf(ctx); ok {
		now.Wall, now.Elapsed = clock.Read()
		return now
	}
	now.Wall, now.Elapsed = call.Machine()
	return now
}

// IgnoreWait returns the context for the rest of an attempt that has taken the
// key but must wait before the key counts as granted. That context ends with
// the one given to Acquire, not with lock.Config.Wait. The store has answered,
// and if the wait were shorter than the rest, every attempt would be undone.
func IgnoreWait(ctx context.Context) context.Context {
	caller, ok := call.CallerOf(ctx)
	if !ok {
		return ctx
	}
	if clock, ok := call.ClockOf(ctx); ok {
		return call.WithClock(caller, clock)
	}
	return caller
}
