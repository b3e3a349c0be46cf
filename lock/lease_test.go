// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

func TestHeldLeaseIsRenewedAndTrusted(t *testing.T) {
	for name, backend := range backends {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				var told log
				c := client(t, backend(s), lock.Config{TTL: 10 * time.Second, Hooks: told.hooks()})
				l := acquire(t, c, "k")
				time.Sleep(5 * time.Minute) // virtual: the holder's job
				if err := l.Err(); err != nil {
					t.Fatal(err)
				}
				if s.Holder("k") != l.Token() {
					t.Error("not held in the store")
				}
				if n := told.count("renewed"); n < 89 || n > 102 {
					t.Errorf("renewed %d times in 5 min at every 3 to 3.3 s", n)
				}
				release(t, l)
				if s.Holder("k") != "" {
					t.Error("still held")
				}
			})
		})
	}
}

var backends = map[string]func(*locktest.Store) backend.Store{
	"plain": (*locktest.Store).Backend,
	"full":  (*locktest.Store).Full,
}

func TestLeasesTakenTogetherAreExtendedTogether(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{TTL: 10 * time.Second})
		var ls []*lock.Lease
		for i := range 1000 {
			ls = append(ls, acquire(t, c, string(rune('a'+i))))
		}
		time.Sleep(60 * time.Second)
		if n := s.Calls("extend"); n > 60*30 {
			t.Errorf("%d messages for 18,000 renewals", n)
		}
		for _, l := range ls {
			if err := l.Err(); err != nil {
				t.Fatal(err)
			}
			release(t, l)
		}
	})
}

// counted is a backend that records the most leases extended in one call.
type counted struct {
	backend.Backend
	most atomic.Int64
}

func (b *counted) ExtendAll(ctx context.Context, gs []backend.Grant, ttl time.Duration) ([]backend.Term,
	[]error) {
	for n := int64(len(gs)); ; {
		most := b.most.Load()
		if n <= most || b.most.CompareAndSwap(most, n) {
			return b.Backend.(backend.BatchExtender).ExtendAll(ctx, gs, ttl)
		}
	}
}

func TestCallsExtendABoundedNumberOfLeases(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		b := &counted{Backend: s.Full().Contract()}
		c := client(t, backend.Of(b), lock.Config{TTL: 10 * time.Second})
		var held []*lock.Lease
		for i := range 20_000 {
			held = append(held, acquire(t, c, fmt.Sprint(i)))
		}
		time.Sleep(10 * time.Second)
		if n := b.most.Load(); n > 1024 || n < 512 {
			t.Errorf("%d leases in one call", n)
		}
		for _, l := range held {
			release(t, l)
		}
	})
}

func TestTrustEndsOnTimeWhenNoPacketComesBack(t *testing.T) {
	for name, backend := range backends {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				var told log
				c := client(t, backend(s),
					lock.Config{TTL: 10 * time.Second, Margin: time.Second, Hooks: told.hooks()})
				l := acquire(t, c, "k")
				began := time.Now()
				silent := make(chan struct{})
				s.Order(locktest.Fault{Op: "extend", Hold: silent, Err: errServer})
				<-l.Done()
				if d := time.Since(began); d != 9*time.Second {
					t.Errorf("ended after %v, want TTL less Margin", d)
				}
				wantErr(t, context.Cause(l.Context(t.Context())), lock.ErrLost)
				wantErr(t, l.Err(), lock.ErrLost)
				synctest.Wait() // a hook is called a moment later
				if told.count("lost") != 1 {
					t.Error("Hooks.Lost was not called")
				}
				close(silent)
				wantErr(t, l.Release(), lock.ErrLost)
				synctest.Wait()
				if s.Holder("k") != "" {
					t.Error("what was left of it was not given back")
				}
			})
		})
	}
}

func TestSlowRenewalDoesNotExtendTrust(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{
			TTL: 10 * time.Second, Margin: time.Second, RenewEvery: 3 * time.Second})
		l := acquire(t, c, "k")
		hold := make(chan struct{})
		s.Order(locktest.Fault{Op: "extend", Times: 1, Hold: hold})
		s.Order(locktest.Fault{Op: "extend", Err: errServer}) // the renewals after it
		time.AfterFunc(8*time.Second, func() { close(hold) })
		time.Sleep(8*time.Second + time.Millisecond)
		synctest.Wait()
		sent := l.Until().Add(-9 * time.Second)
		if age := time.Since(sent); age < 5*time.Second {
			t.Errorf("trust counts from %v ago; the renewal was sent at least 5 s ago", age)
		}
		s.Mend()
		release(t, l)
	})
}

func TestRenewalThatFailsOnceIsTriedAgainInTime(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		var told log
		c := client(t, s.Backend(), lock.Config{TTL: 9 * time.Second, Hooks: told.hooks()})
		l := acquire(t, c, "k")
		s.Order(locktest.Fault{Op: "extend", Times: 3, Err: errServer})
		time.Sleep(time.Minute)
		if l.Err() != nil || told.count("renew failed") != 3 {
			t.Errorf("err %v, %d failures reported", l.Err(), told.count("renew failed"))
		}
		wantErr(t, told.event("renew failed").Cause, errServer)
		release(t, l)
	})
}

func TestLossReportedByTheStoreCancelsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{TTL: 9 * time.Second})
		l := acquire(t, c, "k")
		s.Seize("k", "thief", time.Hour)
		began := time.Now()
		<-l.Done()
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("ended after %v, want at the next renewal", d)
		}
		wantErr(t, l.Release(), lock.ErrLost)
		if s.Holder("k") != "thief" {
			t.Error("the thief's key was touched")
		}
	})
}

func TestWatchedLeaseEndsAtTheTheft(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{TTL: 9 * time.Second})
		l := acquire(t, c, "k")
		for _, at := range []time.Duration{time.Second, 20 * time.Second} { // before and after renewals
			time.Sleep(at)
			if l.Err() != nil {
				t.Fatal(l.Err())
			}
		}
		s.Seize("k", "thief", time.Hour)
		synctest.Wait()
		select {
		case <-l.Done():
		default:
			t.Error("the lease has not ended")
		}
		wantErr(t, l.Release(), lock.ErrLost)
	})
}

func TestTheftDuringArmingOfTheWatchIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{TTL: 9 * time.Second, RenewEvery: -1})
		reply := make(chan struct{})
		s.Order(locktest.Fault{Op: "watch", Times: 1, Hold: reply})
		l := acquire(t, c, "k")
		time.Sleep(time.Second)
		s.Seize("k", "thief", time.Hour) // the watch is armed; its reply is on the way
		close(reply)
		synctest.Wait()
		wantErr(t, l.Err(), lock.ErrLost)
		_ = l.Release()
	})
}

func TestHolderIsWarnedOnceBeforeTheLoss(t *testing.T) {
	for name, order := range map[string]func(*locktest.Store) (mend func()){
		"failing": func(s *locktest.Store) func() {
			s.Order(locktest.Fault{Op: "extend", Err: errServer})
			return s.Mend
		},
		"silent": func(s *locktest.Store) func() {
			silent := make(chan struct{})
			s.Order(locktest.Fault{Op: "extend", Times: 1, Hold: silent, Err: errServer})
			return func() { close(silent) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				var told log
				c := client(t, s.Full(), lock.Config{TTL: 30 * time.Second, Hooks: told.hooks()})
				l := acquire(t, c, "k")
				time.Sleep(time.Minute)
				if n := told.count("endangered"); n != 0 {
					t.Fatalf("warned %d times while all is well", n)
				}
				mend := order(s)
				for range 190 { // trust ends 27 s after the last renewal
					if time.Sleep(100 * time.Millisecond); told.count("endangered") > 0 {
						break
					}
				}
				if told.count("endangered") != 1 || l.Err() != nil {
					t.Errorf("hooks reported %v, lease %v", told.events, l.Err())
				}
				if e := told.event("endangered"); e.Until != l.Until() ||
					name == "failing" && !errors.Is(e.Cause, errServer) {
					t.Errorf("the hook got %+v", e)
				}
				mend()
				time.Sleep(time.Minute)
				if told.count("endangered") != 1 || l.Err() != nil {
					t.Errorf("after the store was mended: hooks reported %v, lease %v", told.events, l.Err())
				}
				release(t, l)
			})
		})
	}
}

func TestShortLeaseIsNotWatched(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{})
		for range 100 {
			release(t, acquire(t, c, "k"))
		}
		if n := s.Calls("watch") + s.Calls("extend") + s.Calls("await"); n != 0 {
			t.Errorf("%d messages besides acquire and release", n)
		}
	})
}

func TestLeaseLivesOnWhenTheContextOfAcquireEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		var told log
		c := client(t, s.Full(), lock.Config{TTL: 10 * time.Second, Hooks: told.hooks()})
		ctx, cancel := context.WithCancel(t.Context())
		l, err := c.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Minute)
		if l.Err() != nil || s.Holder("k") != l.Token() {
			t.Errorf("the lease: %v, the key is held by %q", l.Err(), s.Holder("k"))
		}
		release(t, l)
		if s.Holder("k") != "" || told.event("released").Cause != nil {
			t.Errorf("key left to %q, the hook got %v", s.Holder("k"), told.event("released").Cause)
		}
	})
}

func TestLongestHoldFreesAForgottenKey(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		const ttl, longest = 10 * time.Second, time.Minute
		var told log
		c := client(t, s.Full(), lock.Config{TTL: ttl, LongestHold: longest, Hooks: told.hooks()})
		l := acquire(t, c, "k")
		time.Sleep(longest - time.Second)
		if l.Err() != nil {
			t.Fatalf("ended before the longest hold: %v", l.Err())
		}
		time.Sleep(ttl + time.Second)
		wantErr(t, l.Err(), lock.ErrLost)
		if text := l.Err().Error(); !strings.Contains(text, "LongestHold") {
			t.Errorf("the error does not name the field: %s", text)
		}
		if h := s.Holder("k"); h != "" {
			t.Errorf("the key is still held by %q", h)
		}
		if told.count("endangered") != 1 {
			t.Errorf("its holder was warned %d times", told.count("endangered"))
		}
		wantErr(t, l.Release(), lock.ErrLost)
	})
}

func TestRenewByHandExtendsBeyondTheLongestHold(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{TTL: 10 * time.Second, LongestHold: time.Minute})
		l := acquire(t, c, "k")
		for range 20 {
			time.Sleep(5 * time.Second)
			if err := l.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		release(t, l)
	})
}

// The next holder inherits the trust of the lease before, not its age.
func TestLongestHoldCountsAnewForEachHolder(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Sharing(), lock.Config{TTL: 10 * time.Second, LongestHold: 5 * time.Second})
		first := acquire(t, c, "k")
		next := make(chan *lock.Lease)
		go func() { next <- acquire(t, c, "k") }()
		synctest.Wait()
		time.Sleep(4 * time.Second) // the renewal that was due now is not made any more
		release(t, first)
		l := <-next
		time.Sleep(9 * time.Second) // the inherited trust would have ended 12 s after the beginning
		if l.Err() != nil || s.Calls("extend") == 0 {
			t.Errorf("the second holder: %v after %d renewals", l.Err(), s.Calls("extend"))
		}
		release(t, l)
	})
}

// journal collects log lines.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func TestLogWarnsOnceOfALeaseHeldForTenTTLs(t *testing.T) {
	for name, c := range map[string]struct {
		longest time.Duration
		want    int
	}{"no limit": {0, 1}, "a limit": {time.Hour, 0}, "neither limit nor warning": {-1, 0}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				var text journal
				cl := client(t, s.Full(),
					lock.Config{TTL: 10 * time.Second, LongestHold: c.longest,
						Logger: slog.New(slog.NewTextHandler(&text, nil))})
				l := acquire(t, cl, "k")
				time.Sleep(99 * time.Second)
				if early := text.String(); early != "" {
					t.Errorf("logged before ten TTLs: %s", early)
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if n := strings.Count(text.String(), "ten TTLs"); n != c.want {
					t.Errorf("warned %d times, want %d: %s", n, c.want, text.String())
				}
				release(t, l)
			})
		})
	}
}

func TestSecondReleaseReturnsErrReleased(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{})
		l := acquire(t, c, "k")
		release(t, l)
		wantErr(t, l.Release(), lock.ErrReleased)
		wantErr(t, l.Err(), lock.ErrReleased)
		wantErr(t, l.Renew(t.Context()), lock.ErrReleased)
	})
}

func TestReleaseGoesOnInTheBackgroundAndSaysUntilWhen(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{TTL: 30 * time.Second})
		l := acquire(t, c, "k")
		silent := make(chan struct{})
		s.Order(locktest.Fault{Op: "release", Times: 1, Hold: silent, Err: errServer})
		s.Order(locktest.Fault{Op: "release", Times: 3, Err: errServer})
		began := time.Now()
		err := l.Release()
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("waited %v, want ReleaseWait", d)
		}
		wantErr(t, err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		if s.Holder("k") != "" {
			t.Error("not given back in the background")
		}
		close(silent)
	})
}

func TestReleaseOfAStolenKeyReturnsErrLost(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		var told log
		c := client(t, s.Backend(), lock.Config{Hooks: told.hooks()})
		l := acquire(t, c, "k")
		s.Seize("k", "thief", time.Hour)
		wantErr(t, l.Release(), lock.ErrLost)
		synctest.Wait()
		if told.count("lost") != 1 || told.count("released") != 0 {
			t.Errorf("hooks reported %v", told.events)
		}
	})
}

func TestKeyOfALostLeaseIsKeptUntilRelease(t *testing.T) {
	// Losing trust does not give the key back. Otherwise the next goroutine of
	// this process would start alongside a job that is still being stopped.
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{
			TTL: 10 * time.Second, Margin: 5 * time.Second, RenewEvery: -1})
		l := acquire(t, c, "k")
		<-l.Done()
		synctest.Wait()
		if s.Holder("k") != l.Token() {
			t.Error("given back before the job could stop")
		}
		_, err := c.TryAcquire(t.Context(), "k")
		wantErr(t, err, lock.ErrHeld)
		wantErr(t, l.Release(), lock.ErrLost)
		release(t, acquire(t, c, "k"))
	})
}

func TestHooksReportEveryEventInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		var told log
		c := client(t, s.Backend(), lock.Config{TTL: 3 * time.Second, Hooks: told.hooks()})
		s.Seize("k", "somebody", 2*time.Second)
		l := acquire(t, c, "k")
		time.Sleep(1500 * time.Millisecond)
		release(t, l)
		synctest.Wait()
		want := []string{"waiting", "acquired", "renewed", "released"}
		if len(told.events) != len(want) {
			t.Fatalf("hooks reported %v, want %v", told.events, want)
		}
		for i := range want {
			if told.events[i] != want[i] {
				t.Fatalf("hooks reported %v, want %v", told.events, want)
			}
		}
		if w := told.event("acquired").Wait; w < 1900*time.Millisecond || w > 2100*time.Millisecond {
			t.Errorf("waited %v", w)
		}
		if h := told.event("released").Held; h != 1500*time.Millisecond {
			t.Errorf("held %v", h)
		}
		wantErr(t, told.event("waiting").Cause, lock.ErrHeld)
	})
}

func TestClientRetriesAFailedWatchAtAPace(t *testing.T) {
	for name, fault := range map[string]locktest.Fault{
		"refused": {Op: "watch", Err: errServer}, "lost at once": {Op: "watch", Err: errServer, After: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				c := client(t, s.Full(), lock.Config{TTL: 9 * time.Second})
				l := acquire(t, c, "k")
				time.Sleep(time.Second)
				s.Order(fault)
				for range 100 {
					s.Break()
					time.Sleep(time.Millisecond)
				}
				time.Sleep(time.Minute)
				if n := s.Calls("watch"); n > 60 {
					t.Errorf("%d attempts at a watch", n)
				}
				s.Mend()
				release(t, l)
			})
		})
	}
}

func TestRenewalDoesNotWaitForAWatch(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{TTL: 9 * time.Second})
		never := make(chan struct{})
		s.Order(locktest.Fault{Op: "watch", Hold: never})
		var held []*lock.Lease
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} { // more keys than workers
			held = append(held, acquire(t, c, key))
		}
		time.Sleep(time.Minute)
		for _, l := range held {
			if err := l.Err(); err != nil {
				t.Fatal(err)
			}
			release(t, l)
		}
		close(never)
	})
}
