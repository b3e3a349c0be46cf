// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// Close does not wait longer for the attempt than its context allows, and then
// begins nothing to give the key back. The store gets no release, and frees the
// key after its TTL.
func TestAttemptThatWinsAfterCloseGetsNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := newClient(t, s.Full(), lock.Config{TTL: time.Minute})
		won := make(chan struct{})
		s.Order(locktest.Fault{Op: "try", Times: 1, Hold: won})
		ended := make(chan error, 1)
		go func() {
			l, err := c.Acquire(t.Context(), "k")
			if err == nil {
				t.Error("a lease after Close")
				_ = l.Release()
			}
			ended <- err
		}()
		time.Sleep(2 * time.Second) // during the attempt
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantErr(t, c.Close(ctx), context.Canceled)
		before := s.Calls("release")
		close(won)
		wantErr(t, <-ended, lock.ErrClosed)
		time.Sleep(2 * time.Minute)
		if h := s.Holder("k"); h != "" || s.Calls("release") != before {
			t.Errorf("the key is left to %q, released %d times", h, s.Calls("release")-before)
		}
	})
}

// The scheduler is stopped after it has taken up a renewal and before it hands
// the renewal to a worker. Close must not take the workers for finished then.
func TestCloseWaitsForTheSchedulersLastRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		stands, proceed := make(chan struct{}), make(chan struct{})
		c, err := lock.New(s.Backend(), lock.Config{
			TTL: time.Minute, Margin: time.Second, RenewEvery: 21 * time.Second,
			Jitter: func(time.Duration) time.Duration { return 0 },
		})
		if err != nil {
			t.Fatal(err)
		}
		// The other lease is renewed every second, right after the first lease.
		// When the first one is renewed the other has been held for ten TTLs,
		// and the scheduler writes a log line about that.
		brief, err := c.With(func(cfg *lock.Config) {
			cfg.TTL, cfg.Margin, cfg.RenewEvery = 2*time.Second, 500*time.Millisecond, time.Second
			cfg.Logger = slog.New(slog.NewTextHandler(stand{stands, proceed}, nil))
		})
		if err != nil {
			t.Fatal(err)
		}
		renewed := acquire(t, c, "renewed")
		time.Sleep(20 * time.Millisecond)
		long := acquire(t, brief, "long")
		<-stands
		answered := make(chan struct{})
		s.Order(locktest.Fault{Op: "extend", Hold: answered})
		before := s.Calls("extend")
		release(t, renewed)
		release(t, long)
		closed := make(chan error, 1)
		go func() { closed <- c.Close(t.Context()) }()
		synctest.Wait()
		if n := s.Calls("extend") - before; n != 0 {
			t.Errorf("%d renewals are at the store before the scheduler may hand any over", n)
		}
		close(proceed)
		synctest.Wait()
		if n := s.Calls("extend") - before; n != 2 {
			t.Errorf("%d renewals are at the store, want the two that the scheduler has taken up", n)
		}
		if len(closed) != 0 {
			t.Error("Close returned while a renewal was at the store")
		}
		close(answered)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// stand is a log that blocks its first writer.
type stand struct{ reached, proceed chan struct{} }

func (s stand) Write(line []byte) (int, error) {
	close(s.reached)
	<-s.proceed
	return len(line), nil
}
