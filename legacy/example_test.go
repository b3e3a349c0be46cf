// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// A Go service takes the lock that Java services take with jedis-lock, on the
// same key.
func Example() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", server.Addr())
	}}

	backend, err := legacy.New(pool, legacy.Config{
		Mode:    legacy.Hardened,
		Dialect: dialect.Named("Jedis"),
		Terms:   dialect.Terms{Lease: time.Minute}, // the shortest lease of any Java service
	})
	if err != nil {
		panic(err)
	}
	client, err := lock.New(backend, lock.Config{Wait: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	defer client.Close(context.Background())

	lease, err := client.Acquire(context.Background(), "stock:7")
	if err != nil {
		panic(err)
	}
	seen, err := backend.Observe(context.Background(), "stock:7")
	if err != nil {
		panic(err)
	}
	fmt.Println("a Java client reads", len(seen.Value), "digits; held by a getsetlock client:", seen.Ours())
	fmt.Println("released:", lease.Release() == nil, "keys left:", len(server.Keys()))
	// Output:
	// a Java client reads 13 digits; held by a getsetlock client: true
	// released: true keys left: 0
}

// The server's clock decides about a stamp that an old client left behind. A
// value that no dialect reads is left to a human.
func ExampleBackend_held() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	server.SetTime(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", server.Addr())
	}}
	backend, err := legacy.New(pool, legacy.Config{
		Mode:    legacy.Hardened,
		Dialect: dialect.Named("Jedis"),
		// NTP keeps all clocks within a second, the server's too.
		Terms: dialect.Terms{Lease: time.Minute, Behind: time.Second},
	})
	if err != nil {
		panic(err)
	}
	defer backend.Close()

	for _, value := range []string{"1772452815001", "1", "1772452815"} {
		server.Set("stock:7", value)
		_, err := backend.Contract().Try(context.Background(), "stock:7", 30*time.Second)
		fmt.Println(errors.Is(err, lock.ErrHeld), err)
	}
	// Output:
	// true key "stock:7" is held (Jedis), its stamp ends at 2026-03-02 12:00:15Z by its writer's clock; if its holder does nothing more, the key can be taken in 16.002s
	// true key "stock:7" is held (value "1" is no stamp of Jedis: no plausible time; it may be a constant)
	// true key "stock:7" is held (value "1772452815" is no stamp of Jedis: no plausible time; it may be a stamp in s for 2026-03-02T12:00:15.000Z (Kdyby, Page, PageGet, PageNil, ResqueTimeout))
}
