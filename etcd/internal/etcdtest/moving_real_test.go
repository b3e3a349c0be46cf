// SPDX-License-Identifier: Apache-2.0

//go:build real

package etcdtest

import (
	"context"
	"os"
	"testing"

	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/internal/testing/moving"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Old clients of the original Java lock, Go programs on Redis, and Go programs
// on Redis and etcd become Go programs on etcd alone,
// alongside etcdctl.
func TestFleetMovesFromTimestampsToEtcd(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	moving.Move(t, func() backend.Store { return c.backend() }, func() {
		h := c.lockedByEtcdctl(t, moving.Key)
		if key := <-h.key; key == "" {
			t.Error("etcdctl did not get the lock")
		}
		other, err := etcd.Open(testContext(t), c.Endpoints(), etcd.Options{Lock: lock.Config{Wait: -1}})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close(context.Background())
		if l, err := other.Acquire(testContext(t), moving.Key); err == nil {
			t.Errorf("taken alongside etcdctl: %v", l)
		}
		h.end(os.Interrupt)
	})
	if keys := c.Keys(""); len(keys) > 0 {
		t.Errorf("left: %q", keys)
	}
}
