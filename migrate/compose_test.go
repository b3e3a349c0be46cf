// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/redisconn"
)

// elsewhere is a rig with a second Redis, to which the fleet moves.
type elsewhere struct {
	*rig
	far  *redistest.World
	wire *redistest.Wire
}

func composed(t *testing.T, phases []migrate.Phase, test func(r *elsewhere, p migrate.Phase)) {
	t.Helper()
	for _, p := range phases {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, far := redistest.Bubble(t), redistest.Bubble(t)
				test(&elsewhere{&rig{t, w, w.Wire()}, far, far.Wire()}, p)
			})
		})
	}
}

func (r *elsewhere) compose(p migrate.Phase, change ...func(*migrate.Config)) *migrate.Composed {
	r.Helper()
	target, err := modern.New(r.wire.Pool(), modern.Config{Fence: true})
	if err != nil {
		r.Fatal(err)
	}
	return r.over(p, target, change...)
}

func (r *elsewhere) over(p migrate.Phase, target backend.Store,
	change ...func(*migrate.Config)) *migrate.Composed {
	r.Helper()
	c, err := migrate.Compose(r.bridge(p, change...), target)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	return c
}

// there is the value of the target's key.
func (r *elsewhere) there() string {
	r.far.ServerNow()
	v, _ := r.far.Mini.Get("k")
	return v
}

func TestAComposedLeaseConformsInEveryPhase(t *testing.T) {
	for _, p := range migrate.Phases() {
		t.Run(p.String(), func(t *testing.T) {
			freeAfter := time.Duration(0)
			if p == migrate.Observe {
				freeAfter = 4 * time.Second
			}
			traits := locktest.Traits{CannotWake: true}
			locktest.RunInBubbles(t, traits, func(t *testing.T) *locktest.World {
				w, far := redistest.Bubble(t), redistest.Bubble(t)
				r := &elsewhere{&rig{t, w, w.Wire()}, far, far.Wire()}
				return &locktest.World{
					Backend: func() backend.Store { return r.compose(p) },
					Pass:    w.Pass, Clock: w.Clock(redistest.Skew{}), TTL: 15 * time.Second,
					FreeAfter: freeAfter,
					Seize: func(key string) {
						far.ServerNow()
						if p == migrate.Clean {
							far.Mini.Set(key, "a-token-of-somebody-else")
							return
						}
						w.ServerNow()
						w.Mini.Set(key, r.stamp(time.Minute))
					},
				}
			})
		})
	}
}

func TestTheTargetIsTakenFirstAndGivenBackLast(t *testing.T) {
	composed(t, migrate.Phases(), func(r *elsewhere, p migrate.Phase) {
		c := r.compose(p)
		// An old client holds. Then the target must be free again, and M empty.
		other := r.stamp(time.Minute)
		r.set("k", other)
		if p != migrate.Clean {
			g, err := c.Contract().Try(background, "k", ttl)
			r.wantHeld(g, err)
			if r.there() != "" {
				r.Errorf("the target is %q while an old client holds", r.there())
			}
			r.wantKeys(other, "")
		}
		r.del("k")
		g := r.take(c)
		if r.there() == "" || g.Token() != r.there() || g.(backend.Fenced).Fence() == 0 {
			r.Errorf("the target is %q, the token %q", r.there(), g.Token())
		}
		if stands := r.get(keyM) != ""; stands != (p != migrate.Clean) {
			r.Errorf("M on the old server is %q", r.get(keyM))
		}
		// A client of the target alone and a client of the old keys alone are
		// both kept out.
		alone, err := modern.New(r.far.Pool(), modern.Config{})
		if err != nil {
			r.Fatal(err)
		}
		defer alone.Close()
		r.held(alone)
		if p != migrate.Clean {
			r.held(r.bridge(p))
		}
		// A release that does not reach the target leaves it for last.
		r.wire.Fault(redistest.Rule{
			When: func(redistest.Command) bool { return true }, Times: -1, Do: redistest.CutBefore})
		if err := g.Release(background); err == nil {
			r.Error("released without the target's word")
		}
		if r.get(keyM) != "" || r.there() == "" {
			r.Errorf("M %q, the target %q", r.get(keyM), r.there())
		}
		r.wire.Calm()
		for range 3 {
			if err = g.Release(background); err == nil || errors.Is(err, lock.ErrLost) {
				break
			}
		}
		if r.there() != "" {
			r.Errorf("the target is %q: %v", r.there(), err)
		}
	})
}

func TestAComposedLeaseIsLostWithEitherSide(t *testing.T) {
	composed(t, []migrate.Phase{migrate.Dual, migrate.Sealed}, func(r *elsewhere, p migrate.Phase) {
		for _, side := range []string{"old", "target"} {
			c := r.compose(p)
			g := r.take(c)
			if side == "old" {
				r.set("k", "1")
			} else {
				r.far.Mini.Set("k", "another")
			}
			m := r.get(keyM)
			if _, err := g.Extend(background, ttl); !errors.Is(err, lock.ErrLost) {
				r.Errorf("%s: %v", side, err)
			}
			if r.get(keyM) != m || r.there() == "" {
				r.Errorf("%s: before the job has stopped, M is %q, the target %q", side, r.get(keyM),
					r.there())
			}
			if err := g.Release(background); !errors.Is(err, lock.ErrLost) {
				r.Errorf("%s: %v", side, err)
			}
			if r.get(keyM) != "" || side == "old" && r.there() != "" ||
				side == "target" && r.there() != "another" {
				r.Errorf("%s: M %q, the target %q", side, r.get(keyM), r.there())
			}
			r.del("k")
			r.far.Mini.Del("k")
		}
	})
}

func TestASessionThatEndsEndsTheLeaseAtOnce(t *testing.T) {
	composed(t, migrate.Phases(), func(r *elsewhere, p migrate.Phase) {
		clock := r.w.Clock(redistest.Skew{})
		session, end := locktest.NewStore(clock).Session(12 * time.Second)
		c := r.over(p, session)
		client, err := lock.New(c, lock.Config{TTL: ttl, Clock: clock, Politeness: -1})
		if err != nil {
			r.Fatal(err)
		}
		defer client.Close(background)
		l, err := client.Acquire(background, "k")
		if err != nil {
			r.Fatal(err)
		}
		if left := l.Until().Sub(r.w.Now()); left > 12*time.Second {
			r.Errorf("trusted for %v of a session of 12s", left)
		}
		r.w.Pass(40 * time.Second)
		if err := l.Err(); err != nil {
			r.Fatalf("a session that lives: %v", err)
		}
		end()
		synctest.Wait()
		if err := l.Err(); !errors.Is(err, lock.ErrLost) {
			r.Errorf("the session has ended: %v", err)
		}
		if m := r.get(keyM); p != migrate.Clean && m == "" {
			r.Error("M was given back before the job has stopped")
		}
		if err := l.Release(); !errors.Is(err, lock.ErrLost) {
			r.Errorf("%v", err)
		}
		if m := r.get(keyM); m != "" {
			r.Errorf("M is left: %q", m)
		}
	})
}

// joins is a program whose member names the target.
func (r *elsewhere) joins(p migrate.Phase, target backend.Store) (*migrate.Composed, *migrate.Member) {
	r.Helper()
	m := r.rig.joins(p, migrate.MemberConfig{Target: "elsewhere"})
	c := r.over(p, target, func(cfg *migrate.Config) { cfg.Phases = m })
	m.Attach(nil)
	return c, m
}

func TestMemberCountsAComposedLease(t *testing.T) {
	composed(t, migrate.Phases(), func(r *elsewhere, p migrate.Phase) {
		c, m := r.joins(p, locktest.NewStore(r.w.Clock(redistest.Skew{})).Backend())
		g := r.take(c)
		r.held(c)
		if n := leases(m); n != 1 {
			r.Errorf("%d open beside one holder", n)
		}
		r.release(g)
		if n := leases(m); n != 0 {
			r.Errorf("%d open", n)
		}
	})
}

// slow is a target whose every answer takes its time.
type slow struct {
	backend.Backend
	answer func()
}

type slowGrant struct {
	backend.Grant
	answer func()
}

func (s slow) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := s.Backend.Try(ctx, key, ttl)
	s.answer()
	if err != nil {
		return nil, err
	}
	return slowGrant{g, s.answer}, nil
}

func (g slowGrant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	t, err := g.Grant.Extend(ctx, ttl)
	g.answer()
	return t, err
}

// TestMemberCountsTheOldKeysFromTheirOwnWrites: they are written after the
// target has answered, and last that much longer. A gate that opened earlier
// would let another client hold alongside.
func TestMemberCountsTheOldKeysFromTheirOwnWrites(t *testing.T) {
	for name, strand := range map[string]func(*elsewhere, *migrate.Composed){
		"taken": func(r *elsewhere, c *migrate.Composed) {
			r.rig.fault()
			if g, err := c.Contract().Try(background, "k", ttl); err == nil {
				r.Errorf("taken: %v", g)
			}
		},
		"renewed": func(r *elsewhere, c *migrate.Composed) {
			g := r.take(c)
			if _, err := g.Extend(background, ttl); err != nil {
				r.Fatal(err)
			}
			r.rig.wire.Fault(redistest.Rule{
				When: func(redistest.Command) bool { return true }, Do: redistest.CutBefore})
			if err := g.Release(background); err == nil {
				r.Error("given back without the server's word")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			composed(t, []migrate.Phase{migrate.Observe, migrate.Dual, migrate.Sealed, migrate.Modern},
				func(r *elsewhere, p migrate.Phase) {
					target, err := modern.New(r.wire.Pool(), modern.Config{})
					if err != nil {
						r.Fatal(err)
					}
					c, m := r.joins(p, backend.Of(slow{target.Contract(), func() { r.w.Pass(ttl / 2) }}))
					g := r.take(c) // the scripts are known, and connections made
					r.release(g)
					strand(r, c)
					if r.get(keyM) == "" {
						r.Fatal("nothing stands")
					}
					stood := 0
					for ; leases(m) > 0 && stood < 100; stood++ {
						r.w.Pass(time.Second)
					}
					if stood == 0 || stood == 100 || r.get(keyM) != "" {
						r.Errorf("ended after %ds, while M is %q", stood, r.get(keyM))
					}
				})
		})
	}
}

func TestComposeNeedsBoth(t *testing.T) {
	bridges(t, func(r *rig) {
		if _, err := migrate.Compose(nil, locktest.NewStore(lock.Machine).Backend()); err == nil {
			r.Error("no guard was allowed")
		}
		if _, err := migrate.Compose(r.bridge(migrate.Dual), nil); err == nil {
			r.Error("no target was allowed")
		}
	})
}

func TestComposeRefusesACluster(t *testing.T) {
	bridges(t, func(r *rig) {
		address, err := redisconn.Parse("redis+cluster://127.0.0.1:1")
		if err != nil {
			r.Fatal(err)
		}
		nodes, err := address.Nodes(redisconn.Options{})
		if err != nil {
			r.Fatal(err)
		}
		target, err := modern.NewCluster(nodes, modern.Config{})
		if err != nil {
			r.Fatal(err)
		}
		defer target.Close()
		_, err = migrate.Compose(r.bridge(migrate.Dual), target)
		if err == nil || !strings.Contains(err.Error(), "a Redis Cluster of several nodes cannot be the target") {
			r.Errorf("%v", err)
		}
	})
}
