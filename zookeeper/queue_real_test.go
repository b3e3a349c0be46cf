// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"errors"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// Every waiter looks again every few seconds. If it listed the children, the
// bytes for all of them would grow with the square of their number.
func TestWaitersListTheChildrenOnceATurn(t *testing.T) {
	t.Parallel()
	const waiting, rechecks, ttl = 20, 5, zktest.Patience
	server := zktest.Start(t)
	ctx := context.Background()
	var l looks
	cfg := zookeeper.Config{Chroot: "/locks", Timeout: zktest.Patience, Dial: l.dial}
	b := newBackend(t, cfg, server.Addr)
	g, err := b.Contract().Try(ctx, "k", ttl)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(p backend.Place) {
		t.Helper()
		if _, err := p.Try(ctx, ttl); !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
	}
	var places []backend.Place
	for range waiting {
		p, err := b.Contract().(backend.Queuer).Enter(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		refused(p)
		places = append(places, p)
	}
	before := l.n.Load()
	for range rechecks {
		for _, p := range places {
			refused(p)
		}
	}
	if n := l.n.Load() - before; n > 0 {
		t.Errorf("%d waiters listed the children %d times in %d rechecks", waiting, n, rechecks)
	}
	// When a waiter leaves, the one behind it follows, and is not the first.
	if err := places[0].Leave(ctx); err != nil {
		t.Fatal(err)
	}
	refused(places[1])
	if err := g.Release(ctx); err != nil {
		t.Fatal(err)
	}
	before = l.n.Load()
	if g, err = places[1].Try(ctx, ttl); err != nil {
		t.Fatal(err)
	}
	for _, p := range places[2:] {
		refused(p)
	}
	if n := l.n.Load() - before; n != 1 {
		t.Errorf("one turn made %d lists", n)
	}
	if err := errors.Join(g.Release(ctx), b.Close()); err != nil {
		t.Error(err)
	}
}

// A node that was deleted by hand is no place in the queue any more, whatever
// stands before it.
func TestWaiterNoticesTheLossOfItsNode(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	conn, ctx := admin(t, server.Addr), context.Background()
	b := newBackend(t, zookeeper.Config{Chroot: "/locks"}, server.Addr)
	g, err := b.Contract().Try(ctx, "k", zktest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	p, err := b.Contract().(backend.Queuer).Enter(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Try(ctx, zktest.Patience); !errors.Is(err, lock.ErrHeld) {
		t.Fatal(err)
	}
	children, _, err := conn.Children("/locks/k")
	if err != nil || len(children) != 2 {
		t.Fatal(children, err)
	}
	waiter := children[0]
	if waiter[len(waiter)-10:] < children[1][len(children[1])-10:] {
		waiter = children[1]
	}
	if err := conn.Delete("/locks/k/"+waiter, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Try(ctx, zktest.Patience); !errors.Is(err, lock.ErrHeld) {
		t.Fatal(err)
	}
	again, _, err := conn.Children("/locks/k")
	if err != nil || len(again) != 2 {
		t.Errorf("the waiter has no new node: %q, %v", again, err)
	}
	if err := errors.Join(g.Release(ctx), p.Leave(ctx), b.Close()); err != nil {
		t.Error(err)
	}
}
