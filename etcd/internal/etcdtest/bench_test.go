// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"errors"
	"flag"
	"runtime"
	"slices"
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
	"github.com/getsetlock/getsetlock/lock/backend"
)

// The benchmarks run getsetlock and concurrency.Mutex in turns on one cluster,
// each of them first in every second turn. They report the median times, and
// how many times as long getsetlock took: "ratio". Members write to the disk,
// as in production.
//
//	go test -run '^$' -bench . -benchtime 400x

func benchCluster(b *testing.B, n int) *Cluster {
	c := Start(b, n, func(cfg *embed.Config) { cfg.UnsafeNoFsync = *noDisk })
	b.ResetTimer()
	return c
}

var noDisk = flag.Bool("no-disk", false, "do not wait for the disk in benchmarks")

func fatal(b *testing.B, errs ...error) {
	b.Helper()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
}

// inTurns runs both and reports their times.
func inTurns(b *testing.B, next func() (ours, theirs func() error)) {
	var we, they []time.Duration
	timed := func(do func() error) time.Duration {
		began := time.Now()
		fatal(b, do())
		return time.Since(began)
	}
	for b.Loop() {
		ours, theirs := next()
		if len(we)%2 == 0 {
			we, they = append(we, timed(ours)), append(they, timed(theirs))
		} else {
			they, we = append(they, timed(theirs)), append(we, timed(ours))
		}
	}
	slices.Sort(we)
	slices.Sort(they)
	ours, theirs := we[len(we)/2], they[len(they)/2]
	b.ReportMetric(float64(ours.Nanoseconds())/1e3, "µs/getsetlock")
	b.ReportMetric(float64(theirs.Nanoseconds())/1e3, "µs/Mutex")
	b.ReportMetric(float64(ours)/float64(theirs), "ratio")
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
		_, err := backend.Contract().Try(ctx, "held", time.Minute)
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
				_, err := backend.Contract().Try(ctx, name, time.Minute)
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
	for b.Loop() { // what is measured takes the same time however often this runs
	}
	if testing.Short() {
		<-time.After(time.Second)
	} else {
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

// From a release in one process until a waiter in another has the lock.
func BenchmarkHandOff(b *testing.B) {
	c, ctx := benchCluster(b, 3), context.Background()
	one, err := lock.New(benchBackend(b, c), lock.Config{})
	fatal(b, err)
	two, err := lock.New(benchBackend(b, c), lock.Config{})
	fatal(b, err)
	first, second, own := benchMutex(b, c, "mutex"), benchMutex(b, c, "mutex"), c.Client()
	queued := func(name string) {
		for n := int64(0); n < 2; {
			got, err := own.Get(ctx, name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			fatal(b, err)
			n = got.Count
		}
		<-time.After(20 * time.Millisecond) // its watch begins
	}
	var last *lock.Lease
	inTurns(b, func() (func() error, func() error) {
		if last != nil {
			fatal(b, last.Release(), second.Unlock(ctx))
		}
		held, err := one.Acquire(ctx, "ours")
		fatal(b, err, first.Lock(ctx))
		next, locked := two.Request(ctx, "ours"), make(chan error, 1)
		go func() { locked <- second.Lock(ctx) }()
		queued("ours")
		queued("mutex")
		return func() error {
				err := held.Release()
				r := <-next
				last = r.Lease
				return errors.Join(err, r.Err)
			}, func() error {
				return errors.Join(first.Unlock(ctx), <-locked)
			}
	})
}

// How many waiters does a release wake, with many waiters in other processes?
func BenchmarkReleaseAmongManyWaiters(b *testing.B) {
	many := 1000
	if testing.Short() {
		many = 50
	}
	c, ctx := benchCluster(b, 1), context.Background()
	var backends []*etcd.Backend
	for range 10 {
		backends = append(backends, benchBackend(b, c))
	}
	held, err := benchBackend(b, c).Contract().Try(ctx, "stock", time.Minute)
	fatal(b, err)
	places := make([]backend.Place, many)
	woken := make(chan int, 2*many)
	for i := range places {
		places[i], err = backends[i%10].Contract().(backend.Queuer).Enter(ctx, "stock")
		fatal(b, err)
		if _, err := places[i].Try(ctx, time.Minute); !errors.Is(err, lock.ErrHeld) {
			b.Fatal(err)
		}
		_, _, err = places[i].Await(ctx, func() { woken <- i })
		fatal(b, err)
	}
	<-time.After(time.Second) // the watches begin
	b.ResetTimer()
	wakes, turns := 0, 0
	for b.Loop() && turns < many {
		fatal(b, held.Release(ctx))
		next := <-woken
		wakes++
		held, err = places[next].Try(ctx, time.Minute)
		fatal(b, err)
		turns++
	}
	b.StopTimer()
	<-time.After(time.Second) // for wakes that nothing asked for
	b.ReportMetric(float64(wakes+len(woken))/float64(turns), "wakes/release")
	fatal(b, held.Release(ctx))
	for _, p := range places[turns:] {
		fatal(b, p.Leave(ctx))
	}
}
