// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// oldLock never closes its connection, whose library would go on to log that
// the server is gone.
func init() { zk.DefaultLogger = quiet{} }

// oldLock is a lock as it is found in services. docs/guide/zookeeper.md shows
// it.
func oldLock(servers []string, job func()) error {
	conn, _, err := zk.Connect(servers, 5*time.Second) // 1, 2
	if err != nil {
		return err
	}
	l := zk.NewLock(conn, "/lock", zk.WorldACL(zk.PermAll)) // 3
	if err := l.Lock(); err != nil {                        // 4
		return err // 5
	}
	job()             // 2
	return l.Unlock() // 6
}

func newLock(ctx context.Context, locks *lock.Client, job func(context.Context) error) error {
	return locks.Do(ctx, "lock", job)
}

// Both use the nodes below /lock, so they may run side by side while programs
// are replaced.
func TestPortedLockExcludesTheOldOne(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	ctx := context.Background()
	locks := open(t, "zookeeper://"+server.Addr, zookeeper.Options{})
	try := func(context.Context) error {
		_, err := locks.TryAcquire(ctx, "lock")
		return err
	}
	if err := newLock(ctx, locks, try); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("TryAcquire while the new one runs: %v", err)
	}
	var inside error
	if err := oldLock([]string{server.Addr}, func() { inside = try(ctx) }); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(inside, lock.ErrHeld) {
		t.Errorf("TryAcquire while the old one runs: %v", inside)
	}
}

// Fault 2 of the old lock: its node is gone, another client holds the lock, and
// its job runs on. It learns of that when it gives the lock back.
func TestOldLockIsNotToldOfItsLoss(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	conn := admin(t, server.Addr)
	locks := open(t, "zookeeper://"+server.Addr, zookeeper.Options{})
	err := oldLock([]string{server.Addr}, func() {
		info, err := locks.Inspect(context.Background(), "lock")
		if err != nil {
			t.Error(err)
			return
		}
		if err := conn.Delete("/lock/"+info.Detail.(*zookeeper.Info).Holder, -1); err != nil {
			t.Error(err)
		}
		release(t, acquire(t, locks, "lock"))
	})
	if !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("the end of the old lock: %v", err)
	}
}
