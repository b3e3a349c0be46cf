// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/lock"
)

// Between MULTI and EXEC the server answers QUEUED: the client cannot choose by
// a value that it has not got yet.
func Example_multiCannotBranch() {
	w := newWorld()
	defer w.close()
	must(w.server.Set("stock:42", "of B"))
	a := w.dial()
	a.Do("MULTI")
	seen, err := redis.String(a.Do("GET", "stock:42"))
	fmt.Println(seen, err) // QUEUED: not the value
	a.Do("DEL", "stock:42")
	replies, err := redis.Values(a.Do("EXEC"))
	fmt.Printf("%s %v\n", replies, err) // the value comes now, and the key is gone
	fmt.Println("B's key is there:", w.server.Exists("stock:42"))
	// Output:
	// QUEUED <nil>
	// [of B %!s(int64=1)] <nil>
	// B's key is there: false
}

// The same decision as a script: the server compares and deletes in one
// command.
func Example_scriptBranches() {
	w := newWorld()
	defer w.close()
	must(w.server.Set("stock:42", "of B"))
	a := w.dial()
	fmt.Println(a.Do("EVAL", compareAndDelete, 1, "stock:42", "of A")) // 0: not A's key
	fmt.Println("B's key is there:", w.server.Exists("stock:42"))
	// Output:
	// 0 <nil>
	// B's key is there: true
}

// The release of section h, as its commands: A's WATCH stays on the connection,
// and aborts the transaction of the next user of that connection.
func Example_watchLeftBehind() {
	w := newWorld()
	defer w.close()
	must(w.server.Set("stock:42", "of B"))
	pooled := w.dial() // of a pool that does not send UNWATCH, as redigo's and Jedis 2's do
	pooled.Do("WATCH", "stock:42")
	if seen, _ := redis.String(pooled.Do("GET", "stock:42")); seen != "of A" {
		fmt.Println("A returns without UNWATCH")
	}

	w.dial().Do("DEL", "stock:42")
	pooled.Do("MULTI")
	pooled.Do("INCR", "orders")
	reply, err := pooled.Do("EXEC")
	fmt.Println(reply, err)
	fmt.Println("orders counted:", w.server.Exists("orders"))
	// Output:
	// A returns without UNWATCH
	// <nil> <nil>
	// orders counted: false
}

var errBusyPool = errors.New("no connection")

// pairs hands out as many connections as it has, like a pool that does not
// block.
type pairs struct {
	w    *world
	free int
}

func (p *pairs) get() (redis.Conn, error) {
	if p.free == 0 {
		return nil, errBusyPool
	}
	p.free--
	return p.w.dial(), nil
}

func (p *pairs) put(c redis.Conn) {
	p.free++
	c.Close()
}

// release is that of section h. between is what happens between its GET and its
// EXEC.
func (p *pairs) release(key, id string, between func()) (bool, error) {
	conn, err := p.get()
	if err != nil {
		return false, err
	}
	defer p.put(conn)
	conn.Do("WATCH", key)
	seen, err := redis.String(conn.Do("GET", key))
	if err != nil || seen != id {
		return false, err
	}
	between()
	conn.Do("MULTI")
	conn.Do("DEL", key)
	if reply, _ := conn.Do("EXEC"); reply != nil {
		return true, nil
	}
	return p.release(key, id, between)
}

// Each retry of the recursive release takes one connection more. A renewal is a
// write too: a lock that is renewed often makes the release fail.
func Example_recursion() {
	w := newWorld()
	defer w.close()
	must(w.server.Set("stock:42", "of A"))
	renewals := 0
	pool := &pairs{w: w, free: 8}
	fmt.Println(pool.release("stock:42", "of A", func() {
		renewals++
		w.dial().Do("PEXPIRE", "stock:42", 30_000)
	}))
	fmt.Println("attempts:", renewals)
	fmt.Println("the key is there:", w.server.Exists("stock:42"))
	// Output:
	// false no connection
	// attempts: 8
	// the key is there: true
}

// A release of getsetlock is one script: it watches nothing and tries nothing
// again.
func Example_releaseIsOneScript() {
	w := newWorld()
	defer w.close()
	ctx := context.Background()
	client, err := newTokenClient(w.pool())
	must(err)
	defer client.Close(ctx)
	lease, err := client.Acquire(ctx, "stock:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := lease.Release(); errors.Is(err, lock.ErrLost) { // 1 to 5: one script
		fmt.Println("the job was perhaps not alone:", err)
	}
	fmt.Println("keys left:", w.server.Keys())
	// Output:
	// keys left: [gsl:fence::{3f8}]
}
