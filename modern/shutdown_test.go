// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// The server stops answering while 200 leases are held, or while their holders
// give them back.
func TestCloseReturnsWithItsContextOnSilence(t *testing.T) {
	for _, how := range []string{"held", "released", "released before"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, wire := on(t, w, modern.Config{})
				c, err := lock.New(b, lock.Config{TTL: ttl})
				if err != nil {
					t.Fatal(err)
				}
				var leases []*lock.Lease
				for i := range 200 {
					leases = append(leases, acquire(t, c, fmt.Sprint("k", i)))
				}
				time.Sleep(time.Second)
				wire.Fault(redistest.Rule{Times: -1, Do: redistest.Silence},
					redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Silence})
				var wg sync.WaitGroup
				if how != "held" {
					for _, l := range leases {
						wg.Go(func() { _ = l.Release() })
					}
				}
				if how == "released before" {
					wg.Wait()
				}
				synctest.Wait() // until they wait for the server
				began := time.Now()
				ctx, cancel := context.WithTimeout(bg, time.Second)
				defer cancel()
				if err := c.Close(ctx); err == nil {
					t.Error("Close returned no error")
				}
				if d := time.Since(began); d > 1100*time.Millisecond {
					t.Errorf("Close took %v", d)
				}
				wg.Wait()
				wire.Calm()
				time.Sleep(2 * ttl) // keys that were not given back free themselves
			})
		})
	}
}
