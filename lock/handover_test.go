// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
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

// relay lets n goroutines take the key after the first lease, in order, and
// returns their fences.
func relay(t *testing.T, c *lock.Client, n int, held time.Duration) []int64 {
	first := acquire(t, c, "k")
	var wg sync.WaitGroup
	fences := make(chan int64, n)
	for range n {
		wg.Go(func() {
			l := acquire(t, c, "k")
			f, _ := l.Fence()
			fences <- f
			time.Sleep(held)
			if err := l.Err(); err != nil {
				t.Error(err)
			}
			release(t, l)
		})
	}
	synctest.Wait()
	release(t, first)
	wg.Wait()
	f, _ := first.Fence()
	all := []int64{f}
	for range n {
		all = append(all, <-fences)
	}
	return all
}

func increasing(t *testing.T, fences []int64) {
	t.Helper()
	for i := 1; i < len(fences); i++ {
		if fences[i] <= fences[i-1] {
			t.Errorf("fences %v do not increase", fences)
			return
		}
	}
}

func TestSharingSendsNothingAndIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Sharing(), lock.Config{LocalHandOvers: 4})
		increasing(t, relay(t, c, 14, 0))
		if tries, releases := s.Calls("try"), s.Calls("release"); tries != 3 || releases != 3 {
			t.Errorf("%d attempts, %d releases for 15 leases in fives", tries, releases)
		}
	})
}

func TestSharingEndsWithTheReservedNumbers(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Sharing(), lock.Config{})
		increasing(t, relay(t, c, 15, 0))
		if tries := s.Calls("try"); tries != 2 {
			t.Errorf("%d attempts for 16 leases of eight numbers each", tries)
		}
	})
}

func TestHandOversEndAfterTheirTime(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Sharing(), lock.Config{HandOverFor: 100 * time.Millisecond})
		relay(t, c, 20, 50*time.Millisecond)
		if tries := s.Calls("try"); tries < 5 {
			t.Errorf("others got %d chances in a second", tries)
		}
	})
}

func TestSharedLeaseIsRenewedByItsNextHolder(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Sharing(), lock.Config{TTL: 9 * time.Second, HandOverFor: time.Hour})
		relay(t, c, 5, time.Minute)
		if s.Calls("try") != 1 || s.Calls("extend") < 90 {
			t.Errorf("%d attempts, %d renewals in five minutes", s.Calls("try"), s.Calls("extend"))
		}
	})
}

func TestLeaseWithLittleTrustLeftIsNotShared(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Sharing(), lock.Config{
			TTL: 10 * time.Second, RenewEvery: 8500 * time.Millisecond, HandOverFor: time.Hour,
			Jitter: func(time.Duration) time.Duration { return 0 }})
		first := acquire(t, c, "k")
		next := make(chan *lock.Lease)
		go func() { next <- acquire(t, c, "k") }()
		time.Sleep(8 * time.Second) // the lease has not been renewed yet
		release(t, first)
		l := <-next
		if left := time.Until(l.Until()); left != 9*time.Second {
			t.Errorf("the next lease is trusted for %v", left)
		}
		release(t, l)
	})
}

// The renewal would end when another lease holds the key.
func TestLeaseIsNotSharedDuringItsRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Sharing(), lock.Config{TTL: 9 * time.Second, HandOverFor: time.Hour})
		first := acquire(t, c, "k")
		next := make(chan *lock.Lease)
		go func() { next <- acquire(t, c, "k") }()
		reply := make(chan struct{})
		s.Order(locktest.Fault{Op: "extend", Times: 1, Hold: reply})
		time.Sleep(3100 * time.Millisecond) // a third of the TTL, and less than half of the trust
		if s.Calls("extend") != 1 {
			t.Fatal("no renewal is under way: the test is wrong")
		}
		release(t, first)
		l := <-next
		if s.Calls("release") != 1 || s.Calls("try") != 2 {
			t.Errorf("%d releases, %d attempts", s.Calls("release"), s.Calls("try"))
		}
		close(reply)
		synctest.Wait()
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		release(t, l)
	})
}

// A holder that does not renew must get a whole TTL. A holder with a greater
// margin than the one before must get that margin.
func TestNextHolderInheritsTrustOnlyIfItFits(t *testing.T) {
	const ttl = 10 * time.Second
	for name, c := range map[string]struct {
		change func(*lock.Config)
		until  time.Duration // end of trust, counted from the release
	}{
		"like the holder":  {func(*lock.Config) {}, 7 * time.Second},
		"with less margin": {func(c *lock.Config) { c.Margin = time.Millisecond }, 7 * time.Second},
		"without renewal":  {func(c *lock.Config) { c.RenewEvery = -1 }, 9 * time.Second},
		"with more margin": {func(c *lock.Config) { c.Margin = 4 * time.Second }, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				one := client(t, s.Sharing(),
					lock.Config{TTL: ttl, Margin: time.Second, HandOverFor: time.Hour})
				other, err := one.With(c.change)
				if err != nil {
					t.Fatal(err)
				}
				first := acquire(t, one, "k")
				next := make(chan *lock.Lease)
				go func() { next <- acquire(t, other, "k") }()
				time.Sleep(2 * time.Second)
				release(t, first)
				l := <-next
				if left := time.Until(l.Until()); left != c.until {
					t.Errorf("trusted for %v; want %v", left, c.until)
				}
				release(t, l)
			})
		})
	}
}

func TestHandOverToAWaiterThatLeftPassesTheTurnOn(t *testing.T) {
	for i := range 50 {
		bubble(t, func(t *testing.T, s *locktest.Store) {
			c := client(t, s.Sharing(), lock.Config{})
			first := acquire(t, c, "k")
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan error)
			go func() {
				l, err := c.Acquire(ctx, "k")
				if err == nil {
					_ = l.Release() // its context may have ended first
				}
				gone <- err
			}()
			synctest.Wait()
			next := make(chan *lock.Lease)
			go func() { next <- acquire(t, c, "k") }()
			synctest.Wait()
			go func() { release(t, first) }()
			if i%2 == 0 {
				synctest.Wait() // the waiter has the lease
			}
			cancel()
			<-gone
			began := time.Now()
			release(t, <-next)
			if waited := time.Since(began); waited > 5*time.Second {
				t.Errorf("the next waited for %v: the grant for the waiter that left was not undone", waited)
			}
		})
	}
}

// gate stops the first goroutine that passes it after it was shut.
type gate struct {
	shut     atomic.Bool
	at, open chan struct{}
}

func newGate() *gate { return &gate{at: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) pass() {
	if g.shut.CompareAndSwap(true, false) {
		close(g.at)
		<-g.open
	}
}

// gated is a context that stops a goroutine at a gate when it calls Err.
type gated struct {
	context.Context
	gate *gate
}

func (c *gated) Err() error {
	c.gate.pass()
	return c.Context.Err()
}

func TestLeaseForAnEndedContextPassesItsTurnOnOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Sharing(), lock.Config{})
		cause := errors.New("request over")
		inner, cancel := context.WithCancelCause(t.Context())
		ctx := &gated{inner, newGate()}
		first := acquire(t, c, "k")
		second := make(chan error, 1)
		go func() {
			_, err := c.Acquire(ctx, "k")
			second <- err
		}()
		var next [2]chan *lock.Lease
		for i := range next {
			synctest.Wait() // the waiters queue in this order
			next[i] = make(chan *lock.Lease, 1)
			go func() { next[i] <- acquire(t, c, "k") }()
		}
		synctest.Wait()
		ctx.gate.shut.Store(true)
		release(t, first)
		<-ctx.gate.at // the second waiter has its lease and checks its context
		cancel(cause)
		close(ctx.gate.open)
		wantErr(t, <-second, cause)
		third := <-next[0]
		time.Sleep(time.Second)
		if s.Queue("k") != 0 || len(next[1]) != 0 {
			t.Error("the fourth waiter got its turn alongside the third")
		}
		if s.Holder("k") != third.Token() || third.Token() == first.Token() {
			t.Errorf("the key is held by %q, the third has %q and the first had %q", s.Holder("k"),
				third.Token(), first.Token())
		}
		release(t, third)
		release(t, <-next[1])
	})
}

// shy is a backend whose grants leave their key to other clients as the test
// says.
type shy struct {
	backend.Backend
	*gaps // state of the store, shared by several backends
}

type gaps struct {
	owes time.Duration // gap at each release if the Client sets no Politeness

	mu    sync.Mutex
	until map[string]time.Time // the end of the gap of each key that was left
	left  []time.Duration      // gaps in order
	looks int
	fails bool // Leave returns an error
}

func newShy(s *locktest.Store, owes time.Duration) *shy {
	return &shy{Backend: s.Backend().Contract(), gaps: &gaps{owes: owes}}
}

type shyGrant struct {
	backend.Grant
	b   *shy
	key string
}

func (g shyGrant) YieldFor(wish time.Duration) time.Duration {
	if wish > 0 {
		return wish
	}
	return g.b.owes
}

func (g shyGrant) ReleaseTo(ctx context.Context, gap time.Duration) error {
	g.b.mu.Lock()
	defer g.b.mu.Unlock()
	if g.b.fails {
		return errors.New("the store is away")
	}
	if g.b.until == nil {
		g.b.until = map[string]time.Time{}
	}
	g.b.until[g.key] = time.Now().Add(gap)
	g.b.left = append(g.b.left, gap)
	return g.Grant.Release(ctx)
}

func (g shyGrant) Share() (backend.Grant, bool) { return g, true }

func (g shyGrant) Recheck(context.Context) time.Duration {
	g.b.mu.Lock()
	defer g.b.mu.Unlock()
	if g.b.looks++; g.b.looks == 3 {
		return 0
	}
	return 10 * time.Millisecond
}

func (g *gaps) looked() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.looks
}

func (b *shy) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	b.mu.Lock()
	left := time.Until(b.until[key])
	b.mu.Unlock()
	if left > 0 {
		return nil, &lock.HeldError{Key: key, Left: left, Vacant: true}
	}
	g, err := b.Backend.Try(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	return shyGrant{g, b, key}, nil
}

func TestReleaseLeavesKeyAsGrantOrClientSays(t *testing.T) {
	const wish, owed = 100 * time.Millisecond, 40 * time.Millisecond
	for _, c := range []struct{ wish, owes, want time.Duration }{
		{0, 0, 0}, {0, owed, owed}, {wish, owed, wish}, {wish, 0, wish}, {-1, owed, 0},
	} {
		bubble(t, func(t *testing.T, s *locktest.Store) {
			b := newShy(s, c.owes)
			mine := client(t, backend.Of(b), lock.Config{Politeness: c.wish})
			other := client(t, backend.Of(&shy{Backend: s.Backend().Contract(), gaps: b.gaps}), lock.Config{})
			began := time.Now()
			release(t, acquire(t, mine, "k"))
			first, err := other.TryAcquire(t.Context(), "k") // the gap holds for every process
			if err != nil {
				t.Fatal(err)
			}
			away := time.Since(began)
			if short := away < c.want; short || away > c.want+2*time.Millisecond {
				t.Errorf("wish %v, owed %v: away for %v, want %v", c.wish, c.owes, away, c.want)
			}
			b.owes = 0
			release(t, first)
		})
	}
}

// A hand-over is no release. If the key must be left to other clients, the next
// goroutine of this process also waits until the gap ends.
func TestReleaseLeavesKeyEvenIfAGoroutineWaits(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		b := newShy(s, 100*time.Millisecond)
		c := client(t, backend.Of(b), lock.Config{})
		first := acquire(t, c, "k")
		done := make(chan *lock.Lease)
		go func() { done <- acquire(t, c, "k") }()
		synctest.Wait()
		began := time.Now()
		release(t, first)
		second := <-done
		if away := time.Since(began); away < 100*time.Millisecond {
			t.Errorf("taken again after %v", away)
		}
		b.owes = 0
		release(t, second)
	})
}

// A wait that is shorter than the rest of the gap ends after the gap: only then
// is it known whether the key is held.
func TestShortWaitOutlastsTheGapOfALeftKey(t *testing.T) {
	for _, wait := range []time.Duration{-1, time.Millisecond, 99 * time.Millisecond, time.Second} {
		bubble(t, func(t *testing.T, s *locktest.Store) {
			b := newShy(s, 100*time.Millisecond)
			c := client(t, backend.Of(b), lock.Config{Wait: wait})
			release(t, acquire(t, c, "k"))
			l, err := c.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatalf("wait %v: %v", wait, err)
			}
			b.owes = 0
			release(t, l)
		})
	}
}

// The next holder may leave the key in the same way. An attempt waits out one
// gap.
func TestSingleAttemptWaitsOutOneGap(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		b := newShy(s, 100*time.Millisecond)
		c := client(t, backend.Of(b), lock.Config{})
		release(t, acquire(t, c, "k"))
		began := time.Now()
		go func() {
			time.Sleep(50 * time.Millisecond)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.until["k"] = time.Now().Add(100 * time.Millisecond)
		}()
		_, err := c.TryAcquire(t.Context(), "k")
		var held *lock.HeldError
		if !errors.As(err, &held) || !held.Vacant || time.Since(began) != 101*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if want := `key "k": nobody holds it; it is left to old clients for 49 ms`; !strings.HasSuffix(
			err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := c.TryAcquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that ends in the gap: %v", err)
		}
	})
}

// An undo leaves no gap: the key had no holder, so no client is owed a turn.
// Nor does a lease that was lost.
func TestKeyIsNotLeftByAnUndoOrALostLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		b := newShy(s, 100*time.Millisecond)
		b.fails = true
		c := client(t, backend.Of(b), lock.Config{TTL: time.Second, RenewEvery: -1})
		if err := acquire(t, c, "undone").Release(); err == nil {
			t.Error("a release that failed says that it did not")
		}
		synctest.Wait()
		b.fails = false
		lost := acquire(t, c, "lost")
		time.Sleep(time.Second)
		if err := lost.Release(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("released after its end: %v", err)
		}
		if len(b.left) != 0 {
			t.Errorf("left for %v", b.left)
		}
		for _, key := range []string{"undone", "lost"} {
			if _, err := c.TryAcquire(t.Context(), key); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	})
}

func TestClientLooksAtALeftKeyUntilTheGapEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		b := newShy(s, 100*time.Millisecond)
		c := client(t, backend.Of(b), lock.Config{})
		release(t, acquire(t, c, "k"))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if n := b.looked(); n != 1 {
			t.Errorf("%d looks soon after", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := b.looked(); n != 3 {
			t.Errorf("%d looks", n)
		}
	})
}
