package migrate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/migrate"
)

// A session of a store like etcd or ZooKeeper is the target. The bridge's keys
// free themselves, and the session's do not.
func TestComposedSessionPassesTheKitInEveryPhase(t *testing.T) {
	for _, p := range migrate.Phases() {
		t.Run(p.String(), func(t *testing.T) {
			// The embedded server wakes nobody, so the target does not either
			// where both have to.
			traits := locktest.Traits{Session: true, NotPassed: true, CannotWake: p != migrate.Clean}
			locktest.RunInBubbles(t, traits, func(t *testing.T) *locktest.World {
				w := redistest.Bubble(t)
				r := &elsewhere{rig: &rig{t, w, w.Wire()}}
				clock := w.Clock(redistest.Skew{})
				store := locktest.NewStore(clock)
				sessions := map[lock.Backend]interface{ Cut() func() }{}
				return &locktest.World{
					Backend: func() lock.Backend {
						session, _ := store.Session(15 * time.Second)
						target := session
						if traits.CannotWake {
							target = struct{ lock.Backend }{session}
						}
						c := r.over(p, target)
						sessions[c] = session.(interface{ Cut() func() })
						return c
					},
					Pass: w.Pass, Clock: clock, TTL: 15 * time.Second, FreeAfter: 4 * time.Second,
					Seize: func(key string) {
						if p == migrate.Clean {
							store.Seize(key, "thief", time.Hour)
							return
						}
						r.set(key, r.stamp(time.Minute))
					},
					Cut: func(b lock.Backend) func() { return sessions[b].Cut() },
				}
			})
		})
	}
}

// aged is a target whose terms count from a sign of life in the past, as those
// of a session do.
type aged struct {
	lock.Backend
	by time.Duration
}

type agedGrant struct {
	lock.Grant
	by time.Duration
}

func (a aged) Try(ctx context.Context, key string, ttl time.Duration) (lock.Grant, error) {
	g, err := a.Backend.Try(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	return agedGrant{g, a.by}, nil
}

func (g agedGrant) Term() lock.Term {
	t := g.Grant.Term()
	t.Sent.Elapsed, t.Sent.Wall = t.Sent.Elapsed-g.by, t.Sent.Wall.Add(-g.by)
	return t
}

// A takeover settles for longer than the target's term still lasts.
func TestTargetIsRenewedAfterATakeoverSettled(t *testing.T) {
	composed(t, []migrate.Phase{migrate.Observe, migrate.Dual, migrate.Sealed},
		func(r *elsewhere, p migrate.Phase) {
			clock := r.w.Clock(redistest.Skew{})
			store := locktest.NewStore(clock)
			c := r.over(p, aged{store.Backend(), ttl / 2}, func(cfg *migrate.Config) {
				cfg.Terms = dialect.Terms{Lease: lease, Gap: ttl / 2, Behind: time.Second}
			})
			client, err := lock.New(c, lock.Config{TTL: ttl, RenewEvery: ttl / 5, Clock: clock, Wait: -1})
			if err != nil {
				r.Fatal(err)
			}
			defer client.Close(background)
			r.set("k", r.stamp(-time.Hour))
			l, err := client.Acquire(background, "k")
			if err != nil {
				r.Fatalf("%v: after a settle", err)
			}
			if left := l.Until().Sub(r.w.Now()); left > ttl*9/10 {
				r.Errorf("trusted for %v", left)
			}
			if err := l.Release(); err != nil {
				r.Error(err)
			}
			// The session ends while the next takeover settles.
			r.set("k", r.stamp(-time.Hour))
			store.Order(locktest.Fault{Op: "extend", Times: 1, Err: lock.ErrLost})
			if l, err = client.Acquire(background, "k"); err == nil || errors.Is(err, lock.ErrHeld) {
				r.Errorf("taken without its target: %v, %v", l, err)
			}
			if store.Holder("k") != "" || r.get(keyM) != "" {
				r.Errorf("left: the target %q, M %q", store.Holder("k"), r.get(keyM))
			}
		})
}

// The old key was given back at the first call. The second one goes on with the
// target.
func TestReleaseGoesOnWhereTheTargetDidNotAnswer(t *testing.T) {
	composed(t, migrate.Phases(), func(r *elsewhere, p migrate.Phase) {
		store := locktest.NewStore(r.w.Clock(redistest.Skew{}))
		g := r.take(r.over(p, store.Backend()))
		store.Order(locktest.Fault{Op: "release", Times: 1, Err: errCut})
		if err := g.Release(background); !errors.Is(err, errCut) {
			r.Errorf("released without the target's word: %v", err)
		}
		if m := r.get(keyM); m != "" {
			r.Errorf("M is left: %q", m)
		}
		if err := g.Release(background); err != nil {
			r.Errorf("released at the second call: %v", err)
		}
		if err := g.Release(background); !errors.Is(err, lock.ErrLost) {
			r.Errorf("released twice: %v", err)
		}
	})
}

// errCut is the error of calls that did not arrive.
var errCut = errors.New("the connection was cut")
