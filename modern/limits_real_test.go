// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// inUse returns what the process's heap and stacks keep, in bytes.
func inUse() (heap, stacks int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse)
}

func TestHundredThousandLeasesNeedLittleMemory(t *testing.T) {
	const leases = 100_000
	s := redistest.Real(t, redistest.Options{})
	b := openOn(t, s.Pool(), modern.Config{})
	c := client(t, b, lock.Config{TTL: 10 * time.Minute})
	heap, _ := inUse()
	goroutines := runtime.NumGoroutine()
	held := make([]*lock.Lease, leases)
	crowd(leases, func(i int) {
		l, err := c.Acquire(bg, fmt.Sprintf("key:%06d", i))
		if err != nil {
			t.Error(err)
			return
		}
		held[i] = l
	})
	if t.Failed() {
		return
	}
	// Every key is watched as soon as the server tracks that many.
	for all := false; !all; {
		<-time.After(100 * time.Millisecond)
		all = s.Do("EVAL",
			"return tonumber(string.match(redis.call('INFO', 'stats'), 'tracking_total_keys:(%d+)'))",
			0) == int64(leases)
	}
	watched, _ := inUse()
	for _, l := range held {
		l.Context(bg)
	}
	withContext, _ := inUse()
	for what, each := range map[string]struct{ is, most int64 }{
		"a lease that renews itself, watched": {(watched - heap) / leases, 800},
		// from the standard library
		"a context of its own": {(withContext - watched) / leases, 200},
	} {
		t.Logf("%d bytes for %s", each.is, what)
		if each.is > each.most {
			t.Errorf("%d bytes for %s; the limit is %d", each.is, what, each.most)
		}
	}
	if n := runtime.NumGoroutine() - goroutines; n > 10 {
		t.Errorf("%d goroutines more than without leases", n)
	}
	crowd(leases, func(i int) {
		if err := held[i].Release(); err != nil {
			t.Error(err)
		}
	})
}

// crowd calls f for every number below n, from 200 goroutines.
func crowd(n int, f func(int)) {
	var wg sync.WaitGroup
	for g := range 200 {
		wg.Go(func() {
			for i := g; i < n; i += 200 {
				f(i)
			}
		})
	}
	wg.Wait()
}

func TestTenThousandWaitersAreSmall(t *testing.T) {
	const waiters = 10_000
	s := redistest.Real(t, redistest.Options{})
	b := openOn(t, s.Pool(), modern.Config{})
	waiting := make(chan struct{}, waiters)
	c := client(t, b, lock.Config{Hooks: lock.Hooks{Waiting: func(lock.Event) { waiting <- struct{}{} }}})
	holder := acquire(t, c, "k")
	heap, stacks := inUse()
	ctx, cancel := context.WithCancel(bg)
	var wg sync.WaitGroup
	for range waiters {
		wg.Go(func() {
			if l, err := c.Acquire(ctx, "k"); err == nil {
				t.Error("granted")
				_ = l.Release()
			}
		})
	}
	for range waiters {
		<-waiting
	}
	h, st := inUse()
	t.Logf("%d bytes a waiter besides %d of stack", (h-heap)/waiters, (st-stacks)/waiters)
	if each := (h - heap) / waiters; each > 1200 {
		t.Errorf("%d bytes a waiter besides its stack", each)
	}
	cancel()
	wg.Wait()
	if err := holder.Release(); err != nil {
		t.Error(err)
	}
}

// A server without memory refuses new locks. It refuses neither renewals nor
// releases, also of keys that have waiters.
func TestFullServerKeepsHeldLeases(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		t.Run(binary.Name, func(t *testing.T) {
			s := binary.Start(t, redistest.Options{})
			s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			for name, cfg := range map[string]modern.Config{
				"plain": {}, "fence": {Fence: true}, "fair": {Fair: true, Fence: true}} {
				b := openOn(t, s.Pool(), cfg)
				g, err := b.Contract().Try(bg, "k", time.Minute)
				if err != nil {
					t.Fatal(name, err)
				}
				p := enter(t, b, "k")
				if _, err := p.Try(bg, time.Minute); !errors.Is(err, lock.ErrHeld) {
					t.Fatalf("%s: a second attempt: %v", name, err)
				}
				s.Do("CONFIG", "SET", "maxmemory", 1)
				if _, err := b.Contract().Try(bg, "other", time.Minute); err == nil ||
					!strings.Contains(err.Error(), "OOM") {
					t.Errorf("%s: a new lock: %v", name, err)
				}
				if _, err := g.Extend(bg, time.Hour); err != nil {
					t.Errorf("%s: Extend: %v", name, err)
				}
				if left := s.Do("PTTL", "k").(int64); left <= time.Minute.Milliseconds() {
					t.Errorf("%s: %d ms are left after a renewal by an hour", name, left)
				}
				if err := g.Release(bg); err != nil {
					t.Errorf("%s: Release: %v", name, err)
				}
				// The waiter has it, or asks for it: a number needs memory.
				value, _ := redis.String(s.Do("GET", "k"), nil)
				if given := value != "" && value != g.Token(); given != (name == "plain" && binary.Effects) {
					t.Errorf("%s: released, and the key holds %q", name, value)
				}
				s.Do("CONFIG", "SET", "maxmemory", 0)
				if err := p.Leave(bg); err != nil {
					t.Errorf("%s: Leave: %v", name, err)
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
				s.Do("FLUSHALL")
			}
		})
	}
}
