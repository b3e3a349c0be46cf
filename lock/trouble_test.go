// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// ailing is a store whose attempts fail with the given errors in order and then
// succeed.
type ailing struct {
	fails  []error
	tries  int
	closed int
}

func (s *ailing) Close() error {
	s.closed++
	return nil
}

func (s *ailing) Try(context.Context, string, time.Duration) (backend.Grant, error) {
	s.tries++
	if s.tries <= len(s.fails) {
		return nil, s.fails[s.tries-1]
	}
	return easy{}, nil
}

// easy is a grant that is never lost.
type easy struct{}

func (easy) Key() string                   { return "k" }
func (easy) Token() string                 { return "t" }
func (easy) Fence() (int64, bool)          { return 0, false }
func (easy) Term() backend.Term            { return backend.Term{} }
func (easy) Release(context.Context) error { return nil }
func (easy) Extend(context.Context, time.Duration) (backend.Term, error) {
	return backend.Term{}, nil
}

// trouble is an error of the store or the network.
type trouble struct{ passes, answered bool }

func (e trouble) Error() string  { return "trouble" }
func (e trouble) Passing() bool  { return e.passes }
func (e trouble) Answered() bool { return e.answered }

var (
	lost    = trouble{passes: true}
	loading = trouble{passes: true, answered: true}
	refused = trouble{}
	errOdd  = errors.New("odd")
)

func times(n int, err error) []error {
	all := make([]error, n)
	for i := range all {
		all[i] = err
	}
	return all
}

// The table lists what a store's trouble means for an Acquire. RetryEvery is a
// second, so n tries take n-1 seconds.
func TestTroubleThatMayPassIsWaitedOut(t *testing.T) {
	held := &lock.HeldError{Key: "k"}
	for _, c := range []struct {
		name  string
		wait  time.Duration
		fails []error
		tries int
		says  string // text of the error; empty: the key is acquired
	}{
		{"at the first attempt", time.Minute, times(3, lost), 4, ""},
		{"until the wait ends", 5 * time.Second, times(60, lost), 6, "wait ended"},
		{"never answered, no wait", 0, times(60, lost), 11, "no answer within 10s"},
		{"answered, no wait", 0, times(60, loading), 61, ""},
		{"answered before, no wait", 0, append([]error{held}, times(60, lost)...), 62, ""},
		{"once", -1, times(3, lost), 1, "trouble"},
		{"does not pass", time.Minute, times(3, refused), 1, "trouble"},
		{"does not pass, later", time.Minute, []error{lost, lost, refused}, 3, "trouble"},
		{"does not pass, after the key was held", time.Minute, []error{held, refused}, 2, "trouble"},
		{"not known", time.Minute, times(3, errOdd), 1, "odd"},
		{"not known, later", time.Minute, []error{held, errOdd, errOdd}, 4, ""},
		{"no use", time.Minute, []error{held, errors.Join(backend.ErrNoRetry, errOdd)}, 2, "odd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &ailing{fails: c.fails}
				lease, err := client(t, backend.Of(store), lock.Config{
					Wait: c.wait, RetryEvery: time.Second, RenewEvery: -1,
					Jitter: func(time.Duration) time.Duration { return 0 },
				}).Acquire(t.Context(), "k")
				switch {
				case c.says == "" && err != nil:
					t.Error(err)
				case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
					t.Errorf("%v, want %q", err, c.says)
				}
				if ended := c.says == "wait ended"; errors.Is(err, lock.ErrWaitEnded) != ended ||
					errors.Is(err, lock.ErrHeld) {
					t.Errorf("%v; it should wrap ErrWaitEnded: %v", err, ended)
				}
				if store.tries != c.tries {
					t.Errorf("%d tries, want %d", store.tries, c.tries)
				}
				if lease != nil {
					_ = lease.Release()
				}
			})
		})
	}
}

// Waiting goroutines count the store's silence from when they began to wait.
func TestSilentStoreEndsEveryWaiterTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client(t, backend.Of(&ailing{fails: times(1000, lost)}),
			lock.Config{RetryEvery: time.Second, RenewEvery: -1})
		began, ended := time.Now(), make(chan time.Duration, 3)
		for range 3 {
			go func() {
				if _, err := c.Acquire(t.Context(), "k"); err == nil {
					t.Error("acquired")
				}
				ended <- time.Since(began)
			}()
		}
		for range 3 {
			if d := <-ended; d < 10*time.Second || d > 12*time.Second {
				t.Errorf("ended after %v", d)
			}
		}
	})
}

func TestEndedContextReportsTheStoresTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client(t, backend.Of(&ailing{fails: times(1000, lost)}),
			lock.Config{RetryEvery: time.Second, RenewEvery: -1})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := c.Acquire(ctx, "k")
		var said trouble
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &said) {
			t.Errorf("%v", err)
		}
	})
}

func TestSecondCloseDoesNotCloseTheNextClientsBackend(t *testing.T) {
	store := &ailing{}
	first := newClient(t, backend.Of(store), lock.Config{})
	for range 2 {
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if second, err := lock.New(backend.Of(store), lock.Config{}); err == nil {
			defer second.Close(t.Context())
		}
	}
	if store.closed != 1 {
		t.Errorf("the backend was closed %d times by one Client", store.closed)
	}
	if _, err := lock.New(backend.Of(store), lock.Config{}); err == nil {
		t.Error("two Clients have one backend")
	}
}
