// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/modern"
)

// composers is a fleet whose members compose their locks with a target of one
// name.
type composers struct {
	*testing.T
	w     *redistest.World
	clock *redistest.Clock
}

func composing(t *testing.T, p Phase, test func(*composers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &composers{t, redistest.Bubble(t), nil}
		c.clock = c.w.Clock(redistest.Skew{})
		first := Record{Epoch: 1, Phase: p, Since: c.w.ServerNow(), Dialect: "Jedis"}
		if p == Clean {
			first.Target = "etcd"
		}
		if err := c.w.Mini.Set(record.Key(""), first.String()); err != nil {
			t.Fatal(err)
		}
		test(c)
	})
}

func (c *composers) join(target backend.Store) (*Member, *Composed) {
	c.Helper()
	c.w.Pass(time.Millisecond) // of two that join at one instant the ids decide
	m, err := Join(c.Context(), c.w.Pool(), MemberConfig{Clock: asleep{c.clock}, Target: "etcd"})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = m.Leave() })
	b, err := New(c.w.Pool(), Config{Phases: m, Clock: c.clock})
	if err != nil {
		c.Fatal(err)
	}
	composed, err := Compose(b, target)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = composed.Close() })
	return m, composed
}

// beats makes a round of each member, and returns what they say that they saw.
func (c *composers) beats(members ...*Member) (saw []string) {
	c.Helper()
	for _, m := range members {
		if err := m.Refresh(c.Context()); err != nil {
			c.Fatal(err)
		}
		saw = append(saw, published(c.T, c.w, m).Sight)
	}
	return saw
}

// takes reports whether a composed lock is taken. It is given back.
func (c *composers) takes(b *Composed) error {
	g, err := b.Contract().Try(c.Context(), "k", time.Second)
	if err == nil {
		err = g.Release(c.Context())
	}
	return err
}

// TestMembersSeeOneTarget: each is refused by what the first one holds. Where
// that one leaves or is killed, another takes its place.
func TestMembersSeeOneTarget(t *testing.T) {
	composing(t, Clean, func(c *composers) {
		store := locktest.NewStore(c.clock)
		a, _ := c.join(store.Backend())
		b, composed := c.join(store.Backend())
		if saw := c.beats(b, a, b); saw[0] != "" || saw[1] != a.ID() || saw[2] != a.ID() {
			t.Fatalf("%q", saw)
		}
		if err := c.takes(composed); err != nil {
			t.Fatal(err)
		}
		if err := a.Goodbye(c.Context()); err != nil || store.Holder("gsl-target:"+a.ID()) != "" {
			t.Fatalf("%v, left: %q", err, store.Holder("gsl-target:"+a.ID()))
		}
		d, composed := c.join(store.Backend())
		if saw := c.beats(d, b, d); saw[0] != "" || saw[1] != b.ID() || saw[2] != b.ID() {
			t.Fatalf("%q", saw)
		}
		_ = b.Leave()
		c.w.Pass(record.BeatsMissed*defaultEvery + time.Second)
		e, late := c.join(store.Backend())
		if saw := c.beats(d, e); saw[0] != d.ID() || saw[1] != d.ID() {
			t.Fatalf("%q", saw)
		}
		for _, one := range []*Composed{composed, late} {
			if err := c.takes(one); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestTwoTargetsOfOneNameAreTold: a member in the wrong one takes nothing, in
// any phase, whether or not another one is there too.
func TestTwoTargetsOfOneNameAreTold(t *testing.T) {
	for _, p := range []Phase{Observe, Modern, Clean} {
		composing(t, p, func(c *composers) {
			store, other := locktest.NewStore(c.clock), locktest.NewStore(c.clock)
			a, right := c.join(store.Backend())
			b, wrong := c.join(other.Backend())
			d, wrong2 := c.join(other.Backend())
			for range 3 {
				if saw := c.beats(a, b, d); saw[0] != a.ID() || saw[1] != "" || saw[2] != "" {
					t.Errorf("%v: %q", p, saw)
				}
			}
			if err := c.takes(right); err != nil {
				t.Errorf("%v: %v", p, err)
			}
			for _, one := range []*Composed{wrong, wrong2} {
				says := "gives this program a key that member " + a.ID()
				if err := c.takes(one); err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%v: %v", p, err)
				}
			}
			if probe := published(t, c.w, b).Probe; !strings.Contains(probe, a.ID()) {
				t.Errorf("%v: %s", p, probe)
			}
		})
	}
}

// TestCleanTakesNothingBeforeItsTargetIsSeen: a program that starts in clean
// asks at once, and one at a time.
func TestCleanTakesNothingBeforeItsTargetIsSeen(t *testing.T) {
	composing(t, Clean, func(c *composers) {
		store := locktest.NewStore(c.clock)
		a, _ := c.join(store.Backend())
		c.beats(a)
		b, composed := c.join(store.Backend())
		if err := c.w.Mini.Set(record.TurnKey(""), "another"); err != nil {
			t.Fatal(err)
		}
		if err := c.takes(composed); err == nil || !strings.Contains(err.Error(), "before it has seen") {
			t.Errorf("in another member's turn: %v", err)
		}
		c.w.Mini.Del(record.TurnKey(""))
		if err := c.takes(composed); err != nil || c.w.Mini.Exists(record.TurnKey("")) {
			t.Errorf("%v, its turn is over: %v", err, !c.w.Mini.Exists(record.TurnKey("")))
		}
		if saw := b.State().Sight; saw != a.ID() {
			t.Errorf("%q", saw)
		}
	})
}

// renamed is a target whose keys have other names.
type renamed struct {
	backend.Backend
	name func(string) string
}

func (r renamed) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	return r.Backend.Try(ctx, r.name(key), ttl)
}

// TestTargetOnTheOldKeysIsRefused: L or M itself, on the same server. Next
// to them it is a target like any other.
func TestTargetOnTheOldKeysIsRefused(t *testing.T) {
	for name, key := range map[string]func(string) string{
		"L":            func(k string) string { return k },
		"M":            func(k string) string { return "{" + k + "}:gsl" },
		"next to them": func(k string) string { return "new:" + k },
	} {
		composing(t, Dual, func(c *composers) {
			store, err := modern.New(c.w.Pool(), modern.Config{})
			if err != nil {
				t.Fatal(err)
			}
			m, composed := c.join(backend.Of(renamed{store.Contract(), key}))
			c.beats(m)
			err = c.takes(composed)
			said := published(t, c.w, m).Probe
			for _, text := range []string{fmt.Sprint(err), said} {
				if strings.Contains(text, "keys of its own") != (name != "next to them") {
					t.Errorf("%s: %s", name, text)
				}
			}
		})
	}
}
