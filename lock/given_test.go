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

// giving is a store whose grants were given by other holders: their last
// refused try was the first of ages ago. Grants after these are taken.
type giving struct {
	backend.Backend
	ages []time.Duration
}

type givenGrant struct {
	backend.Grant
	term backend.Term
}

func (g *givenGrant) Term() backend.Term { return g.term }

func (b *giving) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := b.Backend.Try(ctx, key, ttl)
	if err != nil || len(b.ages) == 0 {
		return g, err
	}
	term := backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl, Given: true}
	term.Sent.Wall, term.Sent.Elapsed = term.Sent.Wall.Add(-b.ages[0]), term.Sent.Elapsed-b.ages[0]
	b.ages = b.ages[1:]
	return &givenGrant{g, term}, nil
}

const givenTTL = 30 * time.Second

func TestLittleTrustInAGiftIsRenewed(t *testing.T) {
	for _, c := range []struct {
		age     time.Duration
		cfg     lock.Config
		renewed bool // when Acquire returned
		soon    bool // right after
	}{
		{age: time.Second},
		{age: 8 * time.Second},
		{age: 10 * time.Second, soon: true}, // a third of what is trusted is over
		{age: 20 * time.Second, soon: true},
		{age: 21 * time.Second, renewed: true},
		{age: time.Hour, renewed: true},  // a process that stood still
		{age: -time.Hour, renewed: true}, // a clock that was set back, and has no elapsed time
		{age: time.Second, cfg: lock.Config{RenewEvery: -1}, renewed: true},
	} {
		t.Run(c.age.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				c.cfg.TTL, c.cfg.Jitter = givenTTL, func(time.Duration) time.Duration { return 0 }
				l := acquire(t, client(t, backend.Of(&giving{s.Backend().Contract(), []time.Duration{c.age}}),
					c.cfg), "k")
				trust := givenTTL * 9 / 10
				if !c.renewed {
					trust -= c.age
				}
				if until := time.Until(l.Until()); until != trust || (s.Calls("extend") == 1) != c.renewed {
					t.Errorf("trusted for %v, want %v; %d renewals", until, trust, s.Calls("extend"))
				}
				if synctest.Wait(); (s.Calls("extend") == 1) != (c.renewed || c.soon) {
					t.Errorf("%d renewals right after", s.Calls("extend"))
				}
				release(t, l)
			})
		})
	}
}

// The renewal is under way when the lease begins, so there is nothing to warn
// of.
func TestGiftBeginsWithoutAWarning(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		cfg := lock.Config{TTL: givenTTL}
		cfg.Hooks.Endangered = func(e lock.Event) { t.Errorf("%+v", e) }
		for age := 17 * time.Second; age < 22*time.Second; age += time.Second / 2 {
			l := acquire(t, client(t, backend.Of(&giving{s.Backend().Contract(), []time.Duration{age}}), cfg),
				"k")
			synctest.Wait()
			release(t, l)
		}
	})
}

// The store has given the key to another client meanwhile, or does not say.
func TestGiftThatIsNotConfirmedIsNoLease(t *testing.T) {
	for name, c := range map[string]struct {
		refusal locktest.Fault
		undos   int
	}{
		"lost":    {locktest.Fault{Op: "extend", Times: 1, Err: lock.ErrLost}, 0},
		"unknown": {locktest.Fault{Op: "extend", Times: 1, Err: errors.New("no answer"), Passes: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				b := &giving{s.Backend().Contract(), []time.Duration{25 * time.Second}}
				cl := client(t, backend.Of(b), lock.Config{TTL: givenTTL, Wait: time.Minute})
				s.Order(c.refusal)
				l := acquire(t, cl, "k") // at a later attempt, which takes the key
				if s.Calls("try") < 2 || s.Calls("release") != c.undos {
					t.Errorf("%d attempts, %d of them undone", s.Calls("try"), s.Calls("release"))
				}
				release(t, l)
			})
		})
	}
}

func TestConfirmationOfAGiftEndsWithTheWait(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		b := &giving{s.Backend().Contract(), []time.Duration{25 * time.Second}}
		c := client(t, backend.Of(b), lock.Config{TTL: givenTTL, Wait: time.Second})
		s.Order(locktest.Fault{Op: "extend", Hold: make(chan struct{}), Err: errServer, Passes: true})
		began := time.Now()
		_, err := c.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrWaitEnded)
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Errorf("ended after %v", took)
		}
		synctest.Wait()
		if s.Holder("k") != "" {
			t.Error("the gift was kept")
		}
	})
}

// After an outage a key that nobody holds is given back soon.
func TestPausesBetweenUndosAreAThirdOfTheTTL(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{TTL: givenTTL})
		s.Order(locktest.Fault{Op: "try", Times: 1, Err: errServer, After: true})
		s.Order(locktest.Fault{Op: "release", Err: errServer})
		_, err := c.Acquire(t.Context(), "k")
		wantErr(t, err, errServer)
		time.Sleep(13 * time.Second)
		s.Mend()
		time.Sleep(10 * time.Second)
		if s.Holder("k") != "" {
			t.Error("the key is still taken 10 s after the outage")
		}
	})
}
