// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

func TestTimesThatDoNotFitNameBothFields(t *testing.T) {
	b := locktest.NewStore(lock.Machine).Backend()
	for _, c := range []struct {
		cfg  lock.Config
		want []string
	}{
		{lock.Config{TTL: -1}, []string{"Config.TTL"}},
		{lock.Config{TTL: 1 << 62}, []string{"Config.TTL", "exceed"}},
		{lock.Config{TTL: time.Second, Margin: time.Second}, []string{"Config.Margin", "Config.TTL"}},
		{lock.Config{TTL: time.Second, Margin: 300 * time.Millisecond, RenewEvery: 700 * time.Millisecond},
			[]string{"Config.RenewEvery", "Config.Margin", "Config.TTL"}},
		{lock.Config{RetryEvery: -time.Second}, []string{"Config.RetryEvery"}},
		{lock.Config{ReleaseWait: -time.Second}, []string{"Config.ReleaseWait"}},
	} {
		_, err := lock.New(b, c.cfg)
		if err == nil {
			t.Errorf("%+v was accepted", c.cfg)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("error %q does not name %s", err, w)
			}
		}
	}
	if _, err := lock.New(nil, lock.Config{}); err == nil {
		t.Error("a nil backend was accepted")
	}
}

// advised is a backend with advice and bounds of its own.
type advised struct{ backend.Backend }

func (advised) Advise(c backend.Settings) backend.Settings {
	if c.TTL == 0 {
		c.TTL = 5 * time.Second
	}
	return c
}

func (advised) Fits(ttl, renewEvery, margin time.Duration) error {
	if ttl > 20*time.Second {
		return fmt.Errorf("TTL %v and Lease do not fit: renewed every %v with margin %v", ttl, renewEvery,
			margin)
	}
	return nil
}

func (advised) Timeout() time.Duration { return 0 }

func TestBackendAdvisesAndRefusesTimes(t *testing.T) {
	b := advised{locktest.NewStore(lock.Machine).Backend().Contract()}
	c := client(t, backend.Of(b), lock.Config{})
	if _, err := c.With(func(cfg *lock.Config) {
		if cfg.TTL != 5*time.Second || cfg.Margin != 500*time.Millisecond {
			t.Errorf("advice was not taken: %+v", cfg)
		}
		cfg.TTL = 21 * time.Second
	}); err == nil || !strings.Contains(err.Error(), "every 7s with margin 2.1s") {
		t.Errorf("With: %v", err)
	}
	if _, err := lock.New(backend.Of(b), lock.Config{TTL: 30 * time.Second}); err == nil {
		t.Error("New accepted a TTL out of bounds")
	}
	if _, err := c.With(func(cfg *lock.Config) { cfg.Clock = clock.NewMock() }); err == nil {
		t.Error("With accepted another clock")
	}
}

func TestWithSharesTheQueueOfItsClient(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		l := acquire(t, c, "k")
		once, err := c.With(func(cfg *lock.Config) { cfg.Wait = -1 })
		if err != nil {
			t.Fatal(err)
		}
		_, err = once.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrHeld)
		if s.Calls("try") != 1 {
			t.Error("it asked the store about a key of its own process")
		}
		release(t, l)
	})
}

// With the same draws a Client acts at the same instants: when a waiter asks,
// and when a lease is renewed.
func TestConfigJitterDecidesTimes(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		var asked []time.Duration
		renewed := make(chan struct{}, 1)
		cfg := lock.Config{TTL: 40 * time.Second, RenewEvery: 10 * time.Second,
			RetryEvery: 200 * time.Millisecond}
		cfg.Jitter = func(most time.Duration) time.Duration {
			asked = append(asked, most)
			return most
		}
		cfg.Hooks.Renewed = func(lock.Event) { renewed <- struct{}{} }
		c := client(t, s.Backend(), cfg)
		s.Seize("k", "somebody", time.Hour)
		time.AfterFunc(310*time.Millisecond, func() { s.Seize("k", "", 0) })
		began := time.Now()
		l := acquire(t, c, "k")
		if d := time.Since(began); d != 450*time.Millisecond {
			t.Errorf("three pauses of 150 ms took %v", d)
		}
		held := time.Now()
		<-renewed
		if d := time.Since(held); d != 9*time.Second {
			t.Errorf("renewed after %v", d)
		}
		release(t, l)
		want := []time.Duration{50 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond,
			time.Second, time.Second}
		if !slices.Equal(asked, want) {
			t.Errorf("drew up to %v, want %v", asked, want)
		}
	})
}

// The margin is the safety parameter. It is derived from the TTL only if the
// caller did not set it.
func TestWithKeepsAMarginThatTheCallerSet(t *testing.T) {
	b := locktest.NewStore(lock.Machine).Backend()
	c := client(t, b, lock.Config{TTL: time.Minute, Margin: 20 * time.Second, RenewEvery: 5 * time.Second})
	brief := func(c *lock.Client, ttl time.Duration) (*lock.Client, error) {
		return c.With(func(cfg *lock.Config) { cfg.TTL = ttl })
	}
	halved, err := brief(c, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // With on a Client made by With still knows that it was set
		if _, err := brief(halved, 20*time.Second); err == nil ||
			!strings.Contains(err.Error(), "Config.Margin (20s)") {
			t.Errorf("a TTL of 20s with a given margin of 20s: %v", err)
		}
		if halved, err = brief(halved, 29*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	// A margin that With sets stays as well; what the caller did not set
	// follows the TTL.
	plain := newClient(t, locktest.NewStore(lock.Machine).Backend(), lock.Config{})
	defer plain.Close(t.Context())
	if _, err := brief(plain, time.Second); err != nil {
		t.Errorf("defaults: %v", err)
	}
	wide, err := plain.With(func(cfg *lock.Config) { cfg.Margin = 5 * time.Second })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := brief(wide, 4*time.Second); err == nil ||
		!strings.Contains(err.Error(), "Config.Margin (5s)") {
		t.Errorf("a margin that With gave: %v", err)
	}
}

// odd is a clock that Go cannot compare.
type odd struct {
	lock.Clock
	_ []int
}

func TestWithAcceptsAClockThatCannotBeCompared(t *testing.T) {
	c := client(t, locktest.NewStore(lock.Machine).Backend(), lock.Config{Clock: odd{Clock: lock.Machine}})
	if _, err := c.With(func(cfg *lock.Config) { cfg.Wait = -1 }); err != nil {
		t.Error(err)
	}
	if _, err := c.With(func(cfg *lock.Config) { cfg.Clock = lock.Machine }); err == nil {
		t.Error("With accepted a clock of another type")
	}
}

func TestKeysOfGetsetlockAreRefused(t *testing.T) {
	c := client(t, locktest.NewStore(lock.Machine).Backend(), lock.Config{})
	for _, key := range []string{"gsl:fence:", "gsl:queue:x", "gsl:probe:ns:id"} {
		if _, err := c.Acquire(t.Context(), key); err == nil ||
			!strings.Contains(err.Error(), "another name") {
			t.Errorf("%s: %v", key, err)
		}
	}
	release(t, acquire(t, c, "k:gsl:"))
}

// A renewal later than planned might be too late.
func TestClientBoundsJitterOutOfBounds(t *testing.T) {
	for _, draws := range []time.Duration{-time.Hour, time.Hour} {
		bubble(t, func(t *testing.T, s *locktest.Store) {
			c := client(t, s.Backend(),
				lock.Config{TTL: 30 * time.Second,
					Jitter: func(time.Duration) time.Duration { return draws }})
			l := acquire(t, c, "k")
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := s.Calls("extend"); n < 5 || n > 7 {
				t.Errorf("drawn %v: %d renewals in a minute", draws, n)
			}
			release(t, l)
		})
	}
}
