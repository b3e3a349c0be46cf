// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

// TestClientForgetsLeasesThatEndByThemselves: nobody releases them, and nothing
// of them stays in the process. What is remembered of keys is bounded, and full
// after the first round.
func TestClientForgetsLeasesThatEndByThemselves(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	backends := map[string]backend.Store{}
	terms := dialect.Terms{Lease: time.Minute, Behind: time.Second}
	for _, p := range migrate.Phases() {
		b, err := migrate.New(s.Pool(), migrate.Config{
			Phases: migrate.Fixed(p), Dialect: dialect.Jedis(), Terms: terms, Wake: lock.WakeOn,
		})
		if err != nil {
			t.Fatal(err)
		}
		backends[p.String()] = b
	}
	for name, cfg := range map[string]legacy.Config{
		"hardened": {Mode: legacy.Hardened, Dialect: dialect.Jedis(), Terms: terms},
		"verbatim": {Mode: legacy.Verbatim, Dialect: dialect.Jedis()},
	} {
		b, err := legacy.New(s.Pool(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		backends[name] = b
	}
	memory := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for name, b := range backends {
		c, err := lock.New(b, lock.Config{TTL: 2 * time.Second, RenewEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		rounds := 0
		round := func(n int) {
			rounds++
			var last *lock.Lease
			for i := range n {
				if last, err = c.Acquire(t.Context(), fmt.Sprint(name, rounds, "-", i)); err != nil {
					t.Fatal(name, err)
				}
			}
			<-last.Done()
			<-time.After(time.Second) // the keys end a little later than trust
		}
		const leases = 5000
		round(leases)
		// Tables have grown to what the next round needs. What is kept for each
		// lease grows in every round, and noise does not.
		least := int64(math.MaxInt64)
		for tries := 0; least > 100 && tries < 3; tries++ {
			before := memory()
			round(leases)
			each := (memory() - before) / leases
			t.Logf("%s: %d bytes a lease", name, each)
			least = min(least, each)
		}
		if least > 100 {
			t.Errorf("%s: %d bytes are kept for each lease that ended by itself", name, least)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
