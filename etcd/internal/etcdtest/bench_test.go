package etcdtest

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/lock"
)

// The benchmarks run getsetlock and concurrency.Mutex in turns on one cluster,
// and report how many times as long getsetlock took: "ratio".

func benchCluster(b *testing.B, n int) *Cluster {
	c := Start(b, n, func(cfg *embed.Config) { cfg.UnsafeNoFsync = false })
	b.ResetTimer()
	return c
}

func fatal(b *testing.B, errs ...error) {
	b.Helper()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
}

// inTurns runs both and reports their times.
func inTurns(b *testing.B, next func() (ours, theirs func() error)) {
	var we, they time.Duration
	for b.Loop() {
		ours, theirs := next()
		began := time.Now()
		err := ours()
		between := time.Now()
		fatal(b, err, theirs())
		we += between.Sub(began)
		they += time.Since(between)
	}
	b.ReportMetric(float64(we.Microseconds())/float64(b.N), "µs/getsetlock")
	b.ReportMetric(float64(they.Microseconds())/float64(b.N), "µs/Mutex")
	b.ReportMetric(float64(we)/float64(they), "ratio")
}

// both gives the same two for every turn.
func both(ours, theirs func() error) func() (a, b func() error) {
	return func() (func() error, func() error) { return ours, theirs }
}

func benchBackend(b *testing.B, c *Cluster) *etcd.Backend {
	backend, err := etcd.New(c.Client(), etcd.Config{})
	fatal(b, err)
	b.Cleanup(func() { _ = backend.Close() })
	return backend
}

func benchMutex(b *testing.B, c *Cluster, name string) *concurrency.Mutex {
	session, err := concurrency.NewSession(c.Client())
	fatal(b, err)
	b.Cleanup(func() { _ = session.Close() })
	return concurrency.NewMutex(session, name)
}

func BenchmarkAcquireAndRelease(b *testing.B) {
	c, ctx := benchCluster(b, 3), context.Background()
	locks, err := lock.New(benchBackend(b, c), lock.Config{})
	fatal(b, err)
	mutex := benchMutex(b, c, "theirs")
	inTurns(b, both(func() error {
		l, err := locks.Acquire(ctx, "ours")
		if err != nil {
			return err
		}
		return l.Release()
	}, func() error {
		return errors.Join(mutex.Lock(ctx), mutex.Unlock(ctx))
	}))
}

// A refused attempt at a name at which the attempt before was refused too.
func BenchmarkRefusedTry(b *testing.B) {
	c, ctx := benchCluster(b, 3), context.Background()
	fatal(b, benchMutex(b, c, "held").Lock(ctx))
	backend, mutex := benchBackend(b, c), benchMutex(b, c, "held")
	leader := c.members[c.Leader()].Server
	var entries uint64
	inTurns(b, both(func() error {
		before := leader.AppliedIndex()
		_, err := backend.Try(ctx, "held", time.Minute)
		entries += leader.AppliedIndex() - before
		if errors.Is(err, lock.ErrHeld) {
			return nil
		}
		return err
	}, func() error {
		if err := mutex.TryLock(ctx); !errors.Is(err, concurrency.ErrLocked) {
			return err
		}
		return nil
	}))
	b.ReportMetric(float64(entries)/float64(b.N), "entries/getsetlock")
}

// The first refused attempt at a name, which is a transaction. Each attempt is
// at a name of its own.
func BenchmarkFirstRefusedTry(b *testing.B) {
	c, ctx := benchCluster(b, 3), context.Background()
	fatal(b, benchMutex(b, c, "held").Lock(ctx))
	mutex, client, backend := benchMutex(b, c, "held"), c.Client(), benchBackend(b, c)
	names := 0
	held := func() string {
		names++
		name := "held-" + strconv.Itoa(names)
		_, err := client.Put(ctx, name+"/other", "")
		fatal(b, err)
		return name
	}
	inTurns(b, func() (func() error, func() error) {
		name := held()
		return func() error {
				_, err := backend.Try(ctx, name, time.Minute)
				if errors.Is(err, lock.ErrHeld) {
					return nil
				}
				return err
			}, func() error {
				if err := mutex.TryLock(ctx); !errors.Is(err, concurrency.ErrLocked) {
					return err
				}
				return nil
			}
	})
}

// 10,000 held leases: bytes a lease, watches included, and messages a second.
// etcd runs in a process of its own.
func BenchmarkManyLeases(b *testing.B) {
	many := 10_000
	if testing.Short() {
		many = 500
	}
	ctx := context.Background()
	var n counted
	cfg := clientv3.Config{Endpoints: StartApart(b, 1).Endpoints(), Logger: zap.NewNop()}
	n.into(&cfg)
	client, err := clientv3.New(cfg)
	fatal(b, err)
	b.Cleanup(func() { _ = client.Close() })
	backend, err := etcd.New(client, etcd.Config{})
	fatal(b, err)
	locks, err := lock.New(backend, lock.Config{TTL: 30 * time.Second})
	fatal(b, err)
	before := heap()
	leases := make([]*lock.Lease, many)
	var wg sync.WaitGroup
	next := make(chan int)
	for range 64 {
		wg.Go(func() {
			for i := range next {
				l, err := locks.Acquire(ctx, "stock-"+time.Duration(i).String())
				if err != nil {
					b.Error(err)
				}
				leases[i] = l
			}
		})
	}
	for i := range leases {
		next <- i
	}
	close(next)
	wg.Wait()
	<-time.After(2 * time.Second) // the watches begin
	each := float64(heap()-before) / float64(many)
	sent := func() int64 { return n.puts.Load() + n.reads.Load() + n.signs.Load() }
	from, began := sent(), time.Now()
	for b.Loop() {
		<-time.After(time.Second)
	}
	if !testing.Short() {
		<-time.After(20 * time.Second)
	}
	b.ReportMetric(float64(sent()-from)/time.Since(began).Seconds(), "messages/s")
	b.ReportMetric(each, "bytes/lease")
	for _, l := range leases {
		_ = l.Release()
	}
	fatal(b, locks.Close(ctx))
}

// heap is the live heap, and the stacks of goroutines.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
