// SPDX-License-Identifier: Apache-2.0

//go:build real

package legacy_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// One process makes the look and another takes over by it, on every server
// version that fleets run. Redis 2.8 needs TIME outside the script.
func TestLookIsRememberedOnEveryServer(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server, _ redistest.Binary) {
		cfg := legacy.Config{Mode: legacy.Hardened, Dialect: dialect.Jedis(), Terms: dialect.Terms{
			Lease: time.Second, Spread: 10 * time.Millisecond, Gap: 10 * time.Millisecond,
		}}
		s.Do("SET", "k", strconv.FormatInt(time.Now().Add(-10*time.Second).UnixMilli(), 10))
		first := newBackend(t, s, cfg)
		began := time.Now()
		_, err := first.Contract().Try(bg, "k", 400*time.Millisecond)
		var held *lock.HeldError
		if !errors.As(err, &held) || !held.Passed {
			t.Fatalf("%v", err)
		}
		if n := first.Stats().Unremembered; n != 0 {
			t.Fatalf("not remembered: %v", err)
		}
		client, err := lock.New(newBackend(t, s, cfg),
			lock.Config{TTL: 400 * time.Millisecond, Wait: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := client.Acquire(bg, "k")
		if err != nil {
			t.Fatal(err)
		}
		needed, known := first.Terms().LookAge(cfg.Dialect)
		if age := time.Since(began); !known || age <= needed {
			t.Errorf("taken %v after the first look", age)
		}
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
		if err := client.Close(bg); err != nil {
			t.Error(err)
		}
	})
}

// A user without rights on the look's key cannot take a lock, and the error
// names that key.
func TestLookWithoutTheRightIsNamed(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	s.User("app", "s3cret", "+@all", "~k", "~{k}:gsl")
	pool := s.Pool(redis.DialUsername("app"), redis.DialPassword("s3cret"))
	b, err := legacy.New(pool, unknown())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	_, err = b.Contract().Try(bg, "k", ttl)
	if err == nil || !strings.Contains(err.Error(), `"{k}:gsl"*`) {
		t.Errorf("%v", err)
	}
}
