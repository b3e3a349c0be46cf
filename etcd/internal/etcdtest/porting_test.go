// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/lock"
)

// oldLock is a lock as it is found in services. docs/guide/etcd.md has
// its faults by these numbers.
//
// doc: old
func oldLock(ctx context.Context, cli *clientv3.Client, job func()) error {
	lease, err := cli.Grant(ctx, 5)
	if err != nil {
		return err
	}
	alive, err := cli.KeepAlive(ctx, lease.ID)
	if err != nil {
		return err
	}
	go func() {
		for range alive { // 3, 5
		}
		cli.Revoke(context.Background(), lease.ID)
	}()
	for { // 4
		txn, err := cli.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision("/lock/stock"), "=", 0)).
			Then(clientv3.OpPut("/lock/stock", "1", clientv3.WithLease(lease.ID))). // 1
			Commit()
		if err != nil {
			return err // 6
		}
		if txn.Succeeded {
			break
		}
		for events := range cli.Watch(ctx, "/lock/stock") { // 2
			if events.Events[0].Type == clientv3.EventTypeDelete {
				break
			}
		}
	}
	job()
	_, err = cli.Delete(ctx, "/lock/stock") // 1
	return err
}

// doc: end

// doc: new
func newLock(ctx context.Context, locks *lock.Client, job func(context.Context) error) error {
	return locks.Do(ctx, "/lock/stock", job)
}

// doc: end

func TestPortedLockExcludesItself(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	locks, err := etcd.Open(testContext(t), c.Endpoints(), etcd.Options{Lock: lock.Config{Wait: -1}})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close(testContext(t))
	err = newLock(testContext(t), locks, func(context.Context) error {
		_, err := locks.TryAcquire(testContext(t), "/lock/stock")
		return err
	})
	if !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
}

// Faults 4 and 6 of the old lock: its lease is kept while it waits, and after
// an error.
func TestOldLockLeavesItsLease(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	own := c.Client()
	// The first runs a job, and the second waits for it.
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	hold := make(chan struct{})
	go func() { _ = oldLock(ctx, own, func() { <-hold }) }()
	await(t, "the lock", func() bool { return len(c.Keys("/lock/stock")) == 1 })
	go func() { _ = oldLock(ctx, own, func() {}) }()
	leases := func() int {
		all, err := own.Leases(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		return len(all.Leases)
	}
	await(t, "the lease of the waiter", func() bool { return leases() == 2 })
	close(hold)
	await(t, "the end of both jobs", func() bool { return len(c.Keys("/lock/stock")) == 0 })
	if n := leases(); n != 2 {
		t.Errorf("%d leases are kept after the jobs", n)
	}
}

// The pages of etcd and ZooKeeper show Go only from here and from the examples.
func TestGoInPagesIsCompiled(t *testing.T) {
	var page []byte
	for _, name := range []string{"guide/etcd.md", "guide/zookeeper.md"} {
		text, err := os.ReadFile("../../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		page = append(page, text...)
	}
	var sources string
	for _, name := range []string{"porting_test.go", "composed_test.go", "../../example_test.go",
		"../../../zookeeper/porting_real_test.go", "../../../zookeeper/example_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources += plain(string(text))
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	for _, block := range blocks {
		if !strings.Contains(sources, plain(block[1])) {
			t.Errorf("this Go comes from nowhere:\n%s", block[1])
		}
	}
	if len(blocks) < 3 {
		t.Errorf("%d blocks of Go", len(blocks))
	}
}

// plain makes one blank of each run of blanks.
func plain(s string) string { return strings.Join(strings.Fields(s), " ") }
