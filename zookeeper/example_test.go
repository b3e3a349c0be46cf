// SPDX-License-Identifier: Apache-2.0

package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// A cron job that starts on every host runs on one of them.
func ExampleOpen() {
	ctx := context.Background()
	locks, err := zookeeper.Open(ctx, "zookeeper://10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181/locks",
		zookeeper.Options{
			Backend: zookeeper.Config{User: "cron", Password: "secret"},
			Lock:    lock.Config{TTL: 10 * time.Second},
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

// An operator looks who holds which lock, and since when.
func ExampleBackend_List() {
	ctx := context.Background()
	servers, cfg, err := zookeeper.Parse("zookeeper://10.0.0.1:2181,10.0.0.2:2181/locks", zookeeper.Config{})
	if err != nil {
		log.Fatal(err)
	}
	backend, err := zookeeper.New(servers, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Close()
	infos, err := backend.List(ctx, "shop/")
	if err != nil {
		log.Print(err) // names a node that may not be read; the others are in infos
	}
	for _, info := range infos {
		detail := info.Detail.(*zookeeper.Info)
		fmt.Println(info.Key, detail.Holder, detail.Note, time.Since(detail.Since), len(detail.Waiting))
	}
}
