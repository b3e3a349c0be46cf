// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

func TestTryAcquireReportsHolderAndTimeLeft(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		s.Seize("k", "somebody", 5*time.Second)
		_, err := c.TryAcquire(t.Context(), "k")
		var held *lock.HeldError
		if !errors.As(err, &held) || held.Owner != "somebody" || held.Left != 5*time.Second {
			t.Fatalf("error %v; want the holder and 5s left", err)
		}
		notErr(t, err, lock.ErrWaitEnded)
	})
}

func TestWaitEndedIsHeldIfThatCameLast(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{Wait: 3 * time.Second})
		s.Seize("k", "somebody", time.Hour)
		began := time.Now()
		_, err := c.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrWaitEnded, lock.ErrHeld)
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("waited %v, want 3s", waited)
		}
		if n := s.Calls("try"); n < 30 || n > 41 {
			t.Errorf("%d attempts in 3 s of 75 to 100 ms", n)
		}
	})
}

func TestWaitEndedNamesTroubleIfThatCameLast(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{Wait: time.Second})
		s.Seize("k", "somebody", time.Hour)
		time.AfterFunc(500*time.Millisecond, func() { s.Order(locktest.Fault{Op: "try", Err: errServer}) })
		_, err := c.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrWaitEnded, errServer)
		notErr(t, err, lock.ErrHeld)
	})
}

func TestAcquireReturnsCauseOfItsEndedContext(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		s.Seize("k", "somebody", time.Hour)
		cause := errors.New("the caller went home")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		_, err := c.Acquire(ctx, "k")
		wantErr(t, err, cause)
		notErr(t, err, lock.ErrWaitEnded)
	})
}

func TestAcquireSendsNothingWithADeadContext(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Acquire(ctx, "k")
		wantErr(t, err, context.Canceled)
		if n := s.Calls("try"); n != 0 {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestGoroutinesQueueInOrderAndOneTalksToTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		first := acquire(t, c, "k")
		order := make(chan int, 10)
		for i := range 10 {
			go func() {
				l := acquire(t, c, "k")
				order <- i
				release(t, l)
			}()
			synctest.Wait() // they must arrive in this order
		}
		if n := s.Calls("try"); n != 1 {
			t.Errorf("%d attempts while a goroutine of this process holds the key", n)
		}
		release(t, first)
		for i := range 10 {
			if got := <-order; got != i {
				t.Errorf("goroutine %d came as number %d", got, i)
			}
		}
		if n := s.Calls("try"); n != 11 {
			t.Errorf("%d attempts for 11 acquisitions", n)
		}
	})
}

func TestQueueGoesOnWhenAWaiterLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		first := acquire(t, c, "k")
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { _, err := c.Acquire(ctx, "k"); left <- err }()
		synctest.Wait()
		got := make(chan *lock.Lease)
		go func() { got <- acquire(t, c, "k") }()
		synctest.Wait()
		cancel()
		wantErr(t, <-left, context.Canceled)
		release(t, first)
		release(t, <-got)
	})
}

func TestWaiterThatLeavesWithItsTurnPassesItOn(t *testing.T) {
	for range 200 {
		bubble(t, func(t *testing.T, s *locktest.Store) {
			c := client(t, s.Full(), lock.Config{})
			first := acquire(t, c, "k")
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if l, err := c.Acquire(ctx, "k"); err == nil {
					_ = l.Release() // its context may have ended first
				}
			}()
			synctest.Wait()
			got := make(chan *lock.Lease)
			go func() { got <- acquire(t, c, "k") }()
			synctest.Wait()
			go cancel()
			go func() { release(t, first) }()
			release(t, <-got)
		})
	}
}

func TestNestedAcquireIsAnErrorNotADeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		a := acquire(t, c, "a")
		b, err := c.Acquire(a.Context(t.Context()), "b")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Acquire(b.Context(a.Context(t.Context())), "a")
		wantErr(t, err, lock.ErrNested)
		release(t, b)
		release(t, a)
	})
}

// The late grant is undone, and the store answers the next attempt in time.
func TestAcquireTriesAgainAfterALateGrant(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{TTL: time.Second})
		hold := make(chan struct{})
		s.Order(locktest.Fault{Op: "try", Times: 1, Hold: hold})
		time.AfterFunc(950*time.Millisecond, func() { close(hold) })
		l := acquire(t, c, "k")
		synctest.Wait()
		if h := s.Holder("k"); h != l.Token() {
			t.Errorf("%s has the key, want the second grant, %s", h, l.Token())
		}
		release(t, l)
		once, err := c.With(func(cfg *lock.Config) { cfg.Wait = -1 })
		if err != nil {
			t.Fatal(err)
		}
		hold = make(chan struct{})
		s.Order(locktest.Fault{Op: "try", Times: 1, Hold: hold})
		time.AfterFunc(950*time.Millisecond, func() { close(hold) })
		_, err = once.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrTooLate)
		synctest.Wait()
		if h := s.Holder("k"); h != "" {
			t.Errorf("key left to %s", h)
		}
	})
}

// tardy is a store that takes longer for each grant than the grant can be
// trusted.
type tardy struct{ backend.Backend }

func (b tardy) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := b.Backend.Try(ctx, key, ttl)
	time.Sleep(ttl)
	return g, err
}

// The TTL is too short for this store, and no waiting mends that, also if the
// key was held at first.
func TestAcquireEndsIfEveryGrantIsLate(t *testing.T) {
	for _, held := range []time.Duration{0, 3 * time.Second} {
		bubble(t, func(t *testing.T, s *locktest.Store) {
			c := client(t, backend.Of(tardy{s.Backend().Contract()}), lock.Config{TTL: time.Second})
			s.Seize("k", "another", held)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := c.Acquire(ctx, "k")
			wantErr(t, err, lock.ErrTooLate)
			notErr(t, err, context.DeadlineExceeded)
		})
	}
}

// It sleeps after the last attempt as well.
func TestPacerCountsSleepsNotTime(t *testing.T) {
	const pause = 100 * time.Millisecond
	for wait, tries := range map[time.Duration]int{10 * time.Second: 101, -1: 1} {
		bubble(t, func(t *testing.T, s *locktest.Store) {
			c := client(t, s.Paced(pause), lock.Config{Wait: wait})
			s.Seize("k", "somebody", time.Hour)
			began := time.Now()
			_, err := c.Acquire(t.Context(), "k")
			wantErr(t, err, lock.ErrWaitEnded, lock.ErrHeld)
			if n, d := s.Calls("try"), time.Since(began); n != tries || d != time.Duration(tries)*pause {
				t.Errorf("a wait of %v: %d attempts in %v, want %d", wait, n, d, tries)
			}
		})
	}
}

func TestCalledWaiterAsksEveryFiveToTenSeconds(t *testing.T) {
	for name, jitter := range map[string]func(time.Duration) time.Duration{
		"soonest": func(most time.Duration) time.Duration { return most },
		"latest":  func(time.Duration) time.Duration { return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				c := client(t, s.Full(), lock.Config{Jitter: jitter})
				s.Seize("k", "other", time.Hour)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Second/2)
				defer cancel()
				_, err := c.Acquire(ctx, "k")
				wantErr(t, err, context.DeadlineExceeded)
				// One waiter without a place in the store's queue, one with a
				// place, and one that polls by time alone.
				if again := s.Calls("try") - 2; again > 12 || again < 6 {
					t.Errorf("asked %d times in a minute", again)
				}
			})
		})
	}
}

func TestLostWatchIsArmedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{})
		s.Seize("k", "somebody", time.Hour)
		time.AfterFunc(300*time.Millisecond, s.Break)
		time.AfterFunc(400*time.Millisecond, func() { s.Seize("k", "", 0) })
		began := time.Now()
		l := acquire(t, c, "k")
		if d := time.Since(began); d != 400*time.Millisecond {
			t.Errorf("acquired after %v", d)
		}
		release(t, l)
	})
}

func TestStoreThatCannotWakeIsPolled(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{})
		s.Order(locktest.Fault{Op: "await", Err: backend.ErrNoWake})
		s.Seize("k", "somebody", time.Hour)
		time.AfterFunc(350*time.Millisecond, func() { s.Seize("k", "", 0) })
		began := time.Now()
		l := acquire(t, c, "k")
		if d := time.Since(began); d > 450*time.Millisecond {
			t.Errorf("acquired after %v", d)
		}
		if n := s.Calls("await"); n != 1 {
			t.Errorf("asked %d times", n)
		}
		release(t, l)
	})
}

func TestPolitenessKeepsThisProcessAwayAfterItsRelease(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{Politeness: 100 * time.Millisecond})
		began := time.Now()
		release(t, acquire(t, c, "k"))
		if l, err := c.TryAcquire(t.Context(), "k"); err != nil {
			t.Errorf("a single attempt should ask at once: %v", err)
		} else {
			release(t, l)
		}
		release(t, acquire(t, c, "k"))
		if d := time.Since(began); d != 100*time.Millisecond {
			t.Errorf("came back after %v", d)
		}
	})
}

func TestFairWaiterThatGivesUpLeavesTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{Wait: time.Second})
		s.Seize("k", "somebody", time.Hour)
		_, err := c.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrWaitEnded)
		synctest.Wait()
		if n := s.Queue("k"); n != 0 {
			t.Errorf("%d places are left in the queue", n)
		}
	})
}

func TestWaiterFindsReleaseBetweenTryAndWatch(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		holder := acquire(t, client(t, s.Full(), lock.Config{}), "k")
		c := client(t, s.Full(), lock.Config{})
		at, reply := make(chan struct{}), make(chan struct{})
		close(at)
		s.Order(locktest.Fault{Op: "try", Times: 1, Hold: at})    // without a place
		s.Order(locktest.Fault{Op: "try", Times: 1, Hold: reply}) // from the place: refused, slowly
		began := time.Now()
		got := c.Request(t.Context(), "k")
		synctest.Wait()
		release(t, holder)
		close(reply)
		r := <-got
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the free key was acquired after %v", waited)
		}
		release(t, r.Lease)
	})
}

func TestWaiterPollsAKeyThatOnlyLooksFree(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		q := s.Full().Contract().(backend.Queuer)
		dead, err := q.Enter(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		s.Seize("k", "somebody", time.Second)
		if _, err := dead.Try(t.Context(), time.Second); err == nil {
			t.Fatal("granted")
		}
		s.Seize("k", "", 0) // free, but the first in the queue never takes it
		c := client(t, s.Full(), lock.Config{RetryEvery: 100 * time.Millisecond})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		before := s.Calls("try")
		if _, err := c.Acquire(ctx, "k"); err == nil {
			t.Error("granted before its turn")
		}
		if n := s.Calls("try") - before; n < 100 || n > 150 {
			t.Errorf("%d attempts in 10 s", n)
		}
		if err := dead.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// bare is a grant that only supports Term and Release.
type bare struct{ term backend.Term }

func (bare) Token() string                 { return "token" }
func (g bare) Term() backend.Term          { return g.term }
func (bare) Release(context.Context) error { return nil }
func (g bare) Extend(context.Context, time.Duration) (backend.Term, error) {
	return backend.Term{}, backend.ErrNotRenewable
}

// slowToArm is a store whose watch takes a while to arm.
type slowToArm struct {
	took time.Duration
	ends time.Time
}

func (s *slowToArm) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	if left := time.Until(s.ends); left > 0 {
		return nil, &lock.HeldError{Key: key, Again: left}
	}
	return bare{backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl}}, nil
}

func (s *slowToArm) Await(context.Context, string, func()) (func(), bool, error) {
	time.Sleep(s.took)
	return func() {}, false, nil
}

func (s *slowToArm) Watch(_ context.Context, gs []backend.Grant, _ []interface{ Touched() }) []error {
	return make([]error, len(gs))
}

func (s *slowToArm) Unwatch(backend.Grant) {}

var _ backend.Waker = (*slowToArm)(nil)

func TestTimesInAnAnswerCountFromTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, _ *locktest.Store) {
		s := &slowToArm{took: 70 * time.Millisecond, ends: time.Now().Add(300 * time.Millisecond)}
		l := acquire(t, client(t, backend.Of(s), lock.Config{RetryEvery: time.Second}), "k")
		if late := time.Since(s.ends); late != 0 {
			t.Errorf("acquired %v after the end of the key", late)
		}
		release(t, l)
	})
}
