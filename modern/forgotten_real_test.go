// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// The holders never release these leases, and nothing of them stays in the
// process.
func TestClientForgetsLeasesThatEndByThemselves(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	for name, cfg := range forms {
		b, err := modern.New(s.Pool(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		c := client(t, b, lock.Config{TTL: time.Second, RenewEvery: -1})
		round := func(n int) {
			var last *lock.Lease
			for i := range n {
				last = acquire(t, c, fmt.Sprint(name, n, "-", i))
			}
			<-last.Done()
		}
		memory := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		round(2000)
		// What is kept for each lease grows in every round, and noise does not.
		const leases = 10_000
		least := int64(math.MaxInt64)
		for tries := range 3 {
			before := memory()
			round(leases + tries)
			<-time.After(time.Second) // the keys end a little later than trust
			if least = min(least, (memory()-before)/leases); least <= 100 {
				break
			}
		}
		if least > 100 {
			t.Errorf("%s: %d bytes are kept for each lease that ended by itself", name, least)
		}
	}
}
