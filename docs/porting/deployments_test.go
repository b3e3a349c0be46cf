// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

// doc: release1
// release1 takes the old key and a second one, which has a token.
func release1(pool *redis.Pool) (*lock.Client, error) {
	backend, err := migrate.New(pool, migrate.Config{
		Phases: migrate.Fixed(migrate.Dual),
		Terms:  dialect.Terms{Lease: time.Minute}, // the old clients' smallest lease
	})
	if err != nil {
		return nil, err
	}
	return lock.New(backend, lock.Config{Wait: 10 * time.Second})
}

// doc: end

// release2 takes the second key alone: secondKey("stock:42").
func release2(pool *redis.Pool) (*lock.Client, error) {
	backend, err := modern.New(pool, modern.Config{})
	if err != nil {
		return nil, err
	}
	return lock.New(backend, lock.Config{Wait: 10 * time.Second})
}

func secondKey(key string) string { return "{" + key + "}:gsl" }

// Neighbours among the three deployments exclude each other, whichever comes
// first. The first and the last do not, so they must never meet.
func TestNeighboursOfThreeDeploymentsExcludeEachOther(t *testing.T) {
	w := newWorld()
	defer w.close()
	old := w.oldClient("", dialect.Named("Jedis"), 0)
	both, err := release1(w.pool())
	must(err)
	token, err := release2(w.pool())
	must(err)
	w.clients = append(w.clients, both, token)
	programs := []struct {
		name   string
		client *lock.Client
		key    string
	}{
		{"today", old, "stock:42"},
		{"release 1", both, "stock:42"},
		{"release 2", token, secondKey("stock:42")},
	}
	for i, first := range programs {
		for j, second := range programs {
			if i == j {
				continue
			}
			held, err := first.client.TryAcquire(context.Background(), first.key)
			must(err)
			other, err := second.client.TryAcquire(context.Background(), second.key)
			apart := i+j == 2 // today and release 2
			if excluded := errors.Is(err, lock.ErrHeld); excluded == apart {
				t.Errorf("%s holds, %s tries: %v", first.name, second.name, err)
			}
			if other != nil {
				must(other.Release())
			}
			must(held.Release())
			w.pass(time.Second) // a release leaves the key to old clients for a moment
		}
	}
}
