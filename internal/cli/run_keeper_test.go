package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// giver is a backend whose keys come as those that a holder gave on: trusted for little until renewed.
// What Extend and Try say is a test's.
type giver struct {
	given   time.Duration // what the store grants at first
	extends []error       // of each Extend in turn, nil from then on
	tries   []error       // of each Try in turn, nil from then on

	tried, extended, released int
}

func (g *giver) Try(context.Context, string, time.Duration) (lock.Grant, error) {
	g.tried++
	if g.tried <= len(g.tries) && g.tries[g.tried-1] != nil {
		return nil, g.tries[g.tried-1]
	}
	return givenGrant{g, lock.Mark(context.Background())}, nil
}

func (g *giver) Tune(c lock.Config) lock.Config   { return c }
func (g *giver) Fits(_, _, _ time.Duration) error { return nil }
func (g *giver) Close() error                     { return nil }
func (g *giver) Guard(context.Context, lock.Grant, func()) (func(), error) {
	return nil, lock.ErrNoWake
}

func (g *giver) Await(context.Context, string, func()) (func(), bool, error) {
	return nil, false, lock.ErrNoWake
}

type givenGrant struct {
	*giver
	sent lock.Instant
}

func (g givenGrant) Token() string   { return "token" }
func (g givenGrant) Term() lock.Term { return lock.Term{Sent: g.sent, TTL: g.given} }

func (g givenGrant) Release(context.Context) error {
	g.released++
	return nil
}

func (g givenGrant) Extend(context.Context, time.Duration) (lock.Term, error) {
	g.extended++
	if g.extended <= len(g.extends) && g.extends[g.extended-1] != nil {
		return lock.Term{}, g.extends[g.extended-1]
	}
	return lock.Term{Sent: lock.Mark(context.Background())}, nil
}

// takeFrom acquires as run does, with a TTL of 30 s and so a grace of 7.5 s.
func takeFrom(t *testing.T, g *giver, wait time.Duration) (trust time.Duration, err error) {
	t.Helper()
	env := &Env{Clock: lock.Machine, Stderr: newWatched()}
	f := &runFlags{wait: waitFlag{d: wait}}
	f.server.quiet = true
	k, err := env.newKeeper(f, g, "the server", func(err error) error { return err })
	if err != nil {
		t.Fatal(err)
	}
	lease, err := k.acquire(t.Context(), "k")
	if err == nil {
		trust = time.Until(lease.Until())
		_ = lease.Release()
	}
	k.close(closeWait)
	synctest.Wait()
	return trust, err
}

func TestAKeyThatWasGivenIsRenewedBeforeTheCommandStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &giver{given: 5 * time.Second}
		if trust, err := takeFrom(t, g, 10*time.Second); err != nil || trust != 27*time.Second || g.extended != 1 {
			t.Errorf("trusted for %v: %v, renewed %d times", trust, err, g.extended)
		}
		g = &giver{given: 30 * time.Second}
		if trust, err := takeFrom(t, g, 10*time.Second); err != nil || trust != 27*time.Second || g.extended != 0 {
			t.Errorf("a whole lease: trusted for %v: %v, renewed %d times", trust, err, g.extended)
		}
	})
}

func TestAKeyThatWasGivenAndLostIsWaitedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &giver{given: 5 * time.Second, extends: []error{lock.ErrLost, errors.New("no answer")}}
		if trust, err := takeFrom(t, g, 10*time.Second); err != nil || trust != 27*time.Second || g.tried != 3 || g.released != 3 {
			t.Errorf("trusted for %v: %v, after %d attempts, %d released", trust, err, g.tried, g.released)
		}
	})
}

// The wait is that of the command line and does not begin anew.
func TestAKeyThatWasGivenAndLostProlongsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &giver{given: 5 * time.Second, extends: []error{lock.ErrLost}, tries: make([]error, 1000)}
		for i := range g.tries {
			g.tries[i] = &lock.HeldError{Key: "k"}
		}
		g.tries[50] = nil // some seconds after the beginning
		began := time.Now()
		_, err := takeFrom(t, g, 10*time.Second)
		if took := time.Since(began); !errors.Is(err, lock.ErrWaitEnded) || took > 11*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}
