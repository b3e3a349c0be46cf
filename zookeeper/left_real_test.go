// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Codes of requests, as ZooKeeper's protocol numbers them.
const (
	createContainer = 19
	getChildren     = 12
)

// ending is a connection that ends at a request of a kind, before it is sent or
// after the next reply to another one.
type ending struct {
	net.Conn
	at    uint32
	later bool
	times *atomic.Int32
	over  atomic.Bool
}

func (c *ending) Write(p []byte) (int, error) {
	if len(p) < 12 || binary.BigEndian.Uint32(p[8:]) != c.at || c.times.Add(-1) < 0 {
		return c.Conn.Write(p)
	}
	if c.later {
		c.over.Store(true)
		return len(p), nil
	}
	_ = c.Conn.Close()
	return 0, net.ErrClosed
}

func (c *ending) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.over.Load() && n > 20 { // more than the length of what comes
		_ = c.Conn.Close()
	}
	return n, err
}

func endsAt(at uint32, times int32, later bool) Config {
	left := new(atomic.Int32)
	left.Store(times)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &ending{Conn: conn, at: at, later: later, times: left}, err
	}
	return Config{Timeout: zktest.Patience, Dial: dial}
}

// TestFailedParentsKeepNoSession: nothing was created, so nothing is to be
// deleted.
func TestFailedParentsKeepNoSession(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	b, err := New([]string{server.Addr}, endsAt(createContainer, 1, false))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.engine.Try(context.Background(), "k", 4*time.Second); err == nil {
		t.Fatal("the parents were made")
	}
	sessions := func() []*session {
		b.engine.Lock()
		defer b.engine.Unlock()
		return b.engine.All()
	}
	for _, s := range sessions() {
		b.engine.Retire(s)
	}
	for end := time.Now().Add(zktest.Patience); len(sessions()) > 0; <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a session without keys is still kept")
		}
	}
}

// TestConnectionLostAfterTheOwnNodeWasRead: the number comes with that reply.
func TestConnectionLostAfterTheOwnNodeWasRead(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	b, err := New([]string{server.Addr}, endsAt(getChildren, 1, true))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p, err := b.engine.Enter(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		g, err := p.Try(context.Background(), 10*time.Second)
		if err != nil {
			continue
		}
		if g.(backend.Fenced).Fence() == 0 {
			t.Error("a lease has no fencing number")
		}
		if err := g.Release(context.Background()); err != nil {
			t.Error(err)
		}
		return
	}
	t.Error("no try took the lock")
}
