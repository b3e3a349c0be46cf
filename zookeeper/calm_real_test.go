// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// opChildren is the code of a request that reads the names of children.
const opChildren = 12

// looks counts these requests.
type looks struct{ n atomic.Int64 }

type looksConn struct {
	net.Conn
	to *looks
}

func (l *looks) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return looksConn{conn, l}, err
}

func (c looksConn) Write(p []byte) (int, error) {
	if len(p) >= 12 && binary.BigEndian.Uint32(p[8:]) == opChildren {
		c.to.n.Add(1)
	}
	return c.Conn.Write(p)
}

// A client that used a lock last, and alone, takes it without a look before.
// When another client has taken it meanwhile, the attempt deletes its own node,
// and the next attempts look first again.
func TestAttemptLooksFirstUnlessAloneBefore(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	conn := admin(t, server.Addr)
	var l looks
	c, _ := logging(t, zookeeper.Config{Chroot: "/locks", Dial: l.dial}, lock.Config{}, server.Addr)
	during := func(do func()) int64 {
		before := l.n.Load()
		do()
		return l.n.Load() - before
	}
	writes := func() int32 {
		_, stat, err := conn.Exists("/locks/k")
		if err != nil {
			t.Fatal(err)
		}
		return stat.Cversion
	}
	refused := func() {
		if _, err := c.TryAcquire(context.Background(), "k"); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("TryAcquire of a held lock: %v", err)
		}
	}
	persist(t, server, "k")
	for i, want := range []int64{2, 1, 1} {
		if n := during(func() { release(t, acquire(t, c, "k")) }); n != want {
			t.Errorf("acquisition %d looked %d times, not %d", i+1, n, want)
		}
	}
	other := zk.NewLock(conn, "/locks/k", zk.WorldACL(zk.PermAll))
	if err := other.Lock(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int32{2, 0, 0} { // its own node came and went
		before := writes()
		refused()
		if n := writes() - before; n != want {
			t.Errorf("refusal %d changed the children %d times, not %d", i+1, n, want)
		}
		waiters(t, conn, "/locks/k", 1)
	}
	if err := other.Unlock(); err != nil {
		t.Fatal(err)
	}
}
