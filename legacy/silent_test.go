// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// A renewal is lost with its connection, which stays open and brings nothing.
func TestSilentConnectionEndsNoShortLease(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := redistest.Bubble(t)
				wire := w.Wire()
				b, err := legacy.New(wire.Pool(), legacy.Config{Clock: w.Clock(redistest.Skew{})})
				if err != nil {
					t.Fatal(err)
				}
				c, err := lock.New(b, lock.Config{TTL: ttl, Clock: w.Clock(redistest.Skew{})})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(t.Context())
				l, err := c.Acquire(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				renews := func(c redistest.Command) bool { return c.Is("EVALSHA") || c.Is("EVAL") }
				wire.Fault(redistest.Rule{When: renews, Do: redistest.Silence})
				time.Sleep(2 * ttl)
				if err := l.Err(); err != nil {
					t.Error(err)
				}
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
