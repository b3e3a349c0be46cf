package modern_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// TestForgottenConnectionsCostNoLease, however short its TTL: a firewall forgot
// the connections while they were idle, and while leases are renewed on them.
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
