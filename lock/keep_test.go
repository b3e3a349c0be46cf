// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// floor is the floor of the tests below, and ttl their TTL.
const floor, floorTTL = 10 * time.Second, 30 * time.Second

// frees waits until the key is free, and returns how long after since that was.
func frees(t *testing.T, s *locktest.Store, since time.Time) time.Duration {
	t.Helper()
	for s.Holder("k") != "" {
		time.Sleep(time.Millisecond)
	}
	return time.Since(since)
}

// after releases a lease with a floor of its own.
func after(keep time.Duration) func(*lock.Lease) error {
	return func(l *lock.Lease) error { return l.ReleaseAfter(keep) }
}

func TestReleasedKeyStaysTakenForItsFloor(t *testing.T) {
	for _, c := range []struct {
		job, frees time.Duration
		release    func(*lock.Lease) error
	}{
		{10 * time.Millisecond, floor, (*lock.Lease).Release},
		{floor - time.Second, floor, (*lock.Lease).Release},
		{floor + time.Second, floor + time.Second, (*lock.Lease).Release},
		{3 * floorTTL, 3 * floorTTL, (*lock.Lease).Release},
		{time.Second, time.Second, after(0)},
		{time.Second, 20 * time.Second, after(20 * time.Second)},
		{time.Second, time.Hour, after(time.Hour)},
	} {
		bubble(t, func(t *testing.T, s *locktest.Store) {
			cl := client(t, s.Full(), lock.Config{TTL: floorTTL, KeepFor: floor, Margin: -1})
			l, began := acquire(t, cl, "k"), time.Now()
			time.Sleep(c.job)
			if err := c.release(l); err != nil {
				t.Fatal(err)
			}
			wantErr(t, l.Err(), lock.ErrReleased)
			var held *lock.HeldError
			next, err := cl.TryAcquire(t.Context(), "k")
			if left := c.frees - c.job; left > 0 && (!errors.As(err, &held) || held.Left != left) {
				t.Errorf("a job of %v: waiters hear %v, want %v left", c.job, err, left)
			}
			if err == nil {
				_ = next.ReleaseAfter(0)
			}
			if got := frees(t, s, began); got != c.frees {
				t.Errorf("a job of %v: free after %v, want %v", c.job, got, c.frees)
			}
		})
	}
}

// Three schedulers start a job of 10 ms every ten seconds, each by its own
// clock, up to two seconds wrong, and up to 200 ms late.
func TestFloorMakesEachTickRunOnce(t *testing.T) {
	const period, ticks = 10 * time.Second, 1000
	keep, err := lock.Floor(period, 4*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for keep, want := range map[time.Duration]int64{keep: ticks, 0: 3 * ticks} {
		bubble(t, func(t *testing.T, s *locktest.Store) {
			var runs atomic.Int64
			var work sync.WaitGroup
			for i, wrong := range []time.Duration{-1900 * time.Millisecond, 0, 1900 * time.Millisecond} {
				cl := client(t, s.Full(), lock.Config{KeepFor: keep})
				draw := rand.New(rand.NewPCG(34, uint64(i)))
				work.Go(func() {
					began := time.Now().Add(period + wrong)
					for n := range ticks {
						late := time.Duration(draw.Int64N(int64(200 * time.Millisecond)))
						time.Sleep(time.Until(began.Add(time.Duration(n)*period + late)))
						l, err := cl.TryAcquire(t.Context(), "job")
						if errors.Is(err, lock.ErrHeld) {
							continue
						}
						if err != nil {
							t.Error(err)
							return
						}
						runs.Add(1)
						time.Sleep(10 * time.Millisecond)
						release(t, l)
					}
				})
			}
			work.Wait()
			if runs.Load() != want {
				t.Errorf("a floor of %v: %d runs of %d ticks, want %d", keep, runs.Load(), ticks, want)
			}
		})
	}
}

// Nothing runs in the process for the floor.
func TestFloorOutlivesItsClient(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		cl := newClient(t, s.Full(), lock.Config{TTL: floorTTL, KeepFor: floor, Margin: -1})
		began := time.Now()
		release(t, acquire(t, cl, "k"))
		if err := cl.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := frees(t, s, began); got != floor {
			t.Errorf("free after %v", got)
		}
	})
}

// The undo of a release that was not confirmed keeps the floor too.
func TestFloorOutlivesALostReply(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		bubble(t, func(t *testing.T, s *locktest.Store) {
			cl := client(t, s.Full(), lock.Config{TTL: floorTTL, KeepFor: floor, Margin: -1})
			l, began := acquire(t, cl, "k"), time.Now()
			s.Order(locktest.Fault{Op: "release", Times: 3, Err: errServer, After: arrives})
			wantErr(t, l.Release(), errServer)
			if got := frees(t, s, began); got != floor {
				t.Errorf("the release arrives %v: free after %v", arrives, got)
			}
		})
	}
}

// A waiter of the same process gets the key when the floor is over, and never
// by a hand-over: that would begin with a part of a TTL.
func TestFlooredKeyIsNotHandedOver(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		cl := client(t, s.Sharing(), lock.Config{TTL: floorTTL, KeepFor: floor, Margin: -1})
		quick, err := cl.With(func(c *lock.Config) { c.KeepFor = 0 })
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			key            string
			holder, waiter *lock.Client
			least          time.Duration
		}{{"floored holder", cl, quick, floor}, {"floored waiter", quick, cl, 0}} {
			began := time.Now()
			l, next := acquire(t, c.holder, c.key), make(chan *lock.Lease)
			go func() { next <- acquire(t, c.waiter, c.key) }()
			time.Sleep(time.Second)
			token := l.Token()
			release(t, l)
			l = <-next
			waited := time.Since(began)
			if waited < c.least || waited > c.least+time.Second || l.Token() == token {
				t.Errorf("%s: after %v; same token: %v", c.key, waited, l.Token() == token)
			}
			if err := l.ReleaseAfter(0); err != nil {
				t.Error(err)
			}
		}
	})
}

// A lease that no caller of Request took ran no job.
func TestRequestThatNobodyReceivesKeepsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		cl := client(t, s.Full(), lock.Config{TTL: floorTTL, KeepFor: floor})
		ctx, cancel := context.WithCancel(t.Context())
		out := cl.Request(ctx, "k")
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		wantErr(t, (<-out).Err, context.Canceled)
		if s.Holder("k") != "" {
			t.Error("the key stays taken")
		}
	})
}

// fast is a clock that runs ahead of the store's by a tenth, and whose wall
// clock is stepped.
type fast struct{ twoWay }

func (f *fast) Elapsed() time.Duration { return f.twoWay.Elapsed() * 11 / 10 }
func (f *fast) Now() time.Time         { return f.twoWay.Now().Add(f.Elapsed() - f.twoWay.Elapsed()) }
func (f *fast) After(d time.Duration) <-chan time.Time {
	return time.After(d*10/11 + 1) // rounded up: a scheduler that is woken early asks again
}

// Margin allows the clock to run ahead of the store's by a tenth of a TTL in
// each TTL. The floor is no shorter for that, nor for a step of the wall clock.
func TestFloorIsNotShortenedByTheClientsClock(t *testing.T) {
	for _, step := range []time.Duration{0, time.Second, -time.Hour} {
		bubble(t, func(t *testing.T, s *locktest.Store) {
			clock := &fast{twoWay{began: time.Now()}}
			cl := client(t, s.Full(), lock.Config{TTL: floorTTL, KeepFor: floor, Clock: clock})
			l, began := acquire(t, cl, "k"), time.Now()
			time.Sleep(floor / 2)
			clock.step(step)
			release(t, l)
			if got := frees(t, s, began); got < floor || got > floor+floor/10 {
				t.Errorf("a step of %v: free after %v", step, got)
			}
		})
	}
}

func TestNewRefusesAFloorThatCannotHold(t *testing.T) {
	for words, c := range map[string]struct {
		cfg lock.Config
		b   func(*locktest.Store) backend.Store
	}{
		"Config.KeepFor is -1s": {lock.Config{KeepFor: -time.Second}, (*locktest.Store).Full},
		"(31s) must not exceed Config.TTL (": {
			lock.Config{KeepFor: 31 * time.Second}, (*locktest.Store).Full},
		"Config.KeepFor: the backend, a *locktest.plain, cannot keep a key taken": {
			lock.Config{KeepFor: time.Second}, (*locktest.Store).Backend},
	} {
		bubble(t, func(t *testing.T, s *locktest.Store) {
			if _, err := lock.New(c.b(s), c.cfg); err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%v; want %q", err, words)
			}
		})
	}
}

// A floor that cannot be kept must not free the key: the job would run twice.
func TestReleaseAfterThatIsRefusedKeepsTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		l := acquire(t, client(t, s.Backend(), lock.Config{}), "k")
		wantErr(t, l.ReleaseAfter(time.Second), errors.ErrUnsupported)
		notErr(t, l.ReleaseAfter(-time.Second), errors.ErrUnsupported)
		if l.Err() != nil || s.Holder("k") == "" {
			t.Errorf("after a refusal: %v", l.Err())
		}
		if err := l.ReleaseAfter(0); err != nil || s.Holder("k") != "" {
			t.Errorf("without a floor: %v", err)
		}
	})
}

func TestFloorFitsBetweenSpreadAndPeriod(t *testing.T) {
	for _, c := range []struct{ period, spread, want time.Duration }{
		{time.Minute, time.Second, 2 * time.Second},
		{time.Second, 400 * time.Millisecond, 500 * time.Millisecond},
		{time.Second, 401 * time.Millisecond, 0},
		{time.Second, 0, 0},
		{0, -time.Second, 0},
	} {
		got, err := lock.Floor(c.period, c.spread)
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("Floor(%v, %v) = %v, %v; want %v", c.period, c.spread, got, err, c.want)
		}
	}
}
