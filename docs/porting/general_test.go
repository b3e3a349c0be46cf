// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"errors"
	"fmt"

	"github.com/getsetlock/getsetlock/lock"
)

func sellGeneral(ctx context.Context, client *lock.Client, order Order) error {
	lease, err := client.TryAcquire(ctx, "stock:42") // 1
	if err != nil {
		return err
	}
	err = sellUntil(lease.Context(ctx), order)
	return errors.Join(err, lease.Release()) // 2 to 4
}

// A Client gives connections back to the pool also when the server answers
// errors.
func Example_connectionsComeBack() {
	w := newWorld()
	defer w.close()
	ctx := context.Background()
	pool := w.pool()
	pool.MaxActive = 8 // as Jedis' pool has by default
	client, err := newTokenClient(pool)
	must(err)
	defer client.Close(ctx)

	w.server.SetError("ERR in trouble")
	failed := 0
	for range 20 {
		if sellGeneral(ctx, client, Order{"42", 1}) != nil {
			failed++
		}
	}
	fmt.Println("failed:", failed)
	w.server.SetError("")
	fmt.Println(sellGeneral(ctx, client, Order{"42", 1}))
	// Output:
	// failed: 20
	// sold 1 of 42
	// <nil>
}
