// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/migrate"
)

// found is what a backend says of the lock.
func (r *rig) found(b backend.Store) lock.Info {
	r.Helper()
	info, err := b.Contract().(backend.Inspector).Describe(background, "k")
	if err != nil {
		r.Fatal(err)
	}
	return info
}

func (r *rig) force(b backend.Store, value string, want bool) {
	r.Helper()
	if done, err := b.Contract().(backend.Inspector).ForceRelease(background, "k", value); err != nil ||
		done != want {
		r.Fatalf("freed %v, %v; want %v", done, err, want)
	}
}

// afterRelease is what a release of a phase leaves on L.
func afterRelease(p migrate.Phase) string {
	if p == migrate.Sealed || p == migrate.Modern {
		return tombstone
	}
	return ""
}

// freedByForce frees the lock of a holder, and of the next one.
func (r *rig) freedByForce(b backend.Store, p migrate.Phase) {
	r.Helper()
	if info := r.found(b); info.Held != nil {
		r.Errorf("a free key: %+v", info)
	}
	for range 2 { // from sealed on, L has the tombstone at the second one
		g := r.take(b)
		info := r.found(b)
		if !errors.Is(info.Held, lock.ErrHeld) || info.Value == "" {
			r.Fatalf("a held key: %+v", info)
		}
		r.force(b, info.Value, true)
		r.wantKeys(afterRelease(p), "")
		if _, err := g.Extend(background, ttl); !errors.Is(err, lock.ErrLost) {
			r.Errorf("the holder's next renewal: %v", err)
		}
		next := r.take(b)
		r.force(b, info.Value, false)
		r.release(next)
		if info := r.found(b); info.Held != nil {
			r.Errorf("a key that was released: %+v", info)
		}
	}
}

func TestBridgeFreesAKeyByForceAsItsHolderWould(t *testing.T) {
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		r.freedByForce(b, p)
		if p == migrate.Clean {
			return
		}
		stamp := r.stamp(time.Minute)
		r.set("k", stamp)
		if info := r.found(b); info.Value != stamp || !errors.Is(info.Held, lock.ErrHeld) {
			r.Errorf("an old client's lock: %+v", info)
		}
		r.force(b, stamp, true)
		r.wantKeys("", "")
		r.entomb()
		if done, err := b.Contract().(backend.Inspector).ForceRelease(background, "k",
			tombstone); err == nil {
			r.Errorf("a tombstone was deleted by force: %v", done)
		}
		r.wantKeys(tombstone, "")
	})
}

func TestComposedFreesBothKeysByForce(t *testing.T) {
	composed(t, migrate.Phases(), func(r *elsewhere, p migrate.Phase) {
		c := r.compose(p)
		r.freedByForce(c, p)
		g := r.take(c)
		r.force(c, r.found(c).Value, true)
		if there := r.there(); there != "" {
			r.Errorf("the target is %q", there)
		}
		if err := g.Release(background); !errors.Is(err, lock.ErrLost) {
			r.Errorf("released after that: %v", err)
		}
		if p == migrate.Clean {
			return
		}
		// An old client holds, and then a holder of the target alone.
		r.set("k", r.stamp(time.Minute))
		r.force(c, r.found(c).Value, true)
		r.far.Mini.Set("k", "alone")
		if info := r.found(c); !errors.Is(info.Held, lock.ErrHeld) {
			r.Errorf("the target alone is held: %+v", info)
		}
		r.force(c, r.found(c).Value, true)
		for _, value := range []string{"", "x", "-1 x", "99 x", "1  "} {
			if done, err := c.Contract().(backend.Inspector).ForceRelease(background, "k", value); done {
				r.Errorf("%q freed the key: %v", value, err)
			}
		}
	})
}

func TestComposedNeedsATargetThatCanBeInspected(t *testing.T) {
	composed(t, migrate.Phases(), func(r *elsewhere, p migrate.Phase) {
		c := r.over(p, locktest.NewStore(r.w.Clock(redistest.Skew{})).Backend())
		if _, err := c.Contract().(backend.Inspector).Describe(background, "k"); !errors.Is(err,
			errors.ErrUnsupported) {
			r.Error(err)
		}
		if _, err := c.Contract().(backend.Inspector).ForceRelease(background, "k", "x"); !errors.Is(err,
			errors.ErrUnsupported) {
			r.Error(err)
		}
	})
}

// getsetlock unlock and legacy's backend know no phase. They free a dead
// holder's lock by its token, and the tombstone under it keeps old clients out.
func TestDeleteByTokenSparesTheTombstone(t *testing.T) {
	each(t, []migrate.Phase{migrate.Sealed, migrate.Modern}, func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		r.entomb()
		g := r.take(b)
		old, err := legacy.New(r.wire.Pool(), legacy.Config{Terms: dialect.Terms{Lease: lease}})
		if err != nil {
			r.Fatal(err)
		}
		defer old.Close()
		deleted, err := old.CompareAndDelete(background, "k", g.Token())
		if err != nil || !deleted.Mark || deleted.Lock {
			r.Errorf("%+v, %v", deleted, err)
		}
		r.wantKeys(tombstone, "")
	})
}
