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

func TestContextOfALeaseTellsTheSameWhoeverListened(t *testing.T) {
	over := errors.New("request over")
	type key struct{}
	for name, c := range map[string]struct {
		end    func(l *lock.Lease, s *locktest.Store, cancel context.CancelCauseFunc)
		cause  error
		within time.Duration // of the parent; 0: no deadline
		err    error
	}{
		"released": {end: func(l *lock.Lease, _ *locktest.Store, _ context.CancelCauseFunc) { release(t, l) }, cause: lock.ErrReleased, err: context.Canceled},
		"lost, then the parent ended": {end: func(l *lock.Lease, s *locktest.Store, cancel context.CancelCauseFunc) {
			s.Seize("k", "thief", time.Hour)
			synctest.Wait()
			_ = l.Err()
			cancel(over)
		}, cause: lock.ErrLost, err: context.Canceled},
		"parent ended": {end: func(_ *lock.Lease, _ *locktest.Store, cancel context.CancelCauseFunc) { cancel(over) }, cause: over, err: context.Canceled},
		"deadline": {end: func(*lock.Lease, *locktest.Store, context.CancelCauseFunc) { time.Sleep(2 * time.Second) },
			cause: context.DeadlineExceeded, within: 2 * time.Second, err: context.DeadlineExceeded},
	} {
		for _, listens := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *locktest.Store) {
					parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
					defer cancel(nil)
					if c.within > 0 {
						var stop context.CancelFunc
						parent, stop = context.WithTimeout(parent, c.within)
						defer stop()
					}
					l, err := client(t, s.Full(), lock.Config{}).Acquire(parent, "k")
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second) // until it is watched
					ctx := l.Context()
					if listens {
						_ = ctx.Done()
					}
					if ctx.Err() != nil || context.Cause(ctx) != nil || ctx.Value(key{}) != "value" {
						t.Errorf("while it is held: %v, %v, %v", ctx.Err(), context.Cause(ctx), ctx.Value(key{}))
					}
					c.end(l, s, cancel)
					if !errors.Is(context.Cause(ctx), c.cause) || ctx.Err() != c.err || ctx.Value(key{}) != "value" {
						t.Errorf("it ended by %v with %v; want %v with %v", context.Cause(ctx), ctx.Err(), c.cause, c.err)
					}
					<-ctx.Done()
					child, stop := context.WithCancel(ctx)
					defer stop()
					<-child.Done()
					wantErr(t, context.Cause(child), c.cause)
					synctest.Wait()
					_ = l.Release()
				})
			})
		}
	}
}

// TestContextsDerivedFromALeaseNeedNoGoroutine holds the context of a lease to what the standard library's
// own do.
func TestContextsDerivedFromALeaseNeedNoGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		l := acquire(t, client(t, s.Full(), lock.Config{}), "k")
		synctest.Wait()
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithTimeout(context.WithValue(l.Context(), t, 1), time.Hour)
		defer cancel()
		told := make(chan struct{})
		defer context.AfterFunc(l.Context(), func() { close(told) })()
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
