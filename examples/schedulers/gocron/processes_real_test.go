// SPDX-License-Identifier: Apache-2.0

//go:build real

package main

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// Clocks 2 s apart, in three processes. A process may be 2 s late for a tick,
// which is what the floor leaves.
func TestThreeProcessesRunJobOnceATick(t *testing.T) {
	t.Parallel()
	e := experiment{redis: redistest.Real(t, redistest.Options{}).URL(), ticks: 3, period: 8 * time.Second,
		apart: 2 * time.Second, job: 10 * time.Millisecond, floor: 6 * time.Second}
	runs, err := e.count(t.Context(), "floor", time.Now().Add(startUp+e.apart))
	if err != nil {
		t.Fatal(err)
	}
	for tick := range e.ticks {
		if runs[tick] != 1 {
			t.Errorf("tick %d: %d runs", tick, runs[tick])
		}
	}
	if total := sum(runs); total != e.ticks {
		t.Errorf("%d runs at %d ticks", total, e.ticks)
	}
}
