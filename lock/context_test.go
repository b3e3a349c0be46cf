// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// finish ends a lease or the parent of its context.
type finish func(l *lock.Lease, s *locktest.Store, cancel context.CancelCauseFunc)

func TestLeaseContextEndsWithLeaseOrParent(t *testing.T) {
	over := errors.New("request over")
	passes := func(*lock.Lease, *locktest.Store, context.CancelCauseFunc) { time.Sleep(2 * time.Second) }
	type key struct{}
	for name, c := range map[string]struct {
		end    finish
		cause  error
		within time.Duration // of the parent; 0: no deadline
		err    error
		lives  bool // the lease lives on
	}{
		"released": {end: func(l *lock.Lease, _ *locktest.Store, _ context.CancelCauseFunc) { release(t, l) },
			cause: lock.ErrReleased, err: context.Canceled},
		"released, then the parent ended": {
			end: func(l *lock.Lease, _ *locktest.Store, cancel context.CancelCauseFunc) {
				release(t, l)
				cancel(over)
			}, cause: lock.ErrReleased, err: context.Canceled},
		"lost, then the parent ended": {
			end: func(l *lock.Lease, s *locktest.Store, cancel context.CancelCauseFunc) {
				s.Seize("k", "thief", time.Hour)
				synctest.Wait()
				_ = l.Err()
				cancel(over)
			}, cause: lock.ErrLost, err: context.Canceled},
		"parent ended": {end: func(_ *lock.Lease, _ *locktest.Store, cancel context.CancelCauseFunc) {
			cancel(over)
		}, cause: over, err: context.Canceled, lives: true},
		"parent ended, then released": {
			end: func(l *lock.Lease, _ *locktest.Store, cancel context.CancelCauseFunc) {
				cancel(over)
				release(t, l)
			}, cause: over, err: context.Canceled},
		"deadline": {end: passes, cause: context.DeadlineExceeded, within: 2 * time.Second,
			err: context.DeadlineExceeded, lives: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
				defer cancel(nil)
				if c.within > 0 {
					var stop context.CancelFunc
					parent, stop = context.WithTimeout(parent, c.within)
					defer stop()
				}
				l := acquire(t, client(t, s.Full(), lock.Config{}), "k")
				time.Sleep(time.Second) // until the lease is watched
				ctx := l.Context(parent)
				if ctx.Err() != nil || context.Cause(ctx) != nil || ctx.Value(key{}) != "value" {
					t.Errorf("while it is held: %v, %v, %v", ctx.Err(), context.Cause(ctx), ctx.Value(key{}))
				}
				c.end(l, s, cancel)
				if !errors.Is(context.Cause(ctx), c.cause) || ctx.Err() != c.err ||
					ctx.Value(key{}) != "value" {
					t.Errorf("it ended by %v with %v; want %v with %v", context.Cause(ctx), ctx.Err(),
						c.cause, c.err)
				}
				<-ctx.Done()
				child, stop := context.WithCancel(ctx)
				defer stop()
				<-child.Done()
				wantErr(t, context.Cause(child), c.cause)
				if lives := l.Err() == nil; lives != c.lives {
					t.Errorf("the lease lives: %v", lives)
				}
				_ = l.Release()
			})
		})
	}
}

func TestContextOfAnEndedLeaseHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{TTL: time.Second, RenewEvery: -1})
		released := acquire(t, c, "released")
		release(t, released)
		wantErr(t, context.Cause(released.Context(t.Context())), lock.ErrReleased)
		lost := acquire(t, c, "lost")
		time.Sleep(time.Second)
		wantErr(t, context.Cause(lost.Context(t.Context())), lock.ErrLost)
		<-lost.Done()
		<-released.Done()
		_ = lost.Release()
	})
}

// Contexts of the standard library need no goroutine either.
func TestContextsOfALeaseNeedNoGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		l := acquire(t, client(t, s.Full(), lock.Config{}), "k")
		synctest.Wait()
		before := runtime.NumGoroutine()
		parent, end := context.WithCancel(t.Context())
		defer end()
		ctx, cancel := context.WithTimeout(context.WithValue(l.Context(parent), t, 1), time.Hour)
		defer cancel()
		told := make(chan struct{})
		defer context.AfterFunc(l.Context(parent), func() { close(told) })()
		if n := runtime.NumGoroutine() - before; n != 0 {
			t.Errorf("%d goroutines more", n)
		}
		release(t, l)
		<-told
		if ctx.Err() != context.Canceled {
			t.Errorf("the derived context says %v", ctx.Err())
		}
	})
}

// A service may derive a context for each request from a lease that it holds
// for days.
func TestContextsThatEndedAreNotKept(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		l := acquire(t, client(t, s.Full(), lock.Config{LongestHold: -1}), "k")
		before := memory()
		for range 100_000 {
			parent, end := context.WithCancel(t.Context())
			l.Context(parent)
			end()
		}
		if grown := memory() - before; grown > 1<<20 {
			t.Errorf("%d bytes are kept for contexts that have ended", grown)
		}
		release(t, l)
	})
}

// A service may call Context at each request with a parent that never ends.
func TestLeaseHasOneContextForEachParent(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		l := acquire(t, c, "k")
		first, other := l.Context(context.Background()), l.Context(t.Context())
		if first == other {
			t.Error("two parents have one context")
		}
		before := memory()
		for range 100_000 {
			if l.Context(context.Background()) != first {
				t.Fatal("another context of the same parent")
			}
		}
		if grown := memory() - before; grown > 100_000 {
			t.Errorf("%d bytes were kept", grown)
		}
		type uncomparable struct {
			context.Context
			_ []int
		}
		odd := l.Context(uncomparable{Context: context.Background()})
		release(t, l)
		for _, ctx := range []context.Context{first, other, odd} {
			wantErr(t, context.Cause(ctx), lock.ErrReleased)
		}
	})
}

func memory() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

type carriedKey struct{}

// A process that was stopped for two TTLs checks its context before any timer
// of its own has run.
func TestLeaseContextsErrReadsTheClock(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		clock := &twoWay{began: time.Now()}
		l := acquire(t, client(t, s.Full(), lock.Config{TTL: floorTTL, Clock: clock}), "k")
		ctx := context.WithValue(l.Context(t.Context()), carriedKey{}, "carried on")
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
		clock.step(2 * floorTTL)
		if ctx.Err() != context.Canceled {
			t.Errorf("the first check after the stop: %v", ctx.Err())
		}
		wantErr(t, context.Cause(ctx), lock.ErrLost)
		<-ctx.Done()
		wantErr(t, l.Release(), lock.ErrLost)
	})
}
