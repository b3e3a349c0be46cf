package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// TestAnAttemptThatWinsWhenCloseCannotWaitAnyMoreHasNoLease: Close has ended all leases by then, and
// would wait for this one as long as its holder likes.
func TestAnAttemptThatWinsWhenCloseCannotWaitAnyMoreHasNoLease(t *testing.T) {
	for _, op := range []string{"try", "pass"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				c, err := lock.New(s.Full(), lock.Config{TTL: time.Minute, LocalHandOvers: -1})
				if err != nil {
					t.Fatal(err)
				}
				won := make(chan struct{})
				s.Order(locktest.Fault{Op: op, Times: 1, Hold: won})
				if op == "pass" {
					l := acquire(t, c, "k")
					time.AfterFunc(time.Second, func() { _ = l.Release() })
				}
				ended := make(chan error, 1)
				go func() {
					l, err := c.Acquire(t.Context(), "k")
					if err == nil {
						t.Error("a lease, and Close waits for it")
						_ = l.Release()
					}
					ended <- err
				}()
				time.Sleep(2 * time.Second) // the attempt is under way
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				closed := make(chan error, 1)
				go func() { closed <- c.Close(ctx) }()
				synctest.Wait() // it has ended all leases, and waits for the attempt
				close(won)
				wantErr(t, <-ended, lock.ErrClosed)
				<-closed
				if h := s.Holder("k"); h != "" {
					t.Errorf("the key is left to %s", h)
				}
			})
		})
	}
}
