// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// A service holds a lock while it works. The key carries the token of its
// lease, and a note for people who look at the key.
func Example() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", server.Addr())
	}}
	backend, err := modern.New(pool, modern.Config{Note: "host-1"})
	if err != nil {
		panic(err)
	}
	client, err := lock.New(backend, lock.Config{TTL: 30 * time.Second, Wait: 5 * time.Second})
	if err != nil {
		panic(err)
	}
	defer client.Close(context.Background())
	lease, err := client.Acquire(context.Background(), "stock:42")
	if err != nil {
		panic(err)
	}
	info, err := backend.Inspect(context.Background(), "stock:42")
	if err != nil {
		panic(err)
	}
	fmt.Println("holder:", info.Note, "its token and note are the value:", info.Value == lease.Token())
	fmt.Println("release:", lease.Release(), "keys left:", len(server.Keys()))
	// Output:
	// holder: host-1 its token and note are the value: true
	// release: <nil> keys left: 0
}

// doc: store

// store is what a lock protects. It takes part: it remembers the greatest
// fencing number that wrote to each record and refuses any other. In SQL that
// is one more column:
//
//	UPDATE stock SET amount = $1, fence = $2 WHERE id = $3 AND fence < $2
type store struct {
	mu     sync.Mutex
	amount int
	fence  int64
}

var errStale = errors.New("refused: a later lease has written here")

func (s *store) write(amount int, fence int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// An equal number is refused too: after a fail-over two holders may have
	// the same.
	if fence <= s.fence {
		return errStale
	}
	s.amount, s.fence = amount, fence
	return nil
}

// doc: end

// A job pauses for longer than its lease lives, and another job takes its
// place. A late write of the first job would undo the work of the second. No
// lock can prevent that, for the first job may pause right before its write
// leaves. The store can.
func Example_aStoreThatRefusesOldNumbers() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx := context.Background()
	// doc: client
	newClient := func() (*lock.Client, error) {
		pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", server.Addr())
		}}
		backend, err := modern.New(pool, modern.Config{Fence: true})
		if err != nil {
			return nil, err
		}
		return lock.New(backend, lock.Config{TTL: 30 * time.Second})
	}
	// doc: end
	one, err := newClient()
	if err != nil {
		panic(err)
	}
	defer one.Close(ctx)
	two, err := newClient()
	if err != nil {
		panic(err)
	}
	defer two.Close(ctx)

	stock := &store{}
	// doc: use
	first, err := one.Acquire(ctx, "stock:42")
	if err != nil {
		panic(err)
	}
	oldFence, _ := first.Fence()

	server.FastForward(time.Minute) // the first job is paused; its key ends

	second, err := two.Acquire(ctx, "stock:42")
	if err != nil {
		panic(err)
	}
	fence, _ := second.Fence()
	fmt.Println("second:", stock.write(7, fence))
	fmt.Println("again with the same number:", stock.write(8, fence))
	fmt.Println("first, too late:", stock.write(99, oldFence))
	fmt.Println("amount:", stock.amount)
	// doc: end
	fmt.Println("second gives back:", second.Release())
	fmt.Println("first learns of the loss:", errors.Is(first.Release(), lock.ErrLost))
	// Output:
	// second: <nil>
	// again with the same number: refused: a later lease has written here
	// first, too late: refused: a later lease has written here
	// amount: 7
	// second gives back: <nil>
	// first learns of the loss: true
}
