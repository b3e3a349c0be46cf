// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

func urlPool(url string) *redis.Pool {
	return &redis.Pool{Dial: func() (redis.Conn, error) { return redis.DialURL(url) }}
}

// handOff makes two processes hold a key in turn, one waiting for the other.
func handOff(t *testing.T, pool *redis.Pool, cfg modern.Config, lc lock.Config) error {
	t.Helper()
	return handOffOf(t, "app:k", pool, cfg, lc)
}

// handOffOf is handOff of a key of this name.
func handOffOf(t *testing.T, key string, pool *redis.Pool, cfg modern.Config, lc lock.Config) error {
	t.Helper()
	waiting := make(chan struct{}, 1)
	var clients []*lock.Client
	for range 2 {
		b := openOn(t, pool, cfg)
		lc.Hooks.Waiting = func(lock.Event) { waiting <- struct{}{} }
		clients = append(clients, client(t, b, lc))
	}
	l, err := clients[0].Acquire(bg, key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(bg, 5*time.Minute)
	defer cancel()
	got := clients[1].Request(ctx, key)
	select {
	case <-waiting:
	case r := <-got:
		return fmt.Errorf("instead of waiting: %w", r.Err)
	}
	if err := l.Release(); err != nil {
		return err
	}
	r := <-got
	if r.Err != nil {
		return r.Err
	}
	return r.Lease.Release()
}

func TestWaitingWorksWithTheFewestRights(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		if !binary.ACL {
			continue
		}
		t.Run(binary.Name, func(t *testing.T) {
			t.Parallel()
			s := binary.Start(t, redistest.Options{})
			for name, rules := range map[string][]string{
				"everything":    {"~*", "&*", "+@all"},
				"own keys only": {"~app:*", "&*", "+@all"},
				"no channels":   {"~*", "resetchannels", "+@all"},
				"no subscribe":  {"~*", "&*", "+@all", "-subscribe"},
				"no publish":    {"~*", "&*", "+@all", "-publish"},
				"no client":     {"~*", "&*", "+@all", "-client"},
				"no time":       {"~*", "&*", "+@all", "-time"},
				"the least": {"~app:*", "resetchannels", "-@all", "+set", "+get", "+del", "+pexpire",
					"+pttl", "+exists", "+eval", "+evalsha"},
			} {
				if err := handOff(t, urlPool(s.User("u", "pw", rules...)), modern.Config{},
					lock.Config{}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			redistest.NoKeys(t, s.Pool())
		})
	}
}

func TestErrorNamesMissingRightsOfFairAndFence(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	url := s.User("u", "pw", "~app:*", "&*", "+@all")
	for name, cfg := range map[string]modern.Config{"fair": {Fair: true}, "fence": {Fence: true}} {
		err := handOff(t, urlPool(url), cfg, lock.Config{})
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s: %v", name, err)
		}
	}
	redistest.NoKeys(t, s.Pool())
}

// TestOnlyNodeOfAClusterWorks with queues and numbers, for all names of keys.
// Renewals of several keys are sent one by one.
func TestOnlyNodeOfAClusterWorks(t *testing.T) {
	s := redistest.OnlyNode(t)
	for _, key := range redistest.OddKeys {
		for _, cfg := range []modern.Config{{}, {Fence: true}, {Fair: true}, {Fair: true, Fence: true}} {
			if err := handOffOf(t, key, s.Pool(), cfg, lock.Config{}); err != nil {
				t.Errorf("%s, %+v: %v", key, cfg, err)
			}
		}
	}
	b := openOn(t, s.Pool(), modern.Config{})
	var grants []backend.Grant
	for i := range 300 {
		grants = append(grants, try(t, b, fmt.Sprint("k", i)))
	}
	for range 2 {
		_, errs := b.Contract().(backend.BatchExtender).ExtendAll(bg, grants, ttl)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range grants {
		free(t, g)
	}
	for _, key := range redistest.Keys(t, s.Pool()) {
		if !strings.HasPrefix(key, "gsl:fence:") {
			t.Errorf("key %q was left", key)
		}
	}
}
