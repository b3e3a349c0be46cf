// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/lock"
)

// A holder writes to etcd in a transaction that also asks whether it still
// holds the lock. A holder that lost its lock without noticing, for example
// because its process was stopped, writes nothing.
func ExampleBackend_Held() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	backend, err := etcd.New(client, etcd.Config{})
	if err != nil {
		log.Fatal(err)
	}
	locks, err := lock.New(backend, lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	lease, err := locks.Acquire(ctx, "stock")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()
	fence, _ := lease.Fence()
	done, err := client.Txn(ctx).If(backend.Held(fence)).Then(clientv3.OpPut("goods", "41")).Commit()
	if err != nil {
		log.Fatal(err)
	}
	if !done.Succeeded {
		log.Print("the lock was lost: nothing was written")
	}
}

// A cron job that starts on every host runs on one of them.
func ExampleOpen() {
	ctx := context.Background()
	locks, err := etcd.Open(ctx, []string{"10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"},
		etcd.Options{
			Client: clientv3.Config{Username: "cron", Password: "secret"},
			Lock:   lock.Config{TTL: 10 * time.Second},
		})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	lease, err := locks.TryAcquire(ctx, "nightly")
	if errors.Is(err, lock.ErrHeld) {
		return // another host runs it
	}
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()
	fmt.Println("running")
}
