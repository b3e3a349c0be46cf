// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/modern"
)

// late is a target that answers after a while where "k" is asked for. Others
// are the keys by which members find each other there.
type late struct {
	backend.Backend
	answer func()
}

func (l late) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	if key == "k" {
		defer l.answer()
	}
	return l.Backend.Try(ctx, key, ttl)
}

// A gate may have taken the member for dead while the target did not answer.
func TestComposedTakesNothingForAMemberSilentForLong(t *testing.T) {
	for _, p := range Phases() {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { silentInside(t, p) })
		})
	}
}

func silentInside(t *testing.T, p Phase) {
	w := redistest.Bubble(t)
	wire, clock := w.Wire(), w.Clock(redistest.Skew{})
	store := locktest.NewStore(clock)
	c := asMember(t, w, wire, clock, p,
		backend.Of(late{store.Backend().Contract(), func() { unheard(w, wire) }}))
	if g, err := c.Contract().Try(t.Context(), "k", 30*time.Second); err == nil {
		t.Errorf("taken: %v", g)
	}
	if store.Holder("k") != "" || w.Mini.Exists("{k}:gsl") {
		t.Errorf("left: the target %q, M %v", store.Holder("k"), w.Mini.Exists("{k}:gsl"))
	}
}

// unheard lets the member's heartbeats fail for so long that a gate may take it
// for dead.
func unheard(w *redistest.World, wire *redistest.Wire) {
	wire.Fault(redistest.Rule{Times: -1, Do: redistest.CutBefore})
	w.Pass(record.LeastRenewals + time.Second)
}

// asMember returns the Composed of a member that speaks over wire.
func asMember(t *testing.T, w *redistest.World, wire *redistest.Wire, clock *redistest.Clock, p Phase,
	target backend.Store) *Composed {
	t.Helper()
	first := Record{Epoch: 1, Phase: p, Since: w.ServerNow(), Dialect: "Jedis"}
	if p == Clean {
		first.Target = "elsewhere"
	}
	if err := w.Mini.Set(record.Key(""), first.String()); err != nil {
		t.Fatal(err)
	}
	m, err := Join(t.Context(), wire.Pool(), MemberConfig{Clock: asleep{clock}, Target: "elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Leave() })
	b, err := New(w.Pool(), Config{Phases: m, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Compose(b, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// queueing is the contract of a backend with a queue.
type queueing interface {
	backend.Backend
	backend.Queuer
}

// lateQueue is a target whose places answer a grant after a while.
type lateQueue struct {
	queueing
	answer func()
}

func (q *lateQueue) Enter(ctx context.Context, key string) (backend.Place, error) {
	p, err := q.queueing.Enter(ctx, key)
	return &latePlace{p, q}, err
}

type latePlace struct {
	backend.Place
	q *lateQueue
}

func (p *latePlace) Try(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	g, err := p.Place.Try(ctx, ttl)
	if err == nil {
		p.q.answer()
	}
	return g, err
}

// The place in the target's queue is used up by the grant that is undone.
func TestComposedWaiterTriesOnAfterAnUndoneGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		wire, clock := w.Wire(), w.Clock(redistest.Skew{})
		target, err := modern.New(redistest.Bubble(t).Pool(), modern.Config{})
		if err != nil {
			t.Fatal(err)
		}
		late := &lateQueue{target.Contract().(queueing), func() { unheard(w, wire) }}
		c := asMember(t, w, wire, clock, Clean, backend.Of(late))
		held, err := c.Contract().Try(t.Context(), "k", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		place, err := c.Contract().(backend.Queuer).Enter(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := place.Try(t.Context(), 30*time.Second); !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if g, err := place.Try(t.Context(), 30*time.Second); err == nil {
			t.Fatalf("taken by a silent member: %v", g)
		}
		wire.Calm()
		if _, err := place.Try(t.Context(), 30*time.Second); err != nil {
			t.Error(err)
		}
	})
}
