// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// bubble runs f in virtual time: waiting costs nothing, and a goroutine that is
// left fails the test.
func bubble(t *testing.T, f func(t *testing.T, s *locktest.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, locktest.NewStore(lock.Machine)) })
}

// newClient makes a Client that the test closes.
func newClient(t *testing.T, b backend.Store, cfg lock.Config) *lock.Client {
	t.Helper()
	c, err := lock.New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// client makes a Client and closes it at the end of the test, by when nothing
// may be under way.
func client(t *testing.T, b backend.Store, cfg lock.Config) *lock.Client {
	t.Helper()
	c := newClient(t, b, cfg)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

func acquire(t *testing.T, c *lock.Client, key string) *lock.Lease {
	t.Helper()
	l, err := c.Acquire(context.Background(), key)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return l
}

func release(t *testing.T, l *lock.Lease) {
	t.Helper()
	if err := l.Release(); err != nil {
		t.Errorf("Release: %v", err)
	}
}

func wantErr(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v; it should wrap %v", err, target)
		}
	}
}

func notErr(t *testing.T, err error, targets ...error) {
	t.Helper()
	if err == nil {
		t.Error("no error")
	}
	for _, target := range targets {
		if errors.Is(err, target) {
			t.Errorf("error %v; it should not wrap %v", err, target)
		}
	}
}

// log collects the calls of hooks.
type log struct {
	mu     sync.Mutex
	events []string
	last   map[string]lock.Event
}

func (l *log) hooks() lock.Hooks {
	l.last = map[string]lock.Event{}
	note := func(what string) func(lock.Event) {
		return func(e lock.Event) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.events = append(l.events, what)
			l.last[what] = e
		}
	}
	return lock.Hooks{
		Waiting: note("waiting"), Acquired: note("acquired"), Renewed: note("renewed"),
		RenewFailed: note("renew failed"), Endangered: note("endangered"), Lost: note("lost"),
		Released: note("released"),
	}
}

func (l *log) count(what string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e == what {
			n++
		}
	}
	return n
}

func (l *log) event(what string) lock.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[what]
}

var errServer = errors.New("server trouble")
