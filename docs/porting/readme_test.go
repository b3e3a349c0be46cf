package porting

import (
	"context"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

func sellOne(ctx context.Context, pool *redis.Pool, order Order) error {
	// doc: sell
	backend, err := legacy.New(pool, legacy.Config{Mode: legacy.Hardened, Dialect: dialect.Jedis()})
	if err != nil {
		return err
	}
	client, err := lock.New(backend, lock.Config{}) // one for the whole process
	if err != nil {
		return err
	}
	defer client.Close(ctx)

	return client.Do(ctx, "stock:42", func(ctx context.Context) error {
		return sellUntil(ctx, order) // ctx ends when the lock is lost
	})
	// doc: end
}

func Example() {
	w := newWorld()
	defer w.close()
	fmt.Println(sellOne(context.Background(), w.pool(), Order{"42", 1}))
	// Output:
	// sold 1 of 42
	// <nil>
}
