// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// lastAnswer is how long the last attempt may wait for its answer.
const lastAnswer = 100 * time.Millisecond

// The command reached the store all the same, so Acquire must undo it.
func TestAcquireEndsWithItsWaitIfTheStoreIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{Wait: 500 * time.Millisecond})
		s.Order(locktest.Fault{Op: "try", Hold: make(chan struct{}), Err: errServer, After: true})
		began := time.Now()
		_, err := c.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrWaitEnded)
		notErr(t, err, lock.ErrHeld, context.DeadlineExceeded)
		if d := time.Since(began); d != 500*time.Millisecond+lastAnswer {
			t.Errorf("it took %v: %v", d, err)
		}
		synctest.Wait()
		if h := s.Holder("k"); h != "" {
			t.Errorf("key left to %s", h)
		}
	})
}

// The store had said who holds the key.
func TestSilenceAtTheEndDoesNotHideAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{Wait: 500 * time.Millisecond})
		s.Seize("k", "somebody", time.Hour)
		time.AfterFunc(50*time.Millisecond, func() {
			for _, op := range []string{"try", "enter", "await"} {
				s.Order(locktest.Fault{Op: op, Hold: make(chan struct{}), Err: errServer})
			}
		})
		began := time.Now()
		_, err := c.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrWaitEnded, lock.ErrHeld)
		if d := time.Since(began); d > 500*time.Millisecond+lastAnswer {
			t.Errorf("it took %v: %v", d, err)
		}
	})
}

// The backend bounds a release by a second. An attempt may take longer: it may
// have to connect first.
func TestWaitEndsAnAttemptOfABackendWithATimeout(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, backend.Of(prompt{s.Backend().Contract()}), lock.Config{Wait: 5 * time.Second})
		s.Order(locktest.Fault{Op: "try", Hold: make(chan struct{}), Err: errServer})
		began := time.Now()
		_, err := c.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrWaitEnded)
		if d := time.Since(began); d != 5*time.Second+lastAnswer {
			t.Errorf("it took %v: %v", d, err)
		}
	})
}

// thorough is a backend that waits after it took a key before that is a grant.
type thorough struct{ backend.Backend }

func (b thorough) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := b.Backend.Try(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	backend.ReadClock(backend.IgnoreWait(ctx))
	select {
	case <-time.After(time.Second):
		return g, nil
	case <-backend.IgnoreWait(ctx).Done():
		return nil, &backend.UnsureError{Grant: g, Err: context.Cause(ctx)}
	}
}

// Only its context ends such an attempt.
func TestAttemptThatTookTheKeyOutlastsItsWait(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, backend.Of(thorough{s.Backend().Contract()}),
			lock.Config{Wait: 500 * time.Millisecond})
		release(t, acquire(t, c, "k"))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := c.Acquire(ctx, "k")
		wantErr(t, err, context.DeadlineExceeded)
		notErr(t, err, lock.ErrWaitEnded)
	})
}

// ReadClock reads the Client's clock from the context that IgnoreWait returns.
func TestIgnoreWaitKeepsTheClockOfTheClient(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		clock := elsewhere{lock.Machine}
		var marked time.Time
		c := client(t, backend.Of(marking{s.Backend().Contract(), &marked}),
			lock.Config{Wait: time.Second, Clock: clock})
		_, _ = c.Acquire(t.Context(), "k")
		if !marked.Equal(clock.Now().Round(0)) {
			t.Errorf("marked %v, the clock shows %v", marked, clock.Now())
		}
	})
}

// elsewhere is a clock that is an hour ahead.
type elsewhere struct{ lock.Clock }

func (c elsewhere) Now() time.Time { return c.Clock.Now().Add(time.Hour) }

type marking struct {
	backend.Backend
	at *time.Time
}

func (b marking) Try(ctx context.Context, _ string, _ time.Duration) (backend.Grant, error) {
	*b.at = backend.ReadClock(backend.IgnoreWait(ctx)).Wall
	return nil, errServer
}

// Each attempt of unknown outcome has its own undo. They end with the TTL, or
// with a Close whose context has ended.
func TestLogNamesAKeyOfManyAttemptsOnce(t *testing.T) {
	for _, wait := range []time.Duration{time.Second, time.Hour} {
		bubble(t, func(t *testing.T, s *locktest.Store) {
			var text journal
			c := newClient(t, s.Backend(),
				lock.Config{TTL: time.Minute, Logger: slog.New(slog.NewTextHandler(&text, nil))})
			s.Order(locktest.Fault{Op: "try", Err: errServer, After: true})
			s.Order(locktest.Fault{Op: "release", Err: errServer})
			for range 5 {
				_, err := c.Acquire(t.Context(), "k")
				wantErr(t, err, errServer)
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			if err := c.Close(ctx); (err == nil) != (wait == time.Hour) {
				t.Errorf("Close within %v: %v", wait, err)
			}
			synctest.Wait()
			if n := strings.Count(text.String(), "could not be given back"); n != 1 {
				t.Errorf("Close within %v: %d lines: %s", wait, n, text.String())
			}
		})
	}
}
