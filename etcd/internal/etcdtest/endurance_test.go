// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/history"
	"github.com/getsetlock/getsetlock/lock"
)

// nothingLeft fails the test if a key, a lease or a goroutine is left.
func (c *Cluster) nothingLeft(t *testing.T) {
	t.Helper()
	if left := c.Keys(""); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	call(t, func(ctx context.Context) error {
		leases, err := c.Client().Leases(ctx)
		if err == nil && len(leases.Leases) > 0 {
			t.Errorf("%d leases are left", len(leases.Leases))
		}
		return err
	})
	await(t, "the end of the goroutines", func() bool {
		return history.Running(t, "getsetlock/lock", "getsetlock/etcd") == 0
	})
}

// Ten thousand locks cost etcd a bounded number of messages and of entries in
// its log, and leave nothing. No test runs alongside, since it counts the
// goroutines of the process.
func TestTenThousandLocksLeaveNothing(t *testing.T) {
	const workers, each, all = 20, 500, 20 * 500
	c := Start(t, 1)
	var n counted
	locks, err := lock.New(c.backend(n.into), lock.Config{TTL: long})
	if err != nil {
		t.Fatal(err)
	}
	before := c.members[0].Server.AppliedIndex()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range each {
				l, err := locks.Acquire(testContext(t), fmt.Sprint("stock/", w))
				if err != nil {
					t.Error(err)
					return
				}
				release(t, l)
			}
		})
	}
	wg.Wait()
	entries := c.members[0].Server.AppliedIndex() - before
	// One transaction takes a key and one deletes it. Everything else, such as
	// the lease, is shared.
	puts, rest := n.puts.Load(), n.reads.Load()+n.logins.Load()+n.signs.Load()
	if puts != 2*all || rest > all/20 {
		t.Errorf("%d locks: %d writing transactions, %d other messages", all, puts, rest)
	}
	if entries > 2*all+all/20 {
		t.Errorf("%d locks: %d entries of the log", all, entries)
	}
	call(t, locks.Close)
	c.nothingLeft(t)
}

// Three hundred processes queue for one lock. Each gets it once, in turn, and
// asks etcd a bounded number of times meanwhile. No test runs alongside.
func TestThreeHundredClientsQueueForOneLock(t *testing.T) {
	const many = 300
	c := Start(t, 1)
	holder, _ := c.locks(t, lock.Config{TTL: long})
	held := acquire(t, holder, "stock")
	var n counted
	var clients []*lock.Client
	var results []<-chan lock.Result
	for i := range many {
		l, err := lock.New(c.backend(n.into), lock.Config{TTL: long})
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, l)
		results = append(results, l.Request(testContext(t), "stock"))
		await(t, "the key of the place", func() bool { return len(c.Keys("stock/")) == i+2 })
	}
	if len(results[0]) > 0 {
		t.Fatal("client 1 has the lock together with its holder")
	}
	release(t, held)
	var fences []int64
	for i, result := range results {
		r := <-result
		if r.Err != nil {
			t.Fatalf("client %d: %v", i, r.Err)
		}
		fence, _ := r.Lease.Fence()
		fences = append(fences, fence)
		if i+1 < many && len(results[i+1]) > 0 {
			t.Fatalf("client %d has the lock together with client %d", i+1, i)
		}
		release(t, r.Lease)
	}
	if !slices.IsSorted(fences) || len(slices.Compact(fences)) != many {
		t.Errorf("fencing numbers: %v", fences)
	}
	if per := (n.puts.Load() + n.reads.Load()) / many; per > 12 {
		t.Errorf("%d messages for each client", per)
	}
	for _, l := range clients {
		call(t, l.Close)
	}
	call(t, holder.Close)
	c.nothingLeft(t)
}

// A learner refuses what a lock asks of it. A client whose list names it goes
// to a member, with its keys and its signs of life.
func TestLocksWorkBesideALearner(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	c.addLearner()
	var renewed atomic.Int64
	for range 3 { // each client begins with another one of its list
		locks, _ := c.locks(t, lock.Config{TTL: 2 * time.Second,
			Hooks: lock.Hooks{Renewed: func(lock.Event) { renewed.Add(1) }}})
		l := acquire(t, locks, "stock")
		waiter, _ := c.locks(t, lock.Config{TTL: 2 * time.Second})
		got := waiter.Request(testContext(t), "stock")
		seen := renewed.Load()
		await(t, "renewals for longer than a TTL", func() bool { return renewed.Load() >= seen+4 })
		if len(got) > 0 {
			t.Fatal("two clients hold the lock")
		}
		release(t, l)
		r := <-got
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		release(t, r.Lease)
	}
}
