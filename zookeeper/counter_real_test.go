// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// After 2³¹ - 1 nodes below one parent, a server gives every node the same
// number, and names alone would order them: a later client may come before the
// holder. Attempts are refused until the parent is made anew.
func TestUsedUpNumbersGrantNothing(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	conn, ctx := admin(t, server.Addr), context.Background()
	// The server would delete a container that is empty, and a new one counts
	// from 0.
	if _, err := conn.Create("/k", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	b := newBackend(t, zookeeper.Config{}, server.Addr)
	once, err := b.Contract().Try(ctx, "k", zktest.Patience)
	if err == nil {
		err = once.Release(ctx)
	}
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	server.SetCounter("/k", math.MaxInt32-1)
	b = newBackend(t, zookeeper.Config{}, server.Addr)
	last, err := b.Contract().Try(ctx, "k", zktest.Patience)
	if err != nil {
		t.Fatal("the attempt with the last number: ", err)
	}
	const many = 20 // each would come before the ones before it with probability 1/2
	usedUp := func(err error) bool {
		return err != nil && !errors.Is(err, lock.ErrHeld) &&
			strings.Contains(err.Error(), "delete the node /k")
	}
	refused := func() {
		t.Helper()
		for range many {
			p, err := b.Contract().(backend.Queuer).Enter(ctx, "k")
			if err != nil {
				t.Fatal(err)
			}
			if _, err = p.Try(ctx, zktest.Patience); !usedUp(err) {
				t.Errorf("a waiter: %v", err)
			}
			if err := p.Leave(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	refused()
	if err := last.Release(ctx); err != nil {
		t.Error(err)
	}
	refused()
	if _, err = b.Contract().Try(ctx, "k", zktest.Patience); !usedUp(err) {
		t.Errorf("an attempt: %v", err)
	}
	if left, _, err := conn.Children("/k"); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	if err := conn.Delete("/k", -1); err != nil {
		t.Fatal(err)
	}
	g, err := b.Contract().Try(ctx, "k", zktest.Patience)
	if err != nil {
		t.Fatal("below a new parent: ", err)
	}
	if err := errors.Join(g.Release(ctx), b.Close()); err != nil {
		t.Error(err)
	}
}
