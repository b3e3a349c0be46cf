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

// KeyLock is a lock on a Redis key, to be used in a select.
type KeyLock struct {
	Conn  redis.Conn
	Key   string
	Lease time.Duration
	Poll  time.Duration
}

// Lock delivers when the key is held.
func (l *KeyLock) Lock() <-chan struct{} {
	got := make(chan struct{})
	go func() {
		for !l.try() {
			<-time.After(l.Poll)
		}
		got <- struct{}{} // 1
	}()
	return got
}

func (l *KeyLock) try() bool {
	stamp := time.Now().Add(l.Lease).UnixNano()           // 2
	n, err := redis.Int(l.Conn.Do("SETNX", l.Key, stamp)) // 3
	if err == nil && n == 1 {
		return true
	}
	seen, err := redis.Int64(l.Conn.Do("GET", l.Key))
	if err != nil || seen >= time.Now().UnixNano() { // 4
		return false
	}
	before, err := redis.Int64(l.Conn.Do("GETSET", l.Key, stamp))
	return err == nil && before == seen
}

// Unlock gives the key back.
func (l *KeyLock) Unlock() {
	l.Conn.Do("DEL", l.Key) // 5
}

// The examples show it and nothing calls it.
var _ = sellWithOldLock

func sellWithOldLock(keyLock *KeyLock, patience time.Duration, order Order) error {
	select {
	case <-keyLock.Lock():
		defer keyLock.Unlock()
		return sell(order)
	case <-time.After(patience):
		return errBusy // 1
	}
}

var errBusy = errors.New("busy")

func sellWithRequest(ctx context.Context, client *lock.Client, patience time.Duration, order Order) error {
	// doc: request
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the request, and gives back a lease that was not received

	select {
	case got := <-client.Request(ctx, "stock:42"):
		if got.Err != nil {
			return got.Err
		}
		err := sellUntil(got.Lease.Context(ctx), order)
		return errors.Join(err, got.Lease.Release())
	case <-time.After(patience):
		return errBusy
	}
	// doc: end
}

// doc: dialect
// keyLock is what KeyLock writes and how it reads.
var keyLock = dialect.Dialect{
	Name:    "KeyLock",
	Library: "our own keylock.go",
	Unit:    "ns", Shape: "number",
	Reader: "go_int", JudgesAnew: true,
	OnNil: "waits", Unreadable: "held", Wins: "equal_number",
	Acquire: "setnx", KeyTTL: "none", Release: "del",
	Renews: "none",
	Lease:  time.Minute, Poll: 100 * time.Millisecond, WaitsForever: true,
	KeyPattern: "NAME", KeyEncoding: "plain", ValueEncoding: "plain",
}

// doc: end

// The caller of the old lock stops waiting. The goroutine that it started does
// not, and takes the lock when it is free.
func ExampleKeyLock_abandoned() {
	w := newWorld()
	defer w.close()
	holder := &KeyLock{Conn: w.dial(), Key: "stock:42", Lease: time.Minute, Poll: time.Millisecond}
	<-holder.Lock()

	other := &KeyLock{Conn: w.dial(), Key: "stock:42", Lease: time.Minute, Poll: time.Millisecond}
	got := other.Lock()
	gaveUp := make(chan time.Time)
	close(gaveUp)
	select {
	case <-got:
		fmt.Println("had it while it was held")
	case <-gaveUp:
		fmt.Println("gave up")
	}

	holder.Unlock()
	<-got // the old program does not do this; here it waits for the goroutine
	fmt.Println("taken all the same:", w.server.Exists("stock:42"))
	// Output:
	// gave up
	// taken all the same: true
}

// The same with this library: a lease that nobody received is given back.
func Example_request() {
	w := newWorld()
	defer w.close()
	ctx := context.Background()
	holders, err := newClient(w.pool())
	must(err)
	defer holders.Close(ctx)
	others, err := newClient(w.pool())
	must(err)

	lease := take(holders, "stock:42")
	fmt.Println(sellWithRequest(ctx, others, time.Millisecond, Order{"42", 1}))
	must(lease.Release())
	must(others.Close(ctx)) // waits until the request is over
	fmt.Println("keys left:", len(w.server.Keys()))

	fmt.Println(sellWithRequest(ctx, holders, time.Minute, Order{"42", 1}))
	// Output:
	// busy
	// keys left: 0
	// sold 1 of 42
	// <nil>
}

// A client with the dialect of the old lock takes turns with the old lock.
func Example_ownDialect() {
	w := newWorld()
	defer w.close()
	ctx := context.Background()
	w.server.SetTime(time.Now()) // by which the old lock stamps
	fmt.Println(keyLock.Validate())
	backend, err := legacy.New(w.pool(), legacy.Config{Mode: legacy.Hardened, Dialect: keyLock})
	must(err)
	client, err := lock.New(backend, lock.Config{})
	must(err)
	defer client.Close(ctx)
	old := &KeyLock{Conn: w.dial(), Key: "stock:42", Lease: time.Minute, Poll: time.Millisecond}

	<-old.Lock()
	_, err = client.TryAcquire(ctx, "stock:42")
	fmt.Println("getsetlock while the old lock holds:", errors.Is(err, lock.ErrHeld))
	old.Unlock()

	lease := take(client, "stock:42")
	fmt.Println("the old lock while getsetlock holds:", old.try())
	must(lease.Release())
	fmt.Println("and after:", old.try())
	old.Unlock()
	// Output:
	// <nil>
	// getsetlock while the old lock holds: true
	// the old lock while getsetlock holds: false
	// and after: true
}
