// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lead"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// doc: floor
func newTicks(backend *modern.Backend) (*lock.Client, error) {
	keep, err := lock.Floor(time.Minute, 2*time.Second) // the period, and the spread of the starts
	if err != nil {
		return nil, err
	}
	return lock.New(backend, lock.Config{KeepFor: keep})
}

func tick(ctx context.Context, client *lock.Client, job func(context.Context) error) error {
	lease, err := client.TryAcquire(ctx, "report")
	if errors.Is(err, lock.ErrHeld) {
		return nil // another machine runs this tick, or has run it
	}
	if err != nil {
		return err
	}
	return errors.Join(job(lease.Context(ctx)), lease.Release())
}

// doc: end

func bill(ctx context.Context, number int64) error {
	fmt.Println("billing as leader", number > 0)
	return context.Cause(ctx)
}

func leads(ctx context.Context, client *lock.Client) error {
	// doc: lead
	return lead.Run(ctx, client, "billing", func(ctx context.Context) error {
		number, _ := lead.Fence(ctx) // send it with each write
		return bill(ctx, number)     // until ctx ends
	})
	// doc: end
}

func TestTickRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		b, err := modern.New(w.Pool(), modern.Config{Fence: true})
		if err != nil {
			t.Fatal(err)
		}
		client, err := newTicks(b)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(context.Background())
		runs := 0
		for range 3 {
			err := tick(t.Context(), client, func(context.Context) error { runs++; return nil })
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
		if err := leads(t.Context(), client); err != nil {
			t.Error(err)
		}
	})
}
