// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

func TestCancelledAcquireIsUndoneAndItsCallerReturnsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		never := make(chan struct{})
		s.Order(locktest.Fault{Op: "try", Times: 1, Hold: never, Err: errServer, After: true})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		_, err := c.Acquire(ctx, "k")
		wantErr(t, err, context.Canceled)
		if d := time.Since(began); d != time.Second {
			t.Errorf("returned after %v", d)
		}
		synctest.Wait()
		if h := s.Holder("k"); h != "" {
			t.Errorf("key left to %s", h)
		}
	})
}

func TestLateSetAfterTheCleanUpIsUndone(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{TTL: 30 * time.Second})
		late := make(chan struct{})
		s.Order(locktest.Fault{Op: "try", Times: 1, Err: errServer, Late: late})
		_, err := c.Acquire(t.Context(), "k")
		wantErr(t, err, errServer)
		time.Sleep(10 * time.Second)
		if s.Calls("release") < 2 {
			t.Fatal("the undo was tried only once")
		}
		close(late)
		synctest.Wait()
		if s.Holder("k") == "" {
			t.Fatal("the late command did not arrive: the test is wrong")
		}
		time.Sleep(21 * time.Second) // the attempt's TTL is over, the late command's is not
		if h := s.Holder("k"); h != "" {
			t.Errorf("key left to %s", h)
		}
	})
}

func TestUndoingEndsWithTheTTL(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{TTL: 30 * time.Second})
		s.Order(locktest.Fault{Op: "try", Times: 1, Err: errServer, After: true})
		s.Order(locktest.Fault{Op: "release", Err: errServer})
		_, err := c.Acquire(t.Context(), "k")
		wantErr(t, err, errServer)
		time.Sleep(31 * time.Second)
		n := s.Calls("release")
		if n < 5 || n > 20 {
			t.Errorf("%d attempts to undo in 30 s", n)
		}
		time.Sleep(time.Hour)
		if s.Calls("release") != n {
			t.Error("the undo went on")
		}
	})
}

func TestThousandCancellationsLeaveNoKey(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{TTL: 10 * time.Second})
		for i := range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*time.Millisecond)
			hold := make(chan struct{})
			s.Order(locktest.Fault{Op: "try", Times: 1, Hold: hold, After: i%2 == 0, Err: errServer})
			time.AfterFunc(3*time.Millisecond, func() { close(hold) })
			if l, err := c.Acquire(ctx, "k"); err == nil {
				_ = l.Release()
			}
			cancel()
			s.Mend()
		}
		time.Sleep(11 * time.Second)
		if h := s.Holder("k"); h != "" {
			t.Errorf("key left to %s", h)
		}
	})
}
