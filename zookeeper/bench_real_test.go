//go:build real

package zookeeper_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
	"github.com/getsetlock/getsetlock/zookeeper/internal/zktest"
)

// BenchmarkAcquireRelease compares one free lock with go-zookeeper's own Lock
// at the same server.
func BenchmarkAcquireRelease(b *testing.B) {
	server := zktest.Start(b)
	b.Run("getsetlock", func(b *testing.B) {
		c := client(b, lock.Config{}, server.Addr)
		release(b, acquire(b, c, "own"))
		for b.Loop() {
			lease, err := c.Acquire(context.Background(), "own")
			if err != nil {
				b.Fatal(err)
			}
			release(b, lease)
		}
	})
	b.Run("go-zookeeper", func(b *testing.B) {
		l := zk.NewLock(admin(b, server.Addr), "/locks/foreign", zk.WorldACL(zk.PermAll))
		for b.Loop() {
			if err := l.Lock(); err != nil {
				b.Fatal(err)
			}
			if err := l.Unlock(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// counted counts the messages of one client.
type counted struct{ n atomic.Int64 }

type countedConn struct {
	net.Conn
	c *counted
}

func (c *counted) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return countedConn{conn, c}, err
}

func (c countedConn) Write(p []byte) (int, error) {
	c.c.n.Add(1)
	return c.Conn.Write(p)
}

// BenchmarkManyLeases holds 10,000 locks in one session. It reports how many
// messages a second that takes, and how much memory a lease.
func BenchmarkManyLeases(b *testing.B) {
	const leases, parallel = 10_000, 50
	server := zktest.Start(b)
	for b.Loop() {
		count := new(counted)
		c, err := lock.New(backend(b, zookeeper.Config{Chroot: "/many", Dial: count.dial}, server.Addr),
			lock.Config{TTL: 30 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		release(b, acquire(b, c, "first"))
		before := heap()
		held := make([]*lock.Lease, leases)
		var work sync.WaitGroup
		for p := range parallel {
			work.Go(func() {
				for i := p; i < leases; i += parallel {
					lease, err := c.Acquire(context.Background(), fmt.Sprint("k", i))
					if err != nil {
						b.Error(err)
						return
					}
					held[i] = lease
				}
			})
		}
		work.Wait()
		<-time.After(time.Second) // the first looks at the keys
		from := count.n.Load()
		const span = 20 * time.Second
		<-time.After(span)
		b.ReportMetric(float64(count.n.Load()-from)/span.Seconds(), "messages/s")
		b.ReportMetric(float64(heap()-before)/leases, "B/lease")
		if b.Failed() {
			return
		}
		for _, l := range held {
			if l.Err() != nil {
				b.Fatal(l.Err())
			}
		}
		for p := range parallel {
			work.Go(func() {
				for i := p; i < leases; i += parallel {
					_ = held[i].Release()
				}
			})
		}
		work.Wait()
		if err := c.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
