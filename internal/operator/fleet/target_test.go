// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/migrate"
)

// mover is a program of a fleet that moves to another store.
type mover struct {
	*migrate.Member
	backend.Backend
}

// moves joins a program that composes its locks with a store, or with none.
func (f *fleet) moves(name, target string, store *locktest.Store) mover {
	f.t.Helper()
	m := f.join(migrate.MemberConfig{Name: name, Target: target})
	if target == "" {
		return mover{m, f.locks(m).Contract()}
	}
	return f.composed(m, f.locks(m), store.Backend())
}

func (f *fleet) composed(m *migrate.Member, b *migrate.Bridge, target backend.Store) mover {
	f.t.Helper()
	c, err := migrate.Compose(b, target)
	if err != nil {
		f.t.Fatal(err)
	}
	return mover{m, c.Contract()}
}

func (f *fleet) store() *locktest.Store { return locktest.NewStore(f.w.Clock(redistest.Skew{})) }

// alone fails where another program gets the lock that holder has.
func (f *fleet) alone(when string, holder, other mover) {
	f.t.Helper()
	held, err := holder.Try(bg, "till", 30*time.Second)
	if err != nil {
		f.t.Errorf("%s: %v", when, err)
		return
	}
	if both, err := other.Try(bg, "till", 30*time.Second); err == nil {
		f.t.Errorf("%s: both hold", when)
		_ = both.Release(bg)
	}
	if err := held.Release(bg); err != nil {
		f.t.Errorf("%s: %v", when, err)
	}
}

func (f *fleet) leaves(m mover) {
	f.t.Helper()
	if err := m.Goodbye(bg); err != nil {
		f.t.Fatal(err)
	}
}

// TestCleanWaitsUntilAllMembersSeeOneTarget: two stores have one name, and in
// clean both members would hold.
func TestCleanWaitsUntilAllMembersSeeOneTarget(t *testing.T) {
	inBubble(t, func(f *fleet) {
		store := f.store()
		a := f.moves("shop", "etcd", store)
		f.to(migrate.Modern)
		b := f.moves("till", "etcd", f.store())
		f.beats()
		r := f.clean(Options{Go: true})
		closed(t, r.Gate, "target")
		if says := r.Gate.Blocks[0].Detail; r.Moved ||
			!strings.Contains(says, b.ID()+" (till) has not been refused") {
			t.Fatalf("moved %v: %s", r.Moved, says)
		}
		f.leaves(b)
		c := f.moves("till 2", "etcd", store)
		f.beats()
		if r := f.clean(Options{Go: true, Wait: time.Minute}); !r.Over {
			t.Fatalf("%+v", r.Gate)
		}
		f.beats()
		f.alone("clean", a, c)
		late := f.moves("late", "etcd", f.store())
		f.beats()
		f.alone("clean, beside a late one in another store", a, late)
	})
}

// TestCleanRefusesMembersWithAnotherTarget: they may join at any time.
func TestCleanRefusesMembersWithAnotherTarget(t *testing.T) {
	for name, c := range map[string]struct{ fleet, joins, says string }{
		"none":    {"etcd", "", `takes its locks by the target "etcd", and this program by none`},
		"another": {"etcd", "keeper", `by the target "etcd", and this program by "keeper"`},
		"one":     {"", "etcd", "went to clean without a target"},
	} {
		inBubble(t, func(f *fleet) {
			store := f.store()
			a := f.moves("shop", c.fleet, store)
			f.to(migrate.Clean)
			b := f.moves("late", c.joins, f.store())
			taken, err := b.Try(bg, "till", 30*time.Second)
			if !errors.Is(err, migrate.ErrNoPhase) {
				t.Errorf("%s: %v", name, err)
			}
			if taken != nil {
				_ = taken.Release(bg)
			}
			says(t, err, c.says)
			f.alone(name, a, b)

			// The way out of clean waits for it, as for every member.
			f.beats()
			r := f.init(Options{Go: true})
			closed(t, r.Gate, "target")
			f.leaves(b)
			if r := f.init(Options{Go: true}); !r.Moved || r.Target != c.fleet {
				t.Fatalf("%s: begun anew: %+v", name, r)
			}
			if n := f.at(migrate.Observe); n.Target != c.fleet {
				t.Errorf("%s: while leases of clean may run the record names %q", name, n.Target)
			}
			d := f.moves("early", c.joins, f.store())
			held, err := d.Try(bg, "till", time.Second)
			if (err == nil) != (c.fleet == "") {
				t.Errorf("%s: while leases of clean may run: %v", name, err)
			}
			if held != nil && held.Release(bg) != nil {
				t.Errorf("%s: the lock was lost", name)
			}
			f.leaves(d)
			f.beats()
			if r := f.init(Options{Go: true, Wait: time.Minute}); !r.Over || r.Target != "" {
				t.Fatalf("%s: %v, target %q, %v", name, r.Over, r.Target, r.Gate)
			}
			f.beats()
			f.alone(name+", anew", a, f.moves("new", c.joins, store))
		})
	}
}

// TestProgramWithATargetComposesAllItsLocks: its heartbeat says so.
func TestProgramWithATargetComposesAllItsLocks(t *testing.T) {
	inBubble(t, func(f *fleet) {
		m := f.join(migrate.MemberConfig{Target: "etcd"})
		f.to(migrate.Dual)
		b := f.locks(m)
		_, err := b.Contract().Try(bg, "till", time.Second)
		says(t, err, "take it by migrate.Compose")

		plain := f.join(migrate.MemberConfig{})
		other, err := migrate.New(f.w.Pool(), migrate.Config{Phases: plain})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		_, err = migrate.Compose(other, f.store().Backend())
		says(t, err, "set MemberConfig.Target")
	})
}

func TestTargetIsWrittenOnlyWhereThereIsOne(t *testing.T) {
	r, m := sampleRecords()[3], sampleMembers()[1]
	if strings.Contains(r.String()+m.String(), "target") {
		t.Errorf("%q, %q", r, m)
	}
	r.Target, m.Target = "etcd, a b=1", "etcd, a b=1"
	if got, err := migrate.ParseRecord(r.String()); err != nil || got.Target != r.Target ||
		!strings.HasSuffix(r.String(), " evidence=- target=etcd%2C+a+b%3D1") {
		t.Errorf("%q is read as %+v, %v", r, got, err)
	}
	if got, err := migrate.ParseMember(m.String()); err != nil || got.Target != m.Target ||
		!strings.Contains(m.String(), " leaving=- target=etcd%2C+a+b%3D1 seen=") {
		t.Errorf("%q is read as %+v, %v", m, got, err)
	}
	for _, bad := range []string{r.String() + " target=a", sampleRecords()[3].String() + " target="} {
		if got, err := migrate.ParseRecord(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
	for name, says := range map[string]string{strings.Repeat("a", 201): "201 bytes", "\xff": "UTF-8"} {
		if _, err := migrate.Join(bg, nil, migrate.MemberConfig{Target: name}); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
