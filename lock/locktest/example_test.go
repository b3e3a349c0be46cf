// SPDX-License-Identifier: Apache-2.0

package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// A test of code that uses a Client needs no server: the Store is in memory.
// Seize plays another client that takes the key away.
func Example() {
	store := locktest.NewStore(lock.Machine)
	client, err := lock.New(store.Full(), lock.Config{TTL: time.Minute})
	if err != nil {
		panic(err)
	}
	defer client.Close(context.Background())

	lease, err := client.Acquire(context.Background(), "orders")
	if err != nil {
		panic(err)
	}
	fmt.Println("held:", store.Holder("orders") == lease.Token())

	store.Seize("orders", "thief", time.Minute)
	<-lease.Done()
	fmt.Println("lost:", errors.Is(lease.Err(), lock.ErrLost))
	fmt.Println("release reports it:", errors.Is(lease.Release(), lock.ErrLost))
	// Output:
	// held: true
	// lost: true
	// release reports it: true
}

// A Fault makes calls of the store fail. Here one attempt is carried out, but
// its reply is lost: the Client undoes what it may have taken.
func ExampleStore_Order() {
	store := locktest.NewStore(lock.Machine)
	client, err := lock.New(store.Full(), lock.Config{})
	if err != nil {
		panic(err)
	}
	store.Order(locktest.Fault{Op: "try", Times: 1, Err: errors.New("connection reset"), After: true})
	_, err = client.TryAcquire(context.Background(), "orders")
	fmt.Println(err)
	fmt.Println("close:", client.Close(context.Background())) // waits for the undo
	fmt.Println("free:", store.Holder("orders") == "")
	// Output:
	// lock: key "orders": connection reset
	// close: <nil>
	// free: true
}

// The author of a Backend runs the conformance kit in a test. The World says
// how to reach the store of one test, and how time passes there.
func ExampleRunInBubbles() {
	testBackend := func(t *testing.T) {
		locktest.RunInBubbles(t, locktest.Traits{}, func(t *testing.T) *locktest.World {
			store := locktest.NewStore(lock.Machine) // use your own store here
			return &locktest.World{
				Backend: store.Full, // use your own New here
				Pass:    time.Sleep,
				TTL:     10 * time.Second,
				Seize:   func(key string) { store.Seize(key, "thief", time.Hour) },
			}
		})
	}
	_ = testBackend // func TestBackendPassesTheKit(t *testing.T) { … }
}
