package porting

import (
	"context"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// doc: client
func newTokenClient(pool *redis.Pool) (*lock.Client, error) {
	d := dialect.SetGetDel()
	d.Name, d.Library = "SetScript", "SET NX PX with a random token; compare-and-delete script"
	d.Acquire, d.Release = dialect.AcquireSetNXPX, dialect.ReleaseCompare

	backend, err := legacy.New(pool, legacy.Config{Mode: legacy.Hardened, Dialect: d})
	if err != nil {
		return nil, err
	}
	return lock.New(backend, lock.Config{})
}

// doc: end

const compareAndDelete = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`

// The Java service and ours keep each other out, and neither deletes the other's key.
func Example_token() {
	w := newWorld()
	defer w.close()
	ctx := context.Background()
	client, err := newTokenClient(w.pool())
	must(err)
	defer client.Close(ctx)
	java := w.dial()

	java.Do("SET", "stock:42", "7e57-java", "NX", "PX", 30_000)
	_, err = client.TryAcquire(ctx, "stock:42")
	fmt.Println(err)
	deleted, err := redis.Int(java.Do("EVAL", compareAndDelete, 1, "stock:42", "7e57-java"))
	must(err)
	fmt.Println("the script deletes Java's own:", deleted)

	lease, err := client.TryAcquire(ctx, "stock:42")
	must(err)
	reply, err := java.Do("SET", "stock:42", "7e57-java", "NX", "PX", 30_000)
	must(err)
	fmt.Println("Java while ours holds:", reply)
	deleted, err = redis.Int(java.Do("EVAL", compareAndDelete, 1, "stock:42", "7e57-java"))
	must(err)
	fmt.Println("its script deletes ours:", deleted)
	must(lease.Release())
	fmt.Println("keys left:", len(w.server.Keys()))
	// Output:
	// lock: key "stock:42": key "stock:42" is held by "7e57-java" (SetScript), for at most 30s by the server's clock
	// the script deletes Java's own: 1
	// Java while ours holds: <nil>
	// its script deletes ours: 0
	// keys left: 0
}
