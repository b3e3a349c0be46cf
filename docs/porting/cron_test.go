// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"errors"
	"fmt"

	"github.com/getsetlock/getsetlock/lock"
)

// runOnce runs job unless another host is running it.
func runOnce(ctx context.Context, client *lock.Client, name string, job func(context.Context) error) error {
	lease, err := client.TryAcquire(ctx, name)
	if errors.Is(err, lock.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lease.Release()
	return job(lease.Context(ctx))
}

// Three hosts start at one second; one of them runs the job.
func Example_cron() {
	w := newWorld()
	defer w.close()
	ctx := context.Background()
	var hosts []*lock.Client
	for range 3 {
		client, err := newTokenClient(w.pool())
		must(err)
		defer client.Close(ctx)
		hosts = append(hosts, client)
	}
	must(runOnce(ctx, hosts[0], "nightly", func(ctx context.Context) error {
		fmt.Println("host 0 runs")
		for i, late := range hosts[1:] {
			must(runOnce(ctx, late, "nightly", func(context.Context) error {
				fmt.Println("host", i+1, "runs too")
				return nil
			}))
		}
		return ctx.Err()
	}))
	// Output:
	// host 0 runs
}
