// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

func forgetful(backend backend.Store) (*lock.Client, error) {
	// doc: longest
	return lock.New(backend, lock.Config{TTL: 30 * time.Second, LongestHold: 10 * time.Minute})
	// doc: end
}

// A lease without a Release ends after LongestHold, and at most a TTL later.
// Without LongestHold it is renewed for ever.
func TestForgottenLeaseEndsAfterLongestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.NewStore(lock.Machine)
		client, err := forgetful(store.Full())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Acquire(t.Context(), "stock:42"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9*time.Minute + 50*time.Second)
		if store.Holder("stock:42") == "" {
			t.Error("the key is free before LongestHold")
		}
		time.Sleep(time.Minute)
		if by := store.Holder("stock:42"); by != "" {
			t.Errorf("the key is held by %q after LongestHold and a TTL", by)
		}
		end, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := client.Close(end); err != nil {
			t.Error(err)
		}
	})
}

func bigger(backend backend.Store) (*lock.Client, error) {
	// doc: pause
	return lock.New(backend, lock.Config{TTL: 2 * time.Minute}) // trust ends after 108 s, 12 s before the key
	// doc: end
}

func defaults(backend backend.Store) (*lock.Client, error) { return lock.New(backend, lock.Config{}) }

// A server that is away for a minute costs no lease of two minutes.
func TestLongTTLOutlastsAMinuteWithoutServer(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(backend.Store) (*lock.Client, error)
		held bool
	}{
		{"the default TTL", defaults, false},
		{"two minutes", bigger, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := locktest.NewStore(lock.Machine)
				client, err := c.make(store.Full())
				if err != nil {
					t.Fatal(err)
				}
				lease, err := client.Acquire(t.Context(), "stock:42")
				if err != nil {
					t.Fatal(err)
				}
				store.Order(locktest.Fault{Err: errAway, Passes: true})
				time.Sleep(time.Minute)
				store.Mend()
				if held := lease.Err() == nil; held != c.held {
					t.Errorf("held %t: %v", held, lease.Err())
				}
				_ = lease.Release()
				if err := client.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
