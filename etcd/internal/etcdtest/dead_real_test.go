// SPDX-License-Identifier: Apache-2.0

//go:build real

package etcdtest

import (
	"context"
	"testing"

	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/lock"
)

// A getsetlock holder dies: nothing of it reaches etcd any more. etcdctl and
// jetcd get the lock when its lease ends.
func TestForeignClientsOutliveADeadHolder(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	client := c.Client()
	b, err := etcd.New(client, etcd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	locks, err := lock.New(b, lock.Config{TTL: etcd.LeastTTL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = locks.Close(ctx) // it can say nothing to etcd any more
	})
	acquire(t, locks, "one")
	acquire(t, locks, "two")
	j := c.jetcd(t)
	theirs := c.lockedByEtcdctl(t, "one")
	if err := j.Send("lock two"); err != nil {
		t.Fatal(err)
	}
	await(t, "both waiters' keys", func() bool { return len(c.Keys("one/"))+len(c.Keys("two/")) == 4 })
	_ = client.Close()
	if key := <-theirs.key; key == "" {
		t.Error("etcdctl ended without the lock")
	}
	if _, err := j.Answer(); err != nil {
		t.Errorf("jetcd: %v", err)
	}
}
