// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/migrate"
)

// While an old client holds, every attempt takes the target and gives it back.
// If that woke the other waiters, they would never rest.
func TestComposedWaitersDoNotWakeEachOther(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	store := locktest.NewStore(lock.Machine)
	compose := func(p migrate.Phase) *migrate.Composed {
		c, err := migrate.Compose(realBridge(t, s, p), store.Full())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for _, p := range []migrate.Phase{migrate.Observe, migrate.Dual, migrate.Sealed, migrate.Modern} {
		one, other := compose(p), compose(p)
		s.Do("SET", "k", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10))
		woken := make(chan struct{}, 1)
		cancel, free, err := one.Contract().(backend.Waker).Await(background, "k",
			func() { woken <- struct{}{} })
		if err != nil || free {
			t.Fatalf("%v: free %v, %v", p, free, err)
		}
		if g, err := other.Contract().Try(background, "k", ttl); err == nil {
			t.Fatalf("%v: taken alongside an old client: %v", p, g)
		}
		select {
		case <-woken:
			t.Errorf("%v: a refused attempt woke the other waiter", p)
		default:
		}
		s.Do("DEL", "k")
		<-woken
		cancel()
	}
}

// The fleet has left the old server, which need not wake anybody any more.
func TestComposedWaitsForItsTargetAloneInClean(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	store := locktest.NewStore(lock.Machine)
	c, err := migrate.Compose(realBridge(t, s, migrate.Clean), store.Full())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.Do("SET", "{k}:gsl", "a token that a program without this target left")
	if _, free, err := c.Contract().(backend.Waker).Await(background, "k", func() {}); err != nil || !free {
		t.Errorf("free %v, %v", free, err)
	}
}
