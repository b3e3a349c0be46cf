// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
)

// serve starts an embedded server and returns a pool of connections to it.
func serve() (server *miniredis.Miniredis, pool *redis.Pool, end func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	pool = &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", server.Addr())
	}}
	return server, pool, func() { pool.Close(); server.Close() }
}

// must ends an example whose setup failed.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// begin is what the operator does once: getsetlock migrate init.
func begin(ctx context.Context, pool *redis.Pool, namespace string) {
	_, err := fleet.Init(ctx, pool, fleet.Options{Namespace: namespace})
	must(err)
}

// advance is the operator's step: getsetlock migrate advance --go, with what is
// claimed of the old clients.
func advance(ctx context.Context, pool *redis.Pool) {
	claims := fleet.Claims{Lease: time.Minute, Job: 30 * time.Second, Spread: time.Second, Gap: time.Second}
	_, err := fleet.Advance(ctx, pool, fleet.Options{Go: true, Claims: claims})
	must(err)
}

// A service joins the namespace of its keys and takes locks by the bridge,
// which acts by the phase in the fleet's record.
func Example() {
	server, pool, end := serve()
	defer end()
	ctx := context.Background()
	begin(ctx, pool, "stock:")

	member, err := migrate.Join(ctx, pool, migrate.MemberConfig{Namespace: "stock:", Name: "orders"})
	must(err)
	bridge, err := migrate.New(pool, migrate.Config{
		Phases: member,
		Terms:  dialect.Terms{Lease: time.Minute}, // the shortest lease of any old client
	})
	must(err)
	client, err := lock.New(bridge, lock.Config{Wait: 10 * time.Second})
	must(err)

	lease, err := client.Acquire(ctx, "stock:7")
	must(err)
	value, err := server.Get("stock:7")
	must(err)
	fmt.Println("an old client reads a stamp of", len(value), "digits")
	fmt.Println("release:", lease.Release())
	fmt.Println("close:", client.Close(ctx))     // waits for the leases of this process
	fmt.Println("goodbye:", member.Goodbye(ctx)) // no gate waits for this process any more
	// Output:
	// an old client reads a stamp of 13 digits
	// release: <nil>
	// close: <nil>
	// goodbye: <nil>
}

// A member reads the record with each heartbeat. After the operator's step, the
// next lock is taken by the new phase; the service changes nothing for that.
func ExampleMember() {
	server, pool, end := serve()
	defer end()
	ctx := context.Background()
	begin(ctx, pool, "")
	member, err := migrate.Join(ctx, pool, migrate.MemberConfig{})
	must(err)
	defer member.Leave()
	bridge, err := migrate.New(pool, migrate.Config{Phases: member})
	must(err)
	defer bridge.Close()

	for _, key := range []string{"stock:7", "stock:8"} {
		must(member.Refresh(ctx)) // a heartbeat now, for the example
		phase, err := member.Phase(ctx)
		must(err)
		_, err = bridge.Contract().Try(ctx, key, 30*time.Second)
		must(err)
		value, err := server.Get(key)
		must(err)
		stamp, err := dialect.Named("Jedis").Decode(value, time.Now())
		fmt.Printf("%v: an old client a year ahead takes the lock over: %v\n", phase,
			err == nil && stamp.Expiry.Before(time.Now().AddDate(1, 0, 0)))
		advance(ctx, pool)
	}
	// Output:
	// observe: an old client a year ahead takes the lock over: true
	// dual: an old client a year ahead takes the lock over: false
}

// Tests of a program need no record: Fixed names the phase. Here an old client
// holds the lock. Every phase respects that but Clean, which the fleet reaches
// after the last old client.
func ExampleFixed() {
	server, pool, end := serve()
	defer end()
	ends := time.Now().Add(time.Minute).UnixMilli()
	must(server.Set("stock:7", fmt.Sprint(ends))) // as Jedis writes it
	for _, phase := range migrate.Phases() {
		bridge, err := migrate.New(pool, migrate.Config{Phases: migrate.Fixed(phase)})
		must(err)
		_, err = bridge.Contract().Try(context.Background(), "stock:7", 30*time.Second)
		fmt.Printf("%v: held by another client: %v\n", phase, errors.Is(err, lock.ErrHeld))
		must(bridge.Close())
	}
	// Output:
	// observe: held by another client: true
	// dual: held by another client: true
	// sealed: held by another client: true
	// modern: held by another client: true
	// clean: held by another client: false
}
