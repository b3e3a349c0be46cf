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

// oldClient is a program with the old lock, on a machine whose clock is ahead
// of the server's. Its DELs are printed with their replies if it has a name.
func (w *world) oldClient(name string, d dialect.Dialect, ahead time.Duration) *lock.Client {
	c := w.clock(ahead)
	backend, err := legacy.New(w.tapped(name), legacy.Config{Mode: legacy.Verbatim, Dialect: d, Clock: c})
	must(err)
	client, err := lock.New(backend, lock.Config{Clock: c})
	must(err)
	w.clients = append(w.clients, client)
	return client
}

func take(client *lock.Client, key string) *lock.Lease {
	lease, err := client.TryAcquire(context.Background(), key)
	must(err)
	return lease
}

func bothHold(a, b *lock.Lease) bool { return a.Err() == nil && b.Err() == nil }

// Every DEL of a chain of double holders answers 1.
func Example_delReply() {
	w := newWorld()
	defer w.close()
	clientA := w.oldClient("A", dialect.Named("Jedis"), 0) // Mode: legacy.Verbatim, all clocks right
	clientB := w.oldClient("B", dialect.Named("Jedis"), 0)
	clientC := w.oldClient("C", dialect.Named("Jedis"), 0)
	clientD := w.oldClient("D", dialect.Named("Jedis"), 0)

	a := take(clientA, "stock:42") // a lease of 60 s
	w.pass(61 * time.Second)       // its job is not done
	b := take(clientB, "stock:42") // takes over what has expired
	a.Release()                    // A is done. DEL → 1: that was B's key
	c := take(clientC, "stock:42")
	fmt.Println("B and C hold together:", bothHold(b, c)) // true
	b.Release()                                           // DEL → 1: that was C's
	d := take(clientD, "stock:42")
	fmt.Println("C and D hold together:", bothHold(c, d)) // true
	d.Release()
	// Output:
	// A: DEL → 1
	// B and C hold together: true
	// B: DEL → 1
	// C and D hold together: true
	// D: DEL → 1
}

// Two leases of one millisecond have the same bytes, so a release that compares
// them compares nothing.
func Example_equalStamps() {
	w := newWorld()
	defer w.close()
	a := take(w.oldClient("", dialect.Named("Template"), 0), "stock:42")
	stampA, _ := w.server.Get("stock:42")
	must(a.Release())
	b := take(w.oldClient("", dialect.Named("Template"), 0), "stock:42")
	stampB, _ := w.server.Get("stock:42")
	fmt.Println("the same bytes:", stampA == stampB)

	// A's program releases once more, as its unlock(key, value) does.
	program := w.dial()
	if seen, _ := redis.String(program.Do("GET", "stock:42")); seen == stampA {
		program.Do("DEL", "stock:42")
	}
	fmt.Println("B believes it holds:", b.Err() == nil)
	fmt.Println("its key is there:", w.server.Exists("stock:42"))
	// Output:
	// the same bytes: true
	// B believes it holds: true
	// its key is there: false
}

// A client whose clock is ahead by the lease takes what is held.
func Example_clocksApart() {
	w := newWorld()
	defer w.close()
	a := take(w.oldClient("", dialect.Named("Jedis"), 0), "stock:42")
	b := take(w.oldClient("", dialect.Named("Jedis"), 61*time.Second), "stock:42")
	fmt.Println("two hold at once:", bothHold(a, b))
	// Output:
	// two hold at once: true
}

func Example_spread() {
	w := newWorld()
	defer w.close()
	pool := w.pool()
	_, err := legacy.New(pool, legacy.Config{
		Mode:    legacy.Hardened,
		Dialect: dialect.Named("Jedis"),
		Terms:   dialect.Terms{Lease: time.Minute, Spread: 2 * time.Minute},
	})
	fmt.Println(err)

	// Output:
	// legacy: Config.Terms: terms don't fit: Spread 2m0s and Gap 1s leave nothing of Lease 1m0s
}

func Example_leaseRule() {
	w := newWorld()
	defer w.close()
	// doc: rule
	backend, err := legacy.New(w.pool(), legacy.Config{Dialect: dialect.Named("Jedis")}) // Hardened
	must(err)
	_, err = lock.New(backend, lock.Config{TTL: 59 * time.Second})
	fmt.Println(err) // TTL 59s is too long: alongside Jedis clients with Lease 1m0s at most 58.001s is safe …
	// doc: end
	must(backend.Close())

	// Output:
	// lock: legacy: lease rule: TTL 59s is too long: alongside Jedis clients with Lease 1m0s at most 58.001s is safe (Lease + c 1ms - Spread 1s - Gap 1s)
}

func Example_nested() {
	w := newWorld()
	defer w.close()
	ctx, order := context.Background(), Order{"42", 1}
	client, err := newClient(w.pool())
	must(err)
	defer client.Close(ctx)
	err = client.Do(ctx, "stock:42", func(ctx context.Context) error {
		_, err := client.Acquire(ctx, "stock:42")
		fmt.Println(errors.Is(err, lock.ErrNested)) // true

		return client.Do(ctx, "stock:42", func(ctx context.Context) error { // joins
			return sellUntil(ctx, order)
		})
	})
	fmt.Println(err, len(w.server.Keys()))
	// Output:
	// true
	// sold 1 of 42
	// <nil> 0
}

// beanLock is a Java lock whose request id is a field: one id for all threads
// that share the object.
type beanLock struct {
	conn redis.Conn
	id   string
}

func (b beanLock) tryLock(key string) bool {
	if seen, _ := redis.String(b.conn.Do("GET", key)); seen == b.id {
		return true // "reentrant"
	}
	reply, _ := b.conn.Do("SET", key, b.id, "NX", "PX", 30_000)
	return reply != nil
}

func (b beanLock) unlock(key string) {
	b.conn.Do("EVAL", compareAndDelete, 1, key, b.id)
}

// A comparing release compares nothing between threads that share the id.
func Example_oneRequestID() {
	w := newWorld()
	defer w.close()
	bean := beanLock{conn: w.dial(), id: "7e57-bean"}
	fmt.Println("thread 1 holds:", bean.tryLock("stock:42"))
	fmt.Println("thread 2 holds:", bean.tryLock("stock:42"))
	bean.unlock("stock:42") // thread 2, in its finally
	fmt.Println("thread 1's key is there:", w.server.Exists("stock:42"))
	// Output:
	// thread 1 holds: true
	// thread 2 holds: true
	// thread 1's key is there: false
}

// Two goroutines that share a Client have a token each.
func Example_tokenForEachLease() {
	w := newWorld()
	defer w.close()
	ctx := context.Background()
	client, err := newTokenClient(w.pool())
	must(err)
	defer client.Close(ctx)
	lease := take(client, "stock:42")
	_, err = client.TryAcquire(ctx, "stock:42")
	fmt.Println("a second goroutine is refused:", errors.Is(err, lock.ErrHeld))
	before := lease.Token()
	must(lease.Release())
	lease = take(client, "stock:42")
	fmt.Println("the next lease has a token of its own:", lease.Token() != before)
	must(lease.Release())
	// Output:
	// a second goroutine is refused: true
	// the next lease has a token of its own: true
}

// The server runs commands one after the other: of many SETs of one key with
// NX, one succeeds.
func Example_oneAtATime() {
	w := newWorld()
	defer w.close()
	won := make(chan bool)
	for range 50 {
		go func() {
			reply, err := w.dial().Do("SET", "stock:42", "a token", "NX")
			must(err)
			won <- reply != nil
		}()
	}
	holders := 0
	for range 50 {
		if <-won {
			holders++
		}
	}
	fmt.Println("holders:", holders)
	// Output:
	// holders: 1
}
