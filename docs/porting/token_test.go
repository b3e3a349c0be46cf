// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// doc: client
func newTokenClient(pool *redis.Pool) (*lock.Client, error) {
	backend, err := modern.New(pool, modern.Config{Fence: true, Note: "stock service"})
	if err != nil {
		return nil, err
	}
	return lock.New(backend, lock.Config{Wait: -1}) // one attempt; 10 * time.Second would wait
}

// doc: end

// ledger is a store to which every holder writes once, under a number that must
// be greater than all that it has seen.
type ledger struct{ seen int64 }

func (l *ledger) sell(ctx context.Context, fence int64, o Order) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if fence <= l.seen {
		return errors.New("the lock has passed on")
	}
	l.seen = fence
	fmt.Println("sold", o.Quantity, "of", o.SKU)
	return nil
}

func sellFenced(ctx context.Context, client *lock.Client, ledger *ledger, order Order) error {
	// doc: sell
	lease, err := client.Acquire(ctx, "stock:42")
	if errors.Is(err, lock.ErrHeld) {
		return fmt.Errorf("busy: %w", err)
	}
	if err != nil {
		return err
	}
	defer lease.Release()

	fence, _ := lease.Fence()
	return ledger.sell(lease.Context(ctx), fence, order)
	// doc: end
}

const compareAndDelete = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`

// The Java service and getsetlock exclude each other, and neither deletes the
// other's key.
func Example_token() {
	w := newWorld()
	defer w.close()
	ctx := context.Background()
	client, err := newTokenClient(w.pool())
	must(err)
	defer client.Close(ctx)
	java := w.dial()

	java.Do("SET", "stock:42", "7e57-java", "NX", "PX", 30_000)
	store := &ledger{}
	fmt.Println(errors.Is(sellFenced(ctx, client, store, Order{"42", 1}), lock.ErrHeld))
	deleted, err := redis.Int(java.Do("EVAL", compareAndDelete, 1, "stock:42", "7e57-java"))
	must(err)
	fmt.Println("the script deletes Java's own:", deleted)

	lease, err := client.TryAcquire(ctx, "stock:42")
	must(err)
	reply, err := java.Do("SET", "stock:42", "7e57-java", "NX", "PX", 30_000)
	must(err)
	fmt.Println("Java while getsetlock holds:", reply)
	deleted, err = redis.Int(java.Do("EVAL", compareAndDelete, 1, "stock:42", "7e57-java"))
	must(err)
	fmt.Println("its script deletes the key of getsetlock:", deleted)
	early, _ := lease.Fence()
	must(lease.Release())

	must(sellFenced(ctx, client, store, Order{"42", 1}))
	fmt.Println("a write under the number before:", store.sell(ctx, early, Order{"42", 1}))
	fmt.Println("keys left:", w.server.Keys())
	// Output:
	// true
	// the script deletes Java's own: 1
	// Java while getsetlock holds: <nil>
	// its script deletes the key of getsetlock: 0
	// sold 1 of 42
	// a write under the number before: the lock has passed on
	// keys left: [gsl:fence::{3f8}]
}
