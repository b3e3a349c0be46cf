// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// store stands for the Redis server of these examples. A program makes its
// Backend by modern.New, legacy.New or migrate.New instead of store.Full.
var store = locktest.NewStore(lock.Machine)

// process returns the Client of one process. Programs make one Client and share
// it between their goroutines.
func process() *lock.Client {
	client, err := lock.New(store.Full(), lock.Config{TTL: 30 * time.Second, Wait: -1})
	if err != nil {
		panic(err)
	}
	return client
}

// closed closes a Client whose leases were released.
func closed(client *lock.Client) {
	if err := client.Close(context.Background()); err != nil {
		panic(err)
	}
}

// Acquire waits for the key, the work runs with a context that ends with the
// lease, and Release gives the key back.
func Example() {
	client, err := lock.New(store.Full(), lock.Config{TTL: 30 * time.Second, Wait: 5 * time.Second})
	if err != nil {
		panic(err)
	}
	defer closed(client)
	work := func(ctx context.Context) error {
		fmt.Println("working:", ctx.Err() == nil)
		return nil
	}

	ctx := context.Background()
	lease, err := client.Acquire(ctx, "orders")
	if err != nil {
		panic(err)
	}
	err = work(lease.Context(ctx))
	fmt.Println("work:", err)
	fmt.Println("release:", lease.Release())
	// Output:
	// working: true
	// work: <nil>
	// release: <nil>
}

// A job that runs on every host and should work on one of them: the other hosts
// skip this run.
func ExampleClient_TryAcquire() {
	one, two := process(), process()
	defer closed(one)
	defer closed(two)
	ctx := context.Background()
	run := func(host string, client *lock.Client) *lock.Lease {
		lease, err := client.TryAcquire(ctx, "nightly-report")
		var held *lock.HeldError
		switch {
		case errors.As(err, &held):
			fmt.Println(host, "skips this run, another host has", held.Key)
		case err != nil:
			fmt.Println(host, "cannot tell:", err)
		default:
			fmt.Println(host, "runs the report")
		}
		return lease
	}
	lease := run("host 1", one)
	run("host 2", two)
	fmt.Println("release:", lease.Release())
	// Output:
	// host 1 runs the report
	// host 2 skips this run, another host has nightly-report
	// release: <nil>
}

// Config.Wait bounds the wait for the key. The error says that the wait ended,
// and why.
func ExampleClient_Acquire() {
	one := process()
	defer closed(one)
	two, err := one.With(func(c *lock.Config) { c.Wait = 50 * time.Millisecond })
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	lease, err := one.Acquire(ctx, "stock:42")
	if err != nil {
		panic(err)
	}
	_, err = two.Acquire(ctx, "stock:42")
	fmt.Println("wait ended:", errors.Is(err, lock.ErrWaitEnded))
	fmt.Println("held:", errors.Is(err, lock.ErrHeld))
	fmt.Println("release:", lease.Release())
	// Output:
	// wait ended: true
	// held: true
	// release: <nil>
}

// Do acquires the key, runs a func, and gives the key back. A nested Do on the
// same key joins the lease.
func ExampleClient_Do() {
	client := process()
	defer closed(client)
	err := client.Do(context.Background(), "orders", func(ctx context.Context) error {
		fmt.Println("outer")
		return client.Do(ctx, "orders", func(context.Context) error {
			fmt.Println("inner, on the same lease")
			return nil
		})
	})
	fmt.Println("error:", err)
	// Output:
	// outer
	// inner, on the same lease
	// error: <nil>
}

// Request acquires in the background, for select loops.
func ExampleClient_Request() {
	client := process()
	defer closed(client)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	select {
	case r := <-client.Request(ctx, "orders"):
		if r.Err != nil {
			fmt.Println("not acquired:", r.Err)
			return
		}
		fmt.Println("acquired", r.Lease.Key())
		fmt.Println("release:", r.Lease.Release())
	case <-ctx.Done():
		fmt.Println("stopping")
	}
	// Output:
	// acquired orders
	// release: <nil>
}

// If another client takes the key away, the lease ends. Its contexts end with
// the reason as their cause, and Release reports the loss.
func ExampleLease_Context() {
	client := process()
	defer closed(client)
	ctx := context.Background()
	lease, err := client.Acquire(ctx, "orders")
	if err != nil {
		panic(err)
	}
	work := lease.Context(ctx)

	store.Seize("orders", "another client's token", time.Minute)

	<-work.Done() // at the next look at the key; the work stops here
	fmt.Println("lost:", errors.Is(context.Cause(work), lock.ErrLost))
	fmt.Println("release reports it:", errors.Is(lease.Release(), lock.ErrLost))
	store.Seize("orders", "", 0)
	// Output:
	// lost: true
	// release reports it: true
}

// A fencing number grows with each lease of a key. The store that the holder
// writes to remembers the greatest number and refuses any other.
func ExampleLease_Fence() {
	client := process()
	defer closed(client)
	var last int64 // kept by that store, in the same transaction as the data
	write := func(fence int64) error {
		if fence <= last {
			return errors.New("refused: a later lease has written here")
		}
		last = fence
		return nil
	}
	numbers := make([]int64, 2)
	for i := range numbers {
		lease, err := client.Acquire(context.Background(), "stock:42")
		if err != nil {
			panic(err)
		}
		number, ok := lease.Fence()
		if !ok {
			panic("this backend draws no numbers")
		}
		numbers[i] = number
		if err := lease.Release(); err != nil {
			panic(err)
		}
	}
	fmt.Println("second lease:", write(numbers[1]))
	fmt.Println("first lease, too late:", write(numbers[0]))
	// Output:
	// second lease: <nil>
	// first lease, too late: refused: a later lease has written here
}

// Hooks feed metrics and logs. They are called in order, on a goroutine of the
// Client; Close waits for them.
func ExampleHooks() {
	client, err := lock.New(store.Full(), lock.Config{Hooks: lock.Hooks{
		Acquired: func(e lock.Event) { fmt.Println("acquired", e.Key) },
		Released: func(e lock.Event) { fmt.Println("released", e.Key, "error:", e.Cause) },
	}})
	if err != nil {
		panic(err)
	}
	if err := client.Do(context.Background(), "orders",
		func(context.Context) error { return nil }); err != nil {
		panic(err)
	}
	closed(client)
	// Output:
	// acquired orders
	// released orders error: <nil>
}

// To shut down, end the work first: its leases are then released. Close waits
// for them within its context.
func ExampleClient_Close() {
	client := process()
	stop, cancel := context.WithCancel(context.Background())
	working, done := make(chan struct{}), make(chan error)
	go func() {
		done <- client.Do(stop, "orders", func(ctx context.Context) error {
			close(working)
			<-ctx.Done()
			return nil
		})
	}()
	<-working

	cancel() // SIGTERM came
	bounded, end := context.WithTimeout(context.Background(), 10*time.Second)
	defer end()
	fmt.Println("close:", client.Close(bounded))
	fmt.Println("work:", <-done)
	_, err := client.TryAcquire(context.Background(), "orders")
	fmt.Println("after that:", errors.Is(err, lock.ErrClosed))
	// Output:
	// close: <nil>
	// work: <nil>
	// after that: true
}
