// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

func TestDoHoldsTheKeyWhileItsFuncRuns(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		own := errors.New("the job failed")
		err := c.Do(t.Context(), "k", func(ctx context.Context) error {
			if s.Holder("k") == "" {
				t.Error("not held")
			}
			return own
		})
		if err != own {
			t.Errorf("error %v", err)
		}
		if s.Holder("k") != "" {
			t.Error("still held")
		}
	})
}

func TestNestedDoJoinsTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		ran := false
		err := c.Do(t.Context(), "k", func(ctx context.Context) error {
			return c.Do(ctx, "other", func(ctx context.Context) error {
				return c.Do(ctx, "k", func(context.Context) error { ran = true; return nil })
			})
		})
		if err != nil || !ran {
			t.Errorf("error %v, ran %v", err, ran)
		}
		if n := s.Calls("try"); n != 2 {
			t.Errorf("%d attempts for two keys", n)
		}
	})
}

func TestDoAfterTheLeasesEndAcquiresAnew(t *testing.T) {
	for name, end := range map[string]func(l *lock.Lease){
		"lost":     func(l *lock.Lease) { <-l.Done(); wantErr(t, l.Err(), lock.ErrLost); _ = l.Release() },
		"released": func(l *lock.Lease) { release(t, l) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				c := client(t, s.Backend(), lock.Config{RenewEvery: -1, TTL: time.Second})
				l := acquire(t, c, "k")
				ctx := l.Context(t.Context())
				end(l)
				ran := false
				err := c.Do(context.WithoutCancel(ctx), "k", func(context.Context) error {
					ran = s.Holder("k") != "" && s.Holder("k") != l.Token()
					return nil
				})
				if err != nil || !ran {
					t.Errorf("error %v, func ran on a lease of its own: %v", err, ran)
				}
			})
		})
	}
}

func TestJoinedDoIsPartOfTheFuncUntilItReturns(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		inside, joined := make(chan struct{}), make(chan error)
		err := c.Do(t.Context(), "k", func(ctx context.Context) error {
			go func() {
				joined <- c.Do(ctx, "k", func(ctx context.Context) error {
					close(inside)
					<-ctx.Done()
					return nil
				})
			}()
			<-inside
			return nil
		})
		if err != nil || s.Holder("k") != "" {
			t.Errorf("error %v, the key is held by %q", err, s.Holder("k"))
		}
		wantErr(t, <-joined, lock.ErrReleased) // it ran on without the key, and its error says so
		if n := s.Calls("try"); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestDoReportsALossDuringItsFunc(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		err := c.Do(t.Context(), "k", func(context.Context) error {
			s.Seize("k", "thief", time.Hour)
			return nil
		})
		wantErr(t, err, lock.ErrLost)
	})
}

func TestDoKeepsTheKeyWhenItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{TTL: 10 * time.Second})
		over := errors.New("request over")
		ctx, cancel := context.WithCancelCause(t.Context())
		err := c.Do(ctx, "k", func(ctx context.Context) error {
			cancel(over)
			<-ctx.Done()
			wantErr(t, context.Cause(ctx), over)
			time.Sleep(time.Minute) // its func ignores the end of the context
			if s.Holder("k") == "" {
				t.Error("the key was given back while the func still ran")
			}
			return nil
		})
		if err != nil {
			t.Errorf("the end of the context added %v", err)
		}
		if s.Holder("k") != "" {
			t.Error("still held")
		}
	})
}

func TestDoGivesTheKeyBackWhenItsFuncPanics(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		func() {
			defer func() {
				if r := recover(); r != "boom" {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = c.Do(t.Context(), "k", func(context.Context) error { panic("boom") })
		}()
		if s.Holder("k") != "" {
			t.Error("still held")
		}
	})
}

func TestRequestDeliversForSelectLoops(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{})
		s.Seize("k", "somebody", 3*time.Second)
		request := c.Request(t.Context(), "k")
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
				continue
			case r := <-request:
				if r.Err != nil || n != 3 {
					t.Fatalf("after %d s: %v", n, r.Err)
				}
				release(t, r.Lease)
			}
			break
		}
	})
}

func TestRequestQueuesAgainIfItsResultIsUnreadForATTL(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{TTL: 10 * time.Second})
		request := c.Request(t.Context(), "k")
		synctest.Wait()
		first := s.Holder("k")
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if second := s.Holder("k"); second == first || second == "" {
			t.Errorf("held by %q after %q", second, first)
		}
		r := <-request
		if r.Err != nil || r.Lease.Err() != nil {
			t.Fatal(r.Err)
		}
		release(t, r.Lease)
		if _, open := <-request; open {
			t.Error("a second result")
		}
	})
}

func TestContextOfARequestGovernsUntilItsResultIsReceived(t *testing.T) {
	over := errors.New("the caller gave up")
	for name, received := range map[string]bool{"unread": false, "received": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				c := client(t, s.Backend(), lock.Config{TTL: 10 * time.Second})
				ctx, cancel := context.WithCancelCause(t.Context())
				request := c.Request(ctx, "k")
				synctest.Wait()
				var r lock.Result
				if received {
					r = <-request
				}
				cancel(over)
				synctest.Wait()
				if held := s.Holder("k") != ""; held != received {
					t.Errorf("held: %v", held)
				}
				if received {
					release(t, r.Lease)
					return
				}
				wantErr(t, (<-request).Err, over)
			})
		})
	}
}

func TestCloseWaitsForHoldersAndEndsWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := newClient(t, s.Full(), lock.Config{})
		l := acquire(t, c, "k")
		s.Seize("foreign", "somebody", time.Hour)
		waiters := make(chan error, 2)
		go func() { _, err := c.Acquire(t.Context(), "k"); waiters <- err }()
		go func() { _, err := c.Acquire(t.Context(), "foreign"); waiters <- err }()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- c.Close(t.Context()) }()
		wantErr(t, <-waiters, lock.ErrClosed)
		wantErr(t, <-waiters, lock.ErrClosed)
		time.Sleep(time.Hour)
		if l.Err() != nil {
			t.Errorf("a lease that is still held: %v", l.Err())
		}
		release(t, l)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		_, err := c.TryAcquire(t.Context(), "k")
		wantErr(t, err, lock.ErrClosed)
		if r := <-c.Request(t.Context(), "k"); !errors.Is(r.Err, lock.ErrClosed) {
			t.Error(r.Err)
		}
	})
}

func TestCloseWithEndedContextEndsLeasesAndLeavesKeys(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		var told log
		c := newClient(t, s.Full(), lock.Config{Hooks: told.hooks()})
		l := acquire(t, c, "k")
		s.Order(locktest.Fault{Op: "try", Times: 1, Err: errServer, After: true})
		s.Order(locktest.Fault{Op: "release", Err: errServer})
		_, err := c.Acquire(t.Context(), "undone")
		wantErr(t, err, errServer)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		wantErr(t, c.Close(ctx), context.DeadlineExceeded)
		if d := time.Since(began); d != time.Second {
			t.Errorf("closed after %v", d)
		}
		wantErr(t, l.Err(), lock.ErrClosed)
		if e := told.event("lost"); told.count("lost") != 1 || e.Token != l.Token() ||
			e.Cause != lock.ErrClosed {
			t.Errorf("hooks reported %d losses: %+v", told.count("lost"), e)
		}
		if s.Holder("k") != l.Token() {
			t.Error("the key was given back under a holder at work")
		}
		if s.Calls("extend") != 0 {
			t.Error("the Client renewed a lease that has ended")
		}
		before := s.Calls("release")
		time.Sleep(time.Minute)
		if n := s.Calls("release") - before; n != 0 {
			t.Errorf("%d attempts to give something back after Close", n)
		}
	})
}

// A renewal and a look wait for a silent store, and so does an attempt whose
// caller's context lives.
func TestCloseWithEndedContextReturnsWithCallsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := newClient(t, s.Full(), lock.Config{TTL: 10 * time.Second})
		silent := make(chan struct{})
		for _, op := range []string{"extend", "watch"} {
			s.Order(locktest.Fault{Op: op, Hold: silent})
		}
		l := acquire(t, c, "k")
		time.Sleep(5 * time.Second)
		s.Order(locktest.Fault{Op: "try", Hold: silent, Err: errServer, After: true})
		other := make(chan error)
		go func() { _, err := c.Acquire(t.Context(), "other"); other <- err }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		wantErr(t, c.Close(ctx), context.DeadlineExceeded)
		if d := time.Since(began); d != time.Second {
			t.Errorf("closed after %v", d)
		}
		close(silent)
		if err := <-other; !errors.Is(err, lock.ErrClosed) || !errors.Is(err, errServer) {
			t.Errorf("the attempt under way: %v", err)
		}
		wantErr(t, l.Release(), lock.ErrClosed)
	})
}
