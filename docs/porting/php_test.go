// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

func sellLikePHP(ctx context.Context, pool *redis.Pool, order Order) error {
	backend, err := legacy.New(pool, legacy.Config{
		Mode:    legacy.Hardened,
		Dialect: dialect.Named("Page"),                  // 3: PageNil where a missing key counts as expired
		Terms:   dialect.Terms{Lease: 30 * time.Second}, // the page's lock has no lease of its own
	})
	if err != nil {
		return err
	}
	client, err := lock.New(backend, lock.Config{Wait: 20 * time.Second}) // 6
	if err != nil {
		return err
	}
	defer client.Close(ctx)

	return client.Do(ctx, "lock:stock:42", func(ctx context.Context) error { // 2, 4, 5, 7
		return sellUntil(ctx, order)
	})
}

// The page's stamps are seconds.
func Example_php() {
	w := newWorld()
	defer w.close()
	ctx := context.Background()

	backend, err := legacy.New(w.pool(), legacy.Config{
		Mode: legacy.Hardened, Dialect: dialect.Named("Page"), Terms: dialect.Terms{Lease: 30 * time.Second},
	})
	must(err)
	client, err := lock.New(backend, lock.Config{TTL: 15 * time.Second})
	must(err)
	lease, err := client.TryAcquire(ctx, "lock:stock:42")
	must(err)
	stamp, err := w.server.Get("lock:stock:42")
	must(err)
	fmt.Println(stamp)
	must(lease.Release())
	must(client.Close(ctx))

	must(sellLikePHP(ctx, w.pool(), Order{"42", 2}))
	// Output:
	// 1772539216
	// sold 2 of 42
}
