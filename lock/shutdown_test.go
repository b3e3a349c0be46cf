// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// stubborn is a backend whose Release takes its time, whatever its context
// does.
type stubborn struct {
	backend.Backend
	takes time.Duration
	begun atomic.Int32 // releases
}

func (s *stubborn) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := s.Backend.Try(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	return &stubbornGrant{g, s}, nil
}

type stubbornGrant struct {
	backend.Grant
	s *stubborn
}

func (g *stubbornGrant) Release(context.Context) error {
	g.s.begun.Add(1)
	time.Sleep(g.s.takes)
	return errServer
}

// 200 releases have failed and are tried again in the background, two seconds
// each. Close waits for none of them, and none begins after it.
func TestCloseReturnsWhenItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		b := &stubborn{Backend: s.Backend().Contract(), takes: 2 * time.Second}
		c := newClient(t, backend.Of(b), lock.Config{TTL: time.Minute})
		var wg sync.WaitGroup
		for i := range 500 {
			l := acquire(t, c, fmt.Sprint("k", i))
			wg.Go(func() { _ = l.Release() })
		}
		wg.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, c.Close(ctx), context.DeadlineExceeded)
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Errorf("Close took %v of a second", took)
		}
		begun := b.begun.Load()
		time.Sleep(time.Minute) // calls under way end
		if more := b.begun.Load() - begun; more != 0 {
			t.Errorf("%d releases began after Close had returned", more)
		}
	})
}

// The holder of a lost lease may be about to stop its job. If it releases, the
// release is still carried out.
func TestCloseWaitsForALostLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := newClient(t, s.Backend(),
			lock.Config{TTL: 10 * time.Second, Margin: 5 * time.Second, RenewEvery: -1})
		l := acquire(t, c, "k")
		<-l.Done()
		closed := make(chan error, 1)
		go func() { closed <- c.Close(context.Background()) }()
		synctest.Wait()
		if len(closed) != 0 {
			t.Error("Close does not wait for the holder")
		}
		wantErr(t, l.Release(), lock.ErrLost)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if s.Holder("k") != "" {
			t.Error("the key was not given back")
		}
	})
}

// The holder never releases it, and after its TTL there is nothing to release.
func TestCloseForgetsALostLeaseWithItsKey(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := newClient(t, s.Backend(),
			lock.Config{TTL: 10 * time.Second, Margin: 5 * time.Second, RenewEvery: -1})
		began := time.Now()
		<-acquire(t, c, "k").Done()
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("Close waited until %v after the grant, want the TTL of 10s", took)
		}
	})
}

// Close must not wait for the hook that called it.
func TestCloseMayBeCalledByAHook(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		var c *lock.Client
		closed := make(chan error)
		c = newClient(t, s.Backend(),
			lock.Config{Hooks: lock.Hooks{
				Lost: func(lock.Event) { closed <- c.Close(context.Background()) }}})
		l := acquire(t, c, "k")
		s.Seize("k", "thief", time.Minute)
		<-l.Done()
		wantErr(t, l.Release(), lock.ErrLost)
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("Close hangs")
		}
	})
}

// Other leases end on time, and their holders are notified.
func TestBlockedHookDelaysOnlyHooks(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		proceed, lost := make(chan struct{}), make(chan string, 2)
		c := client(t, s.Backend(), lock.Config{
			TTL: 10 * time.Second, Margin: 2 * time.Second, RenewEvery: -1,
			Hooks: lock.Hooks{Lost: func(e lock.Event) { <-proceed; lost <- e.Key }},
		})
		first := acquire(t, c, "first")
		time.Sleep(time.Second)
		second := acquire(t, c, "second")
		<-first.Done()
		select {
		case <-second.Done():
		case <-time.After(time.Second + time.Millisecond):
			t.Error("the second lease has not ended")
		}
		close(proceed)
		if a, b := <-lost, <-lost; a != "first" || b != "second" {
			t.Errorf("hooks reported %s, then %s", a, b)
		}
		if err := errors.Join(first.Release(), second.Release()); !errors.Is(err, lock.ErrLost) {
			t.Error(err)
		}
	})
}

// A hook that never returns must not fill the memory.
func TestClientBoundsCallsThatWaitForAHook(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		proceed := make(chan struct{})
		told := 0
		c := client(t, s.Backend(), lock.Config{Hooks: lock.Hooks{Released: func(lock.Event) {
			<-proceed
			told++
		}}})
		const most = 1 << 16
		for range most + 10 {
			release(t, acquire(t, c, "k"))
		}
		close(proceed)
		synctest.Wait()
		if told > most+1 || told < most {
			t.Errorf("%d calls were kept, want %d", told, most)
		}
	})
}
