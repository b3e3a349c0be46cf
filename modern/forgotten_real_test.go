//go:build real

package modern_test

import (
	"fmt"
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
		before := memory()
		const leases = 10_000
		round(leases)
		<-time.After(time.Second) // the keys end a little later than trust
		if each := (memory() - before) / leases; each > 100 {
			t.Errorf("%s: %d bytes are kept for each lease that ended by itself", name, each)
		}
	}
}
