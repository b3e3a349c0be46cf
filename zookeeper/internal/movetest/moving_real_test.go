// SPDX-License-Identifier: Apache-2.0

//go:build real

package movetest

import (
	"context"
	"errors"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/moving"
	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// Old clients of the original Java lock, Go programs on Redis, and Go programs
// on Redis and ZooKeeper become Go programs on ZooKeeper alone, alongside
// Curator.
func TestFleetMovesFromTimestampsToZooKeeper(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	backend := func() backend.Store {
		b, err := zookeeper.New([]string{server.Addr}, zookeeper.Config{Chroot: "/locks"})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	moving.Move(t, backend, func() {
		curator := zktest.Curator(t, 10_000, server.Addr)
		curator.Must("true", "acquire", "/locks/"+moving.Key, zktest.Patience.Milliseconds())
		other, err := lock.New(backend(), lock.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close(context.Background())
		if l, err := other.TryAcquire(context.Background(), moving.Key); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("alongside Curator: %v, %v", l, err)
		}
		curator.Must("", "release", "/locks/"+moving.Key)
	})
}
