// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/benbjohnson/clock"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/modern"
)

// doc: code
// Shop sells under a lock. sellOne sells one piece; it looks at its context.
type Shop struct {
	locks   *lock.Client
	sellOne func(ctx context.Context, sku string) error
}

// Sell sells the pieces of an order one after the other.
func (s *Shop) Sell(ctx context.Context, o Order) error {
	return s.locks.Do(ctx, "stock:"+o.SKU, func(ctx context.Context) error {
		for range o.Quantity {
			if err := s.sellOne(ctx, o.SKU); err != nil {
				return err
			}
		}
		return nil
	})
}

// doc: end

// doc: helpers
// newShop is a Shop on the store. A piece takes a second to sell.
func newShop(t *testing.T, store *locktest.Store, cfg lock.Config) (shop *Shop, sold *int) {
	locks, err := lock.New(store.Full(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return openShop(t, locks)
}

func openShop(t *testing.T, locks *lock.Client) (shop *Shop, sold *int) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := locks.Close(ctx); err != nil {
			t.Errorf("a lease was not released: %v", err)
		}
	})
	sold = new(int)
	return &Shop{locks, func(ctx context.Context, sku string) error {
		select {
		case <-time.After(time.Second):
			*sold++
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}, sold
}

// doc: end

// doc: busy
func TestSellReportsABusyProduct(t *testing.T) {
	store := locktest.NewStore(lock.Machine)
	shop, sold := newShop(t, store, lock.Config{Wait: -1}) // one attempt
	store.Seize("stock:42", "another process", time.Minute)
	if err := shop.Sell(t.Context(), Order{"42", 1}); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("%v; want held by another", err)
	}
	if *sold != 0 {
		t.Errorf("%d pieces sold without the lock", *sold)
	}
}

// doc: end

// doc: lost
func TestSellStopsWhenTheLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time is virtual: the test takes no second
		store := locktest.NewStore(lock.Machine)
		shop, sold := newShop(t, store, lock.Config{})
		time.AfterFunc(3500*time.Millisecond, func() {
			store.Seize("stock:42", "a thief", time.Minute)
		})
		if err := shop.Sell(t.Context(), Order{"42", 10}); !errors.Is(err, lock.ErrLost) {
			t.Errorf("%v; want lost", err)
		}
		if *sold != 3 {
			t.Errorf("%d pieces sold; want 3, those before the loss", *sold)
		}
	})
}

// doc: end

var errRefused = errors.New("OOM command not allowed when used memory > 'maxmemory'")

func TestSellEndsInTimeIfRenewalsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.NewStore(lock.Machine)
		cfg := lock.Config{TTL: 30 * time.Second, Margin: 3500 * time.Millisecond}
		shop, sold := newShop(t, store, cfg)
		store.Order(locktest.Fault{Op: "extend", Err: errRefused}) // each renewal, until store.Mend
		err := shop.Sell(t.Context(), Order{"42", 100})
		if !errors.Is(err, lock.ErrLost) || !errors.Is(err, errRefused) {
			t.Errorf("%v; want lost, and why no renewal succeeded", err)
		}
		if *sold != 26 {
			t.Errorf("%d pieces sold; want 26: trust ends after 26.5 s", *sold)
		}
	})
}

func TestSellSurvivesOneFailedRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.NewStore(lock.Machine)
		shop, sold := newShop(t, store, lock.Config{})
		store.Order(locktest.Fault{Op: "extend", Times: 1, Err: errRefused})
		if err := shop.Sell(t.Context(), Order{"42", 100}); err != nil || *sold != 100 {
			t.Errorf("%d pieces sold, %v", *sold, err)
		}
	})
}

var errAway = errors.New("connection refused")

func TestSellWaitsForAServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.NewStore(lock.Machine)
		shop, sold := newShop(t, store, lock.Config{Wait: 10 * time.Second})
		store.Order(locktest.Fault{Err: errAway, Passes: true}) // no Op: every call
		time.AfterFunc(5*time.Second, store.Mend)
		if err := shop.Sell(t.Context(), Order{"42", 1}); err != nil || *sold != 1 {
			t.Errorf("%d pieces sold, %v", *sold, err)
		}
	})
}

func TestSellSaysThatTheServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.NewStore(lock.Machine)
		shop, _ := newShop(t, store, lock.Config{Wait: 10 * time.Second})
		store.Order(locktest.Fault{Err: errAway, Passes: true})
		err := shop.Sell(t.Context(), Order{"42", 1})
		if !errors.Is(err, lock.ErrWaitEnded) || !errors.Is(err, errAway) || errors.Is(err, lock.ErrHeld) {
			t.Errorf("%v; want the end of the wait and the server's trouble, and not \"held\"", err)
		}
		store.Mend()
	})
}

// doc: silent
func TestSellEndsInTimeIfNothingAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.NewStore(lock.Machine)
		shop, sold := newShop(t, store, lock.Config{TTL: 30 * time.Second})
		silence := make(chan struct{})
		store.Order(locktest.Fault{Op: "extend", Err: errAway, Hold: silence})
		if err := shop.Sell(t.Context(), Order{"42", 100}); !errors.Is(err, lock.ErrLost) || *sold >= 30 {
			t.Errorf("%d pieces sold, %v; want lost before the key ends", *sold, err)
		}
		close(silence)
	})
}

// doc: end

func TestSellLeavesNoKeyAfterALostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.NewStore(lock.Machine)
		shop, _ := newShop(t, store, lock.Config{Wait: -1})
		// The attempt is carried out; its reply does not arrive.
		store.Order(locktest.Fault{Op: "try", Times: 1, Err: errAway, After: true})
		if err := shop.Sell(t.Context(), Order{"42", 1}); !errors.Is(err, errAway) {
			t.Errorf("%v; want what happened to the connection", err)
		}
		synctest.Wait()
		if by := store.Holder("stock:42"); by != "" {
			t.Errorf("the key is held by %q", by)
		}
	})
}

func TestLeaseEndsByTheMockedClock(t *testing.T) {
	mock := clock.NewMock() // github.com/benbjohnson/clock
	store := locktest.NewStore(mock)
	locks, err := lock.New(store.Full(), lock.Config{TTL: time.Minute, RenewEvery: -1, Clock: mock})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close(context.Background())
	lease, err := locks.Acquire(t.Context(), "stock:42")
	if err != nil {
		t.Fatal(err)
	}
	mock.Add(time.Minute)
	if err := lease.Err(); !errors.Is(err, lock.ErrLost) { // reads the clock
		t.Errorf("%v; want lost", err)
	}
	<-lease.Done() // an event, not a duration
	_ = lease.Release()
}

// doc: miniredis
func TestKeyOfACrashedProcessEnds(t *testing.T) {
	server := miniredis.RunT(t)
	once := modern.Options{Lock: lock.Config{Wait: -1}}
	locks, err := modern.Open(t.Context(), "redis://"+server.Addr(), once)
	if err != nil {
		t.Fatal(err)
	}
	shop, sold := openShop(t, locks)
	server.Set("stock:42", "a token whose process crashed")
	server.SetTTL("stock:42", 30*time.Second)
	if err := shop.Sell(t.Context(), Order{"42", 0}); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("%v; want held", err)
	}
	server.FastForward(30 * time.Second) // nothing else ends a key of miniredis
	if err := shop.Sell(t.Context(), Order{"42", 0}); err != nil {
		t.Errorf("%v, %d sold", err, *sold)
	}
}

// doc: end

func TestSellOnARealServer(t *testing.T) {
	address := os.Getenv("TEST_REDIS")
	if address == "" {
		t.Fatal("TEST_REDIS is not set; try: docker run --rm -d -p 6379:6379 redis:8, " +
			"then TEST_REDIS=redis://127.0.0.1:6379 go test")
	}
	locks, err := modern.Open(t.Context(), address, modern.Options{Lock: lock.Config{TTL: 5 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	shop, _ := openShop(t, locks)
	if err := shop.Sell(t.Context(), Order{SKU: t.Name()}); err != nil { // a key of its own
		t.Error(err)
	}
}
