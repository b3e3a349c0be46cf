// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

func sellLikeSpring(ctx context.Context, pool *redis.Pool, order Order) error {
	// doc: template
	spring := dialect.Named("Template")
	spring.Name, spring.Library = "SpringTemplate", "RedisLock.java on the bean redisTemplate"
	// leave out for StringRedisTemplate
	spring.KeyEncoding, spring.ValueEncoding = "jdk", "jdk"
	// doc: end

	backend, err := legacy.New(pool, legacy.Config{
		Mode:    legacy.Hardened,
		Dialect: spring,
		Terms:   dialect.Terms{Lease: 10 * time.Second}, // the least that a caller adds to now
	})
	if err != nil {
		return err
	}
	client, err := lock.New(backend, lock.Config{})
	if err != nil {
		return err
	}
	defer client.Close(ctx)

	lease, err := client.TryAcquire(ctx, "lock")
	if err != nil {
		return err
	}
	defer lease.Release()
	return sellUntil(lease.Context(ctx), order)
}

// Spring's default serializer makes another key of the same name.
func Example_spring() {
	w := newWorld()
	defer w.close()
	ctx := context.Background()

	java := "\xac\xed\x00\x05t\x00\x0d" + "1772452810000" // what the bean redisTemplate writes
	old := w.dial()
	old.Do("SETNX", "\xac\xed\x00\x05t\x00\x04lock", java)
	fmt.Println(sellLikeSpring(ctx, w.pool(), Order{"42", 1}))

	plain, err := newClient(w.pool())
	must(err)
	defer plain.Close(ctx)
	lease, err := plain.TryAcquire(ctx, "lock")
	must(err)
	fmt.Println("a plain client takes its own key:", lease.Err() == nil)

	keys := w.server.Keys()
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Printf("% x\n", k)
	}
	must(lease.Release())
	// Output:
	// lock: key "lock": key "lock" is held (SpringTemplate), its stamp ends at 2026-03-02 12:00:10Z by its writer's clock; if its holder does nothing more, the key can be taken in 20.502s
	// a plain client takes its own key: true
	// 6c 6f 63 6b
	// 7b 6c 6f 63 6b 7d 3a 67 73 6c
	// ac ed 00 05 74 00 04 6c 6f 63 6b
}

func sellAndReport(ctx context.Context, client *lock.Client, order Order,
	sell func(context.Context, Order) error) error {
	lease, err := client.Acquire(ctx, "stock:42") // 1
	if err != nil {
		return err
	}
	err = sell(lease.Context(ctx), order)
	return errors.Join(err, lease.Release()) // 2, 3: with ErrLost the job was perhaps not alone
}

// The reply that the Boolean script drops is an error of Release.
func Example_releaseReply() {
	w := newWorld()
	defer w.close()
	ctx := context.Background()
	client, err := newTokenClient(w.pool())
	must(err)
	defer client.Close(ctx)
	fmt.Println(sellAndReport(ctx, client, Order{"42", 1}, sellUntil))
	err = sellAndReport(ctx, client, Order{"42", 1}, func(context.Context, Order) error {
		must(w.server.Set("stock:42", "of the next"))
		return nil
	})
	fmt.Println("lost:", errors.Is(err, lock.ErrLost))
	// Output:
	// sold 1 of 42
	// <nil>
	// lost: true
}
