// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// BenchmarkHandOffFromJava measures how long after a Java client sent its DEL a
// waiter holds the lock. One waiter is a getsetlock client, which the server
// wakes; the other is the jar, which polls. The figure that matters is
// ours/jar, which should be a tenth at most.
func BenchmarkHandOffFromJava(b *testing.B) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	s := redistest.Real(b, redistest.Options{})
	holder := SharedClient(b, s.Addr())
	check(b, holder.Lock(ctx, Jar, key, 10*time.Second, time.Minute))
	ours := newOurs(b, s)
	java := SharedClient(b, s.Addr())
	check(b, java.Lock(ctx, Jar, key, 10*time.Second, time.Minute))
	const rounds = 15 // per iteration, for a median
	var byOurs, byJava []int64
	for b.Loop() {
		for range rounds {
			byOurs = append(byOurs, handOff(b, ctx, holder, ours.wait))
			byJava = append(byJava, handOff(b, ctx, holder,
				func(b *testing.B, ctx context.Context) func() int64 {
					return javaWaits(b, ctx, java)
				}))
		}
	}
	slices.Sort(byOurs)
	slices.Sort(byJava)
	o, j := float64(byOurs[len(byOurs)/2]), float64(byJava[len(byJava)/2])
	b.ReportMetric(o, "ours-p50-µs")
	b.ReportMetric(j, "jar-p50-µs")
	b.ReportMetric(o/j, "ours/jar")
}

// handOff lets the holder take the key, starts a waiter and lets the holder
// release at a random point of a poll, by itself, as a service does: an answer
// to an order would take its share of the CPU. It returns the time from the DEL
// until the waiter held, in µs.
func handOff(b *testing.B, ctx context.Context, holder *Client,
	start func(*testing.B, context.Context) func() int64) int64 {
	b.Helper()
	if !must[Acquired](b)(holder.Acquire(ctx)).Won {
		b.Fatal("the key is not free")
	}
	held := start(b, ctx)
	check(b, holder.Leave(ctx, 50*time.Millisecond+rand.N(100*time.Millisecond)))
	at := held()
	calls := must[[]Call](b)(holder.Trace(ctx))
	return at - calls[len(calls)-1].SentMicros
}

type oursWaiting struct {
	client  *lock.Client
	waiting chan struct{}
}

func newOurs(b *testing.B, s *redistest.Server) *oursWaiting {
	b.Helper()
	o := &oursWaiting{waiting: make(chan struct{}, 1)}
	pool := s.Pool()
	b.Cleanup(func() { pool.Close() })
	backend, err := legacy.New(pool, legacy.Config{Mode: legacy.Hardened})
	check(b, err)
	// A polite gap after this client's own release would extend into the next
	// round.
	o.client, err = lock.New(backend,
		lock.Config{Politeness: -1, Hooks: lock.Hooks{Waiting: func(lock.Event) { o.waiting <- struct{}{} }}})
	check(b, err)
	b.Cleanup(func() { check(b, o.client.Close(context.Background())) })
	return o
}

func (o *oursWaiting) wait(b *testing.B, ctx context.Context) func() int64 {
	b.Helper()
	held := make(chan int64, 1)
	var failed error
	go func() {
		lease, err := o.client.Acquire(ctx, key)
		held <- time.Now().UnixMicro()
		if failed = err; err == nil {
			failed = lease.Release()
		}
		close(held)
	}()
	<-o.waiting
	return func() int64 {
		at := <-held
		<-held // released
		check(b, failed)
		return at
	}
}

func javaWaits(b *testing.B, ctx context.Context, c *Client) func() int64 {
	b.Helper()
	p := must[*Acquiring](b)(c.BeginAcquire())
	return func() int64 {
		if !must[Acquired](b)(p.Wait(ctx)).Won {
			b.Fatal("the waiting jar never got the lock")
		}
		calls := must[[]Call](b)(c.Trace(ctx))
		check(b, c.Release(ctx))
		must[[]Call](b)(c.Trace(ctx))
		return calls[len(calls)-1].RepliedMicros
	}
}
