package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// giver is a store whose first refusal is followed by a gift, which its place returns without asking.
type giver struct {
	lock.Backend
	after time.Duration // from the last refused try until the gift is found

	claim  time.Duration // as Enter was told
	given  int
	freed  int
	extend func(context.Context, time.Duration) (lock.Term, error)
}

func (b *giver) Enter(_ context.Context, _ string, claim time.Duration) (lock.Place, error) {
	b.claim = claim
	return &givenPlace{b: b}, nil
}

type givenPlace struct {
	b     *giver
	tried *lock.Instant
}

func (p *givenPlace) Try(ctx context.Context, _ time.Duration) (lock.Grant, error) {
	if p.tried == nil {
		now := lock.Mark(ctx)
		p.tried = &now
		return nil, &lock.HeldError{Key: "k", Again: p.b.after}
	}
	p.b.given++
	return &gift{b: p.b, term: lock.Term{Sent: *p.tried, TTL: p.b.claim}}, nil
}

func (p *givenPlace) Await(context.Context, func()) (func(), bool, error) {
	return nil, false, lock.ErrNoWake
}
func (p *givenPlace) Leave(context.Context) error { return nil }

type gift struct {
	b    *giver
	term lock.Term
}

func (g *gift) Token() string                 { return "token" }
func (g *gift) Term() lock.Term               { return g.term }
func (g *gift) Release(context.Context) error { g.b.freed++; return nil }
func (g *gift) Extend(ctx context.Context, ttl time.Duration) (lock.Term, error) {
	return g.b.extend(ctx, ttl)
}

// heldStore refuses attempts without a place.
type heldStore struct{}

func (heldStore) Try(context.Context, string, time.Duration) (lock.Grant, error) {
	return nil, &lock.HeldError{Key: "k"}
}

func TestAGivenKeyIsRenewedSoonAndTrustedNoLongerThanItsClaim(t *testing.T) {
	bubble(t, func(t *testing.T, _ *locktest.Store) {
		begun := time.Now()
		var renewed []time.Duration
		b := &giver{Backend: heldStore{}, after: 300 * time.Millisecond}
		b.extend = func(ctx context.Context, ttl time.Duration) (lock.Term, error) {
			renewed = append(renewed, time.Since(begun))
			return lock.Term{Sent: lock.Mark(ctx), TTL: ttl}, nil
		}
		c := client(t, b, lock.Config{TTL: 30 * time.Second, Margin: 3 * time.Second, RetryEvery: time.Second})
		l := acquire(t, c, "k")
		if waited := time.Since(begun); waited != b.after || len(renewed) != 0 {
			t.Errorf("had after %v, renewed at %v", waited, renewed)
		}
		if until := l.Until().Sub(begun); until != 2*time.Second || b.claim != 5*time.Second {
			t.Errorf("a claim of %v is trusted for %v from the last try", b.claim, until)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(renewed) != 1 || renewed[0] > time.Second || l.Until().Sub(begun) < 27*time.Second {
			t.Errorf("renewed at %v, trusted for %v", renewed, l.Until().Sub(begun))
		}
		release(t, l)
	})
}

func TestAKeyThatWasGivenLongAfterTheLastTryIsExtendedBeforeAnybodyHasIt(t *testing.T) {
	bubble(t, func(t *testing.T, _ *locktest.Store) {
		begun := time.Now()
		b := &giver{Backend: heldStore{}, after: 900 * time.Millisecond}
		asked := 0
		b.extend = func(ctx context.Context, ttl time.Duration) (lock.Term, error) {
			if asked++; asked == 1 {
				return lock.Term{}, &lock.LostError{Key: "k"} // it came too late
			}
			return lock.Term{Sent: lock.Mark(ctx), TTL: ttl}, nil
		}
		c := client(t, b, lock.Config{TTL: time.Second, Margin: 200 * time.Millisecond, RetryEvery: time.Second})
		l := acquire(t, c, "k")
		synctest.Wait()
		if b.given != 2 || asked != 2 {
			t.Errorf("given %d times, asked %d times", b.given, asked)
		}
		if left := time.Until(l.Until()); left != 800*time.Millisecond {
			t.Errorf("trusted for %v after %v", left, time.Since(begun))
		}
		release(t, l)
	})
}

func TestAGivenKeyIsTrustedNoLongerWhenTheWallClockWasSetBack(t *testing.T) {
	for _, step := range []time.Duration{0, -300 * time.Millisecond, -2 * time.Second} {
		t.Run(step.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, _ *locktest.Store) {
				begun, own := time.Now(), &twoWay{began: time.Now()}
				b := &giver{Backend: heldStore{}, after: 900 * time.Millisecond}
				b.extend = func(context.Context, time.Duration) (lock.Term, error) { return lock.Term{}, errServer }
				c := client(t, b, lock.Config{
					TTL: 3 * time.Second, Margin: 100 * time.Millisecond, RetryEvery: time.Second, Clock: own,
					Jitter: func(time.Duration) time.Duration { return 0 },
				})
				time.AfterFunc(500*time.Millisecond, func() { own.step(step) })
				l := acquire(t, c, "k")
				trust := b.claim - 100*time.Millisecond
				if left, want := l.Until().Sub(own.Now()), trust-b.after; left != want || b.given != 1 {
					t.Errorf("given %d times, it is trusted for %v; want %v", b.given, left, want)
				}
				<-l.Done()
				if ended := time.Since(begun); ended != trust {
					t.Errorf("trust in a claim of %v ended %v after the last refused try", b.claim, ended)
				}
				wantErr(t, l.Release(), lock.ErrLost)
			})
		})
	}
}

func TestALeaseThatIsNotRenewedClaimsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, _ *locktest.Store) {
		b := &giver{Backend: heldStore{}, after: time.Millisecond}
		c := client(t, b, lock.Config{TTL: 30 * time.Second, RenewEvery: -1, RetryEvery: time.Second})
		release(t, acquire(t, c, "k"))
		if b.claim != 0 {
			t.Errorf("it claims %v", b.claim)
		}
	})
}

// slowToArm is a store whose watch takes a while to arm.
type slowToArm struct {
	took time.Duration
	ends time.Time
}

func (s *slowToArm) Try(ctx context.Context, key string, ttl time.Duration) (lock.Grant, error) {
	if left := time.Until(s.ends); left > 0 {
		return nil, &lock.HeldError{Key: key, Again: left}
	}
	return &gift{b: &giver{}, term: lock.Term{Sent: lock.Mark(ctx), TTL: ttl}}, nil
}

func (s *slowToArm) Await(context.Context, string, func()) (func(), bool, error) {
	time.Sleep(s.took)
	return func() {}, false, nil
}

func (s *slowToArm) Guard(context.Context, lock.Grant, func()) (func(), error) {
	return func() {}, nil
}

func TestWhatTheStoreSaysOfTimeCountsFromItsAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, _ *locktest.Store) {
		s := &slowToArm{took: 70 * time.Millisecond, ends: time.Now().Add(300 * time.Millisecond)}
		l := acquire(t, client(t, s, lock.Config{RetryEvery: time.Second}), "k")
		if late := time.Since(s.ends); late != 0 {
			t.Errorf("had %v behind the end of the key", late)
		}
		release(t, l)
	})
}

// TestAGivenKeyThatCannotBeExtendedIsGivenBack: it was found so late that little of its claim was left.
func TestAGivenKeyThatCannotBeExtendedIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, _ *locktest.Store) {
		b := &giver{Backend: heldStore{}, after: 1900 * time.Millisecond}
		failed := 0
		b.extend = func(ctx context.Context, ttl time.Duration) (lock.Term, error) {
			if failed++; failed == 1 {
				return lock.Term{}, errServer
			}
			return lock.Term{Sent: lock.Mark(ctx), TTL: ttl}, nil
		}
		c := client(t, b, lock.Config{TTL: 30 * time.Second, Margin: 3 * time.Second, RetryEvery: 2 * time.Second})
		l := acquire(t, c, "k")
		synctest.Wait()
		if b.given != 2 || b.freed != 1 {
			t.Errorf("of %d gifts the first could not be kept, and %d were given back", b.given, b.freed)
		}
		release(t, l)
	})
}
