// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"log/slog"
	"testing"
)

// mutexFree is a log handler that notes whether a mutex was free at each line.
type mutexFree struct {
	slog.Handler
	teller *teller
	free   []bool
}

func (h *mutexFree) Handle(context.Context, slog.Record) error {
	free := h.teller.mu.TryLock()
	if free {
		h.teller.mu.Unlock()
	}
	h.free = append(h.free, free)
	return nil
}

// A log handler that blocks must not keep other leases from reporting.
func TestTellerHoldsNoMutexWhileItLogs(t *testing.T) {
	h := &mutexFree{Handler: slog.DiscardHandler}
	h.teller = &teller{log: slog.New(logsAll{h}), running: true, todo: make([]telling, mostTold)}
	for range 3 {
		h.teller.tell(func(Event) {}, Event{})
	}
	if len(h.free) != 1 || !h.free[0] {
		t.Errorf("the mutex was free at each line: %v; want one line, with a free mutex", h.free)
	}
}

// logsAll turns the level check of the discarding handler off.
type logsAll struct{ *mutexFree }

func (logsAll) Enabled(context.Context, slog.Level) bool { return true }
