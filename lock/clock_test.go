// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// Every clock of benbjohnson/clock is a lock.Clock without an adapter.
var _ lock.Clock = clock.New()

// twoWay is a clock on the bubble's time whose wall can be stepped. A step of
// the wall alone is also what a process sees after its machine was suspended:
// elapsed time stood still meanwhile.
type twoWay struct {
	wall  atomic.Int64 // error of the wall clock, in ns
	began time.Time
}

func (c *twoWay) Now() time.Time {
	return time.Now().Add(time.Duration(c.wall.Load()))
}
func (c *twoWay) After(d time.Duration) <-chan time.Time { return time.After(d) }
func (c *twoWay) Elapsed() time.Duration                 { return time.Since(c.began) }
func (c *twoWay) step(d time.Duration)                   { c.wall.Add(int64(d)) }

func TestErrReadsTheClockItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := &twoWay{began: time.Now()}
		s := locktest.NewStore(lock.Machine)
		c := client(t, s.Backend(), lock.Config{TTL: time.Minute, Clock: own})
		l := acquire(t, c, "k")
		own.step(time.Hour) // no timer has fired
		wantErr(t, l.Err(), lock.ErrLost)
		wantErr(t, l.Release(), lock.ErrLost)
	})
}

func TestBackwardStepOfTheWallClockChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := &twoWay{began: time.Now()}
		s := locktest.NewStore(lock.Machine)
		c := client(t, s.Backend(), lock.Config{TTL: time.Minute, Margin: time.Second, Clock: own})
		l := acquire(t, c, "k")
		own.step(-time.Hour)
		s.Order(locktest.Fault{Op: "extend", Err: errServer})
		began := time.Now()
		<-l.Done()
		if d := time.Since(began); d != 59*time.Second {
			t.Errorf("trust ended after %v, want 59s by elapsed time", d)
		}
		wantErr(t, l.Release(), lock.ErrLost)
	})
}

// The clock was set, or an hour passed while the machine slept: only the wall
// clock shows that. It is unknown which clock is right: the store's may have
// stepped too.
func TestForwardStepOfTheWallClockEndsTrust(t *testing.T) {
	for _, renews := range []time.Duration{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			own := &twoWay{began: time.Now()}
			s := locktest.NewStore(lock.Machine)
			c := client(t, s.Backend(), lock.Config{TTL: time.Minute, RenewEvery: renews, Clock: own})
			l := acquire(t, c, "k")
			time.Sleep(time.Second)
			own.step(time.Hour)
			began := time.Now()
			<-l.Done() // without a call by its holder
			if d := time.Since(began); d > 200*time.Millisecond {
				t.Errorf("ended after %v, want at most 200ms, at the next check", d)
			}
			wantErr(t, l.Err(), lock.ErrLost)
			wantErr(t, l.Release(), lock.ErrLost)
		})
	}
}

// The machine slept for less than was left of the trust. No timer knows of that
// time, and the server has counted it.
func TestTimeAsleepShortensWhatIsLeftOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := &twoWay{began: time.Now()}
		s := locktest.NewStore(lock.Machine)
		c := client(t, s.Backend(),
			lock.Config{TTL: time.Minute, Margin: time.Second, RenewEvery: -1, Clock: own})
		l := acquire(t, c, "k")
		time.Sleep(time.Second)
		own.step(30 * time.Second)
		woken := time.Now()
		<-l.Done() // without a call by its holder
		if d := time.Since(woken); d < 28*time.Second || d > 28*time.Second+200*time.Millisecond {
			t.Errorf("ended %v after the wake-up, and 28s were left", d)
		}
		wantErr(t, l.Release(), lock.ErrLost)
	})
}

// Its renewal was planned for 20 s after it was acquired. The machine slept
// beyond that, and the renewal comes at the wake-up.
func TestLeaseThatSleptIsRenewedAtItsPlannedAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := &twoWay{began: time.Now()}
		s := locktest.NewStore(lock.Machine)
		c := client(t, s.Backend(), lock.Config{TTL: time.Minute, Margin: time.Second, Clock: own})
		l := acquire(t, c, "k")
		time.Sleep(time.Second)
		own.step(40 * time.Second)
		time.Sleep(2 * time.Minute)
		wantErr(t, l.Err(), nil)
		release(t, l)
	})
}

func TestClientDistrustsATermSentInTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.NewStore(lock.Machine)
		c := client(t, backend.Of(liar{s.Backend().Contract()}),
			lock.Config{TTL: time.Minute, Margin: time.Second, RenewEvery: -1})
		l := acquire(t, c, "k")
		if left := time.Until(l.Until()); left > 59*time.Second {
			t.Errorf("trusted for %v", left)
		}
		release(t, l)
	})
}

// liar is a backend that dates its writes to the future.
type liar struct{ backend.Backend }

type lie struct{ backend.Grant }

func (b liar) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := b.Backend.Try(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	return lie{g}, nil
}

func (g lie) Term() backend.Term {
	term := g.Grant.Term()
	term.Sent.Wall = term.Sent.Wall.Add(time.Hour)
	term.Sent.Elapsed += time.Hour
	return term
}
