// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// Order is what the shops in the examples sell.
type Order struct {
	SKU      string
	Quantity int
}

func sell(o Order) error { return sellUntil(context.Background(), o) }

// sellUntil is a job as it should be: it looks at its context.
func sellUntil(ctx context.Context, o Order) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	fmt.Println("sold", o.Quantity, "of", o.SKU)
	return nil
}

// doc: client
func newClient(pool *redis.Pool) (*lock.Client, error) {
	backend, err := legacy.New(pool, legacy.Config{
		Mode:    legacy.Hardened,
		Dialect: dialect.Named("Jedis"),
		Terms: dialect.Terms{ // of the old fleet
			Lease:  60 * time.Second, // its smallest lease
			Spread: time.Second,      // between its fastest and its slowest clock
			Gap:    time.Second,      // its longest pause within one attempt
		},
	})
	if err != nil {
		return nil, err
	}
	return lock.New(backend, lock.Config{Wait: 10 * time.Second})
}

// doc: end

func sellLocked(ctx context.Context, client *lock.Client, order Order) error {
	// doc: sell
	err := client.Do(ctx, "stock:42", func(ctx context.Context) error { // 1 to 10, 13
		return sellUntil(ctx, order) // 12
	})
	if errors.Is(err, lock.ErrHeld) {
		return fmt.Errorf("busy: %w", err) // 11
	}
	return err
	// doc: end
}

func sellVerbatim(ctx context.Context, pool *redis.Pool, order Order) error {
	backend, err := legacy.New(pool, legacy.Config{Mode: legacy.Verbatim, Dialect: dialect.Named("Jedis")})
	if err != nil {
		return err
	}
	client, err := lock.New(backend, lock.Config{Wait: 10 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	return sellLocked(ctx, client, order)
}

// An old client holds the key and gives it back. A getsetlock client takes it,
// once hardened and once verbatim.
func Example_jedis() {
	w := newWorld()
	defer w.close()
	ctx := context.Background()
	client, err := newClient(w.pool())
	must(err)
	defer client.Close(ctx)

	old := w.dial()
	old.Do("SETNX", "stock:42", noon.Add(time.Minute+time.Millisecond).UnixMilli())
	_, err = client.TryAcquire(ctx, "stock:42")
	fmt.Println(err)
	old.Do("DEL", "stock:42")

	must(sellLocked(ctx, client, Order{"42", 3}))
	must(sellVerbatim(ctx, w.pool(), Order{"42", 4}))
	// No client holds the lock. Once an old client was seen, a release leaves
	// the key to old clients for 145 ms.
	fmt.Println("keys left:", w.server.Keys())
	// Output:
	// lock: key "stock:42": key "stock:42" is held (Jedis), its stamp ends at 2026-03-02 12:01:00Z by its writer's clock; if its holder does nothing more, the key can be taken in 2m1.004s
	// sold 3 of 42
	// sold 4 of 42
	// keys left: [{stock:42}:gsl]
}
