// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/testing/history"
	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// packets counts what clients send, and its bytes, and what they receive.
type packets struct{ sent, out, in atomic.Int64 }

type packetsConn struct {
	net.Conn
	to *packets
}

func (p *packets) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return packetsConn{conn, p}, err
}

func (c packetsConn) Write(p []byte) (int, error) {
	c.to.sent.Add(1)
	c.to.out.Add(int64(len(p)))
	return c.Conn.Write(p)
}

func (c packetsConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.to.in.Add(int64(n))
	return n, err
}

// running counts the goroutines of this process's clients, and tests of the
// package itself that wait for their turn.
func running(t *testing.T) int {
	t.Helper()
	return history.Running(t, "getsetlock/lock", "getsetlock/zookeeper")
}

// ended waits until no more goroutines run than before, and nothing is left of
// the sessions.
func ended(t *testing.T, before int, conn *zk.Conn) {
	t.Helper()
	for end := time.Now().Add(zktest.Patience); running(t) > before; <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", running(t), before)
		}
	}
	nothingLeft(t, conn)
}

// Ten thousand locks cost a bounded number of messages each, and leave nothing.
// No test runs alongside, since it counts the goroutines of the process.
func TestTenThousandLocksLeaveNothing(t *testing.T) {
	const workers, each, all = 20, 500, 20 * 500
	before := running(t)
	server := zktest.Start(t)
	var n packets
	locks, err := lock.New(newBackend(t, zookeeper.Config{Chroot: "/locks", Dial: n.dial}, server.Addr),
		lock.Config{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range each {
				l, err := locks.Acquire(context.Background(), fmt.Sprint("k/", w))
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// A node is created, the children are listed, its own number is read, and
	// it is deleted. Parents and signs of life come to that.
	if sent := n.sent.Load(); sent > 4*all+all/20 {
		t.Errorf("%d locks: %d messages", all, sent)
	}
	closed(t, locks)
	ended(t, before, admin(t, server.Addr))
}

// Three hundred processes queue for one lock. Each gets it once, in turn. It
// lists the children when it enters and when its turn comes: about forty bytes
// for each waiter.
func TestThreeHundredClientsQueueForOneLock(t *testing.T) {
	const many = 300
	before := running(t)
	server := zktest.Start(t)
	conn := admin(t, server.Addr)
	cfg := lock.Config{TTL: time.Minute}
	holder, err := lock.New(newBackend(t, zookeeper.Config{Chroot: "/locks"}, server.Addr), cfg)
	if err != nil {
		t.Fatal(err)
	}
	held, err := holder.Acquire(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	var n packets
	var clients []*lock.Client
	var results []<-chan lock.Result
	for i := range many {
		l, err := lock.New(newBackend(t, zookeeper.Config{Chroot: "/locks", Dial: n.dial}, server.Addr), cfg)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, l)
		results = append(results, l.Request(context.Background(), "k"))
		for children := []string(nil); len(children) < i+2; {
			if children, _, err = conn.Children("/locks/k"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(results[0]) > 0 {
		t.Fatal("client 1 has the lock together with its holder")
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	var last int64
	for i, result := range results {
		r := <-result
		if r.Err != nil {
			t.Fatalf("client %d: %v", i, r.Err)
		}
		fence, _ := r.Lease.Fence()
		if fence <= last {
			t.Errorf("client %d: fencing number %d after %d", i, fence, last)
		}
		last = fence
		if i+1 < many && len(results[i+1]) > 0 {
			t.Fatalf("client %d has the lock together with client %d", i+1, i)
		}
		if err := r.Lease.Release(); err != nil {
			t.Error(err)
		}
	}
	sent, in := n.sent.Load()/many, n.in.Load()/many
	if sent > 20 || in > many*150 {
		t.Errorf("%d messages and %d bytes for each client", sent, in)
	}
	for _, l := range append(clients, holder) {
		closed(t, l)
	}
	ended(t, before, conn)
}
