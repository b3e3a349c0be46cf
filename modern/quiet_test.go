// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/watches"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

// A renewal, or the look of a watch, may be under way when a lease is given
// back, and find the key gone.
func TestOwnChangesOfAKeyAreNoHabits(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{})
		g := try(t, b, "k")
		extend(t, g) // the server knows the script
		gate := redistest.NewGate()
		wire.Fault(redistest.Rule{Command: "EVALSHA", Do: redistest.HoldRequest(gate)})
		renewed := make(chan error, 1)
		go func() { _, err := g.Extend(bg, ttl); renewed <- err }()
		<-gate.Reached()
		free(t, g)
		gate.Open()
		if err := <-renewed; !errors.Is(err, lock.ErrLost) {
			t.Errorf("the renewal after it: %v", err)
		}
		if info, err := b.Inspect(bg, "k"); err != nil || len(info.Habits) > 0 {
			t.Errorf("habits of other clients: %q, %v", info.Habits, err)
		}
	})
}

// The look that keeps a watch is sent only if there is one.
func TestRenewalOfAnUnwatchedLeaseSendsNoLook(t *testing.T) {
	for name, cfg := range map[string]modern.Config{
		"Wake is off": {Wake: lock.WakeOff}, "server reports nothing": {}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, wire := on(t, w, cfg)
				g := try(t, b, "k")
				if _, err := watches.One(bg, b.Contract().(backend.Waker), g, func() {}); !errors.Is(err,
					backend.ErrNoWake) {
					t.Fatalf("Watch: %v", err)
				}
				if _, err := g.Extend(bg, ttl); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // a new link asks its server for the run id, once
				wire.Forget()
				if _, err := g.Extend(bg, ttl); err != nil {
					t.Fatal(err)
				}
				if sent := wire.Sent(); len(sent) != 1 {
					t.Errorf("a renewal sends %v", sent)
				}
				free(t, g)
			})
		})
	}
}
