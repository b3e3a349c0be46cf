// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

// A lease lives, however short its TTL, if a firewall forgets the connections:
// while they are idle, or while leases are renewed on them.
func TestForgottenConnectionsCostNoLease(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 3 * time.Second, 4 * time.Second, 30 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, wire := on(t, w, modern.Config{})
				c := client(t, b, lock.Config{TTL: ttl, Wait: time.Minute})
				hold := func(d time.Duration) {
					t.Helper()
					l := acquire(t, c, "k")
					w.Pass(d / 2)
					wire.Swallow()
					w.Pass(d / 2)
					if err := l.Release(); err != nil {
						t.Errorf("the lease was lost: %v", err)
					}
				}
				hold(10 * ttl)
				w.Pass(time.Hour) // idle
				wire.Swallow()
				hold(10 * ttl)
			})
		})
	}
}

// A waiter that joins later can be called. The waiter that could not be called
// keeps its place and polls.
func TestBusyServerDeafensNoLaterWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, _ := on(t, w, modern.Config{},
			redistest.Rule{Command: "SUBSCRIBE",
				Do: redistest.Answer("BUSY Redis is busy running a script.")})
		g := try(t, b, "k")
		callable := func(p backend.Place) bool {
			_, _, err := p.Await(bg, func() {})
			return err == nil
		}
		first := stand(t, b, "k")
		w.Pass(time.Second)
		second := stand(t, b, "k") // this begins another attempt to subscribe
		w.Pass(0)
		third := stand(t, b, "k")
		held(t, first)
		for i, p := range []backend.Place{first, second, third} {
			if callable(p) != (p == third) {
				t.Errorf("place %d can be called: %v", i+1, callable(p))
			}
			if err := p.Leave(bg); err != nil {
				t.Error(err)
			}
		}
		free(t, g)
	})
}
