// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"testing"

	"github.com/getsetlock/getsetlock/lock"
)

// The order of arrival is that of processes: the goroutines of one share a
// place in etcd's queue. README and docs/reference/compared.md say so.
func TestProcessesAreServedInTurns(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	holder, _ := c.locks(t, lock.Config{TTL: long})
	held := acquire(t, holder, "stock")
	type turn struct {
		who string
		lock.Result
	}
	served := make(chan turn, 1)
	wait := func(who string, client *lock.Client) {
		result := client.Request(testContext(t), "stock")
		go func() { served <- turn{who, <-result} }()
	}
	keys := func(n int) {
		t.Helper()
		await(t, "a key of each process that waits", func() bool { return len(c.Keys("stock/")) == n })
	}
	a, _ := c.locks(t, lock.Config{TTL: long})
	b, _ := c.locks(t, lock.Config{TTL: long})
	wait("A1", a)
	keys(2)
	wait("A2", a)
	wait("B1", b)
	keys(3)
	wait("B2", b)
	release(t, held)
	for _, want := range []struct {
		who  string
		keys int
	}{{"A1", 2}, {"B1", 2}, {"A2", 2}, {"B2", 1}} {
		got := <-served
		if got.Err != nil || got.who != want.who {
			t.Fatalf("%s was served, not %s: %v", got.who, want.who, got.Err)
		}
		keys(want.keys) // the next goroutine of the process before has taken a place
		release(t, got.Lease)
	}
}
