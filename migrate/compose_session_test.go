// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
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
			traits := locktest.Traits{Session: true, CannotWake: p != migrate.Clean}
			locktest.RunInBubbles(t, traits, func(t *testing.T) *locktest.World {
				w := redistest.Bubble(t)
				r := &elsewhere{rig: &rig{t, w, w.Wire()}}
				clock := w.Clock(redistest.Skew{})
				store := locktest.NewStore(clock)
				sessions := map[backend.Store]interface{ Cut() func() }{}
				return &locktest.World{
					Backend: func() backend.Store {
						session, _ := store.Session(15 * time.Second)
						target := session
						if traits.CannotWake {
							target = backend.Of(struct{ backend.Backend }{session.Contract()})
						}
						c := r.over(p, target)
						sessions[c] = session.Contract().(interface{ Cut() func() })
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
					Cut: func(b backend.Store) func() { return sessions[b].Cut() },
				}
			})
		})
	}
}

// aged is a target whose terms count from a sign of life in the past, as those
// of a session do.
type aged struct {
	backend.Backend
	by time.Duration
}

type agedGrant struct {
	backend.Grant
	by time.Duration
}

func (a aged) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := a.Backend.Try(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	return agedGrant{g, a.by}, nil
}

func (g agedGrant) Term() backend.Term {
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
			c := r.over(p, backend.Of(aged{store.Backend().Contract(), ttl / 2}), func(cfg *migrate.Config) {
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

// A waiter of the target alone has always queued before the holder releases. A
// composed waiter is served after it, and not after the crowd has gone.
func TestComposedWaiterQueuesWithTheTargetInClean(t *testing.T) {
	composed(t, []migrate.Phase{migrate.Clean}, func(r *elsewhere, p migrate.Phase) {
		clock := r.w.Clock(redistest.Skew{})
		store := locktest.NewStore(clock)
		c, alone := r.over(p, store.Full()), store.Full()
		held := r.take(alone)
		place := func(b backend.Store) backend.Place {
			p, err := b.Contract().(backend.Queuer).Enter(background, "k")
			if err != nil {
				r.Fatal(err)
			}
			if _, err := p.Try(background, ttl); !errors.Is(err, lock.ErrHeld) {
				r.Fatal(err)
			}
			return p
		}
		first := place(alone)
		second := place(c)
		third := place(alone)
		r.release(held)
		for i, p := range []backend.Place{first, second, third} {
			g, err := p.Try(background, ttl)
			if err != nil {
				r.Fatalf("place %d: %v", i, err)
			}
			r.release(g)
		}
	})
}

// The fleet begins anew while a waiter has a place.
func TestComposedPlaceIsLeftWithPhaseClean(t *testing.T) {
	composed(t, []migrate.Phase{migrate.Observe}, func(r *elsewhere, p migrate.Phase) {
		store := locktest.NewStore(r.w.Clock(redistest.Skew{}))
		phase := &turning{}
		phase.set(migrate.Clean)
		c := r.over(p, store.Full(), func(cfg *migrate.Config) { cfg.Phases = phase })
		held := r.take(c)
		place, err := c.Contract().(backend.Queuer).Enter(background, "k")
		if err != nil {
			r.Fatal(err)
		}
		if _, err := place.Try(background, ttl); !errors.Is(err, lock.ErrHeld) || store.Queue("k") != 1 {
			r.Fatalf("%v, %d places", err, store.Queue("k"))
		}
		phase.set(p)
		if _, err := place.Try(background, ttl); !errors.Is(err, lock.ErrHeld) || store.Queue("k") != 0 {
			r.Errorf("%v, %d places", err, store.Queue("k"))
		}
		r.release(held)
		g, err := place.Try(background, ttl)
		if err != nil {
			r.Fatal(err)
		}
		if r.get(keyM) == "" || store.Holder("k") == "" {
			r.Errorf("M %q, the target %q", r.get(keyM), store.Holder("k"))
		}
		r.release(g)
		if _, err := c.Contract().(backend.Queuer).Enter(background, "k"); !errors.Is(err,
			errors.ErrUnsupported) {
			r.Errorf("a place in %v: %v", p, err)
		}
	})
}

// turning is a source of the phase that a test changes.
type turning struct{ phase atomic.Int64 }

func (p *turning) set(to migrate.Phase) { p.phase.Store(int64(to)) }

func (p *turning) Phase(context.Context) (migrate.Phase, error) {
	return migrate.Phase(p.phase.Load()), nil
}

// closing is a target that is closed with an error.
type closing struct {
	backend.Backend
	closed int
}

func (c *closing) Close() error { c.closed++; return errCut }

func TestComposedClosesBothAndReportsTheTarget(t *testing.T) {
	bridges(t, func(r *rig) {
		target := &closing{Backend: locktest.NewStore(r.w.Clock(r.skew())).Backend().Contract()}
		b := r.bridge(migrate.Dual)
		c, err := migrate.Compose(b, backend.Of(target))
		if err != nil {
			r.Fatal(err)
		}
		if err := c.Close(); !errors.Is(err, errCut) || target.closed != 1 {
			r.Errorf("%v, closed %d times", err, target.closed)
		}
		if g, err := b.Contract().Try(background, "k", ttl); err == nil {
			r.Errorf("the bridge is open: %v", g)
		}
	})
}

func TestComposedRenewsManyByOneCallOfTheTarget(t *testing.T) {
	composed(t, migrate.Phases(), func(r *elsewhere, p migrate.Phase) {
		const leases = 70
		store := locktest.NewStore(r.w.Clock(redistest.Skew{}))
		for calls, target := range map[int]backend.Store{1: store.Full(), leases: store.Backend()} {
			c := r.over(p, target)
			var grants []backend.Grant
			for i := range leases {
				g, err := c.Contract().Try(background, "k"+strconv.Itoa(i), ttl)
				if err != nil {
					r.Fatal(err)
				}
				grants = append(grants, g)
			}
			before := store.Calls("extend")
			store.Seize("k0", "thief", time.Hour)
			terms, errs := c.Contract().(backend.BatchExtender).ExtendAll(background, append(grants, nil),
				ttl)
			if n := store.Calls("extend") - before; n != calls {
				r.Errorf("%d calls, want %d", n, calls)
			}
			if !errors.Is(errs[0], lock.ErrLost) || errs[leases] == nil {
				r.Errorf("a lost grant: %v; none: %v", errs[0], errs[leases])
			}
			for i := 1; i < leases; i++ {
				if errs[i] != nil || terms[i].TTL <= 0 {
					r.Errorf("lease %d: %+v, %v", i, terms[i], errs[i])
				}
				r.release(grants[i])
			}
			_ = grants[0].Release(background) // lost
			store.Seize("k0", "", 0)
		}
	})
}

// The bridge cuts long leases by the old clients' lease, the target does not.
func TestComposedTermEndsWithTheShorterSide(t *testing.T) {
	composed(t, []migrate.Phase{migrate.Sealed, migrate.Modern}, func(r *elsewhere, p migrate.Phase) {
		store := locktest.NewStore(r.w.Clock(redistest.Skew{}))
		c := r.over(p, store.Full(), func(cfg *migrate.Config) { cfg.LongLeases = true })
		g, err := c.Contract().Try(background, "k", 2*lease)
		if err != nil {
			r.Fatal(err)
		}
		term, err := g.Extend(background, 2*lease)
		if err != nil || term.TTL > lease || g.Term().TTL > lease {
			r.Errorf("%v: taken for %v, renewed for %v: %v", p, g.Term().TTL, term.TTL, err)
		}
		r.release(g)
	})
}

// Nobody may ever release a lost lease. It counts until its TTL has passed.
func TestMemberForgetsAComposedLeaseThatIsLost(t *testing.T) {
	composed(t, migrate.Phases(), func(r *elsewhere, p migrate.Phase) {
		store := locktest.NewStore(r.w.Clock(redistest.Skew{}))
		c, m := r.joins(p, store.Full())
		g := r.take(c)
		store.Seize("k", "thief", time.Hour)
		if _, err := g.Extend(background, ttl); !errors.Is(err, lock.ErrLost) || leases(m) != 1 {
			r.Errorf("%v, %d open", err, leases(m))
		}
		r.w.Pass(ttl + 5*time.Second)
		if n := leases(m); n != 0 {
			r.Errorf("%d open", n)
		}
	})
}
