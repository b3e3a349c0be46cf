// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/testing/program"
	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// BenchmarkAcquireRelease compares one free lock with go-zookeeper's own Lock
// and Curator's at the same server, which writes to its disk as in production.
// The first two take turns, so that both meet the same moments of the machine.
// Curator's time is read in its own process.
func BenchmarkAcquireRelease(b *testing.B) {
	server := zktest.Start(b, "forceSync=yes")
	c := client(b, lock.Config{}, server.Addr)
	foreign := zk.NewLock(admin(b, server.Addr), "/locks/foreign", zk.WorldACL(zk.PermAll))
	own := func() error {
		lease, err := c.Acquire(context.Background(), "own")
		if err != nil {
			return err
		}
		return lease.Release()
	}
	theirs := func() error { return errors.Join(foreign.Lock(), foreign.Unlock()) }
	timed := func(once func() error) time.Duration {
		from := time.Now()
		if err := once(); err != nil {
			b.Fatal(err)
		}
		return time.Since(from)
	}
	for range min(2*b.N, 2000) { // the server's compiler warms up
		timed(own)
		timed(theirs)
	}
	var ours, other time.Duration
	n := 0
	for b.Loop() {
		ours += timed(own)
		other += timed(theirs)
		n++
	}
	b.ReportMetric(float64(ours.Microseconds())/float64(n), "µs/own")
	b.ReportMetric(float64(other.Microseconds())/float64(n), "µs/go-zookeeper")
	b.ReportMetric(float64(ours)/float64(other), "ratio")
	const span = 3 * time.Second
	peer := zktest.Curator(b, 30_000, server.Addr)
	spin(b, peer, "/locks/curator", span) // its compiler warms up
	b.ReportMetric(float64(span.Microseconds())/float64(spin(b, peer, "/locks/curator", span)), "µs/Curator")
}

// spin lets a peer take and release a lock again and again.
func spin(b *testing.B, peer *program.Peer, path string, span time.Duration) int {
	answer, err := peer.Order("spin", path, span.Milliseconds())
	if err != nil {
		b.Error(err)
	}
	n, err := strconv.Atoi(answer)
	if err != nil {
		b.Error(err)
	}
	return n
}

// BenchmarkShares lets clients of three libraries contend for one lock. It
// reports each one's share of the acquisitions, in percent.
func BenchmarkShares(b *testing.B) {
	b.Run("Curator", func(b *testing.B) {
		server := zktest.Start(b)
		shares(b, server, "Curator", zktest.Curator(b, 30_000, server.Addr))
	})
	b.Run("kazoo", func(b *testing.B) {
		server := zktest.Start(b)
		shares(b, server, "kazoo", zktest.Kazoo(b, 30_000, []string{"-lock-"}, server.Addr))
	})
}

func shares(b *testing.B, server *zktest.Server, name string, peer *program.Peer) {
	own := []*lock.Client{client(b, lock.Config{}, server.Addr), client(b, lock.Config{}, server.Addr)}
	foreign := zk.NewLock(admin(b, server.Addr), "/locks/k", zk.WorldACL(zk.PermAll))
	spin(b, peer, "/locks/k", time.Second)
	for b.Loop() {
		const span = 10 * time.Second
		var counts [4]int
		var work sync.WaitGroup
		work.Go(func() { counts[0] = spin(b, peer, "/locks/k", span) })
		end := time.Now().Add(span)
		repeat := func(at int, once func() error) {
			for ; time.Now().Before(end); counts[at]++ {
				if err := once(); err != nil {
					b.Error(err)
					return
				}
			}
		}
		work.Go(func() { repeat(1, func() error { return errors.Join(foreign.Lock(), foreign.Unlock()) }) })
		for i, c := range own {
			work.Go(func() {
				repeat(2+i, func() error {
					lease, err := c.Acquire(context.Background(), "k")
					if err != nil {
						return err
					}
					return lease.Release()
				})
			})
		}
		work.Wait()
		all := counts[0] + counts[1] + counts[2] + counts[3]
		for i, who := range []string{name, "go-zookeeper", "own-1", "own-2"} {
			b.ReportMetric(100*float64(counts[i])/float64(all), "%"+who)
		}
		b.ReportMetric(float64(all)/span.Seconds(), "locks/s")
	}
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
		c, err := lock.New(newBackend(b, zookeeper.Config{Chroot: "/many", Dial: count.dial}, server.Addr),
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
