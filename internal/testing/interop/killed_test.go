// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// shortLease is the jar's lease in these tests, and the lease that getsetlock
// processes are given.
const shortLease = 2 * time.Second

func onOldestAndNewest(t *testing.T, test func(t *testing.T, ctx context.Context, s *redistest.Server)) {
	all := redistest.Servers(t)
	for _, b := range []redistest.Binary{all[0], all[len(all)-1]} {
		t.Run(b.Name, func(t *testing.T) { test(t, testContext(t), b.Start(t, redistest.Options{})) })
	}
}

// Both clocks are this machine's. Only lower bounds are checked: an event that
// is late shows a slow machine, but one that is early shows two holders.
func TestGetsetlockWaitsOutAKilledJVMsLease(t *testing.T) {
	onOldestAndNewest(t, func(t *testing.T, ctx context.Context, s *redistest.Server) {
		j := must[*JVM](t)(Start(ctx, Options{}))
		t.Cleanup(func() { check(t, j.Kill()) })
		java := NewClient(t, j, s.Addr())
		check(t, java.Lock(ctx, Jar, key, 0, shortLease))
		if !must[Acquired](t)(java.Acquire(ctx)).Won {
			t.Fatal("the jar does not hold")
		}
		until := stamp(t, must[[]Call](t)(java.Trace(ctx))[0].Value)
		ours := startWorker(t, task{Addr: s.Addr(), Lease: shortLease, Keep: true})
		check(t, j.Kill())
		ours.reach(t, ctx, 1)
		terms := must[dialect.Terms](t)(dialect.Jedis().Terms(dialect.Terms{Lease: shortLease}))
		wait := terms.TakeoverMargin() + terms.Settle()
		if held := ours.spans[0].Held / 1000; held <= until+wait.Milliseconds() {
			t.Errorf("the getsetlock client held at %d, the stamp ended at %d, margin and settle are %v",
				held, until, wait)
		}
	})
}

// The getsetlock client's stamp is a day ahead, so the server's TTL frees the
// key.
func TestJarTakesTheKeyOfAKilledGetsetlockClient(t *testing.T) {
	onOldestAndNewest(t, func(t *testing.T, ctx context.Context, s *redistest.Server) {
		ours := startWorker(t, task{Addr: s.Addr(), Lease: shortLease, Keep: true})
		ours.reach(t, ctx, 1)
		java := SharedClient(t, s.Addr())
		check(t, java.Lock(ctx, Jar, key, 20*time.Second, shortLease))
		p := must[*Acquiring](t)(java.BeginAcquire())
		end := func() int64 { // negative PTTL: it has ended
			return time.Now().UnixMilli() + must[int64](t)(redis.Int64(s.Do("PTTL", key), nil))
		}
		until := end()
		ours.kill(t)
		until = max(until, end()) // a renewal may have been under way until now
		if !must[Acquired](t)(p.Wait(ctx)).Won {
			t.Fatal("the jar never took it over")
		}
		calls := must[[]Call](t)(java.Trace(ctx))
		// The server's millisecond may have begun a little before this
		// machine's.
		if last := calls[len(calls)-1]; last.RepliedMicros/1000 < until-50 {
			t.Errorf("the jar won by %s at %d, the key's TTL ended at %d", last, last.RepliedMicros/1000,
				until)
		}
	})
}
