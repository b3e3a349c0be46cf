// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

var (
	withGuard = []migrate.Phase{migrate.Dual, migrate.Sealed, migrate.Modern}
	withTomb  = []migrate.Phase{migrate.Sealed, migrate.Modern}
)

// each runs a test in several phases.
func each(t *testing.T, phases []migrate.Phase, test func(r *rig, p migrate.Phase)) {
	t.Helper()
	for _, p := range phases {
		t.Run(p.String(), func(t *testing.T) { bridges(t, func(r *rig) { test(r, p) }) })
	}
}

// Bytes on the wire.

func TestNoOldClientsClockExpiresAMark(t *testing.T) {
	for _, d := range dialect.Presets() {
		if !d.HasTakeover() {
			continue
		}
		each(t, withGuard, func(r *rig, p migrate.Phase) {
			g := r.take(r.bridge(p, speaks(d)))
			for _, what := range []string{"guard", "tombstone"} {
				if p == migrate.Dual && what == "tombstone" {
					continue
				}
				bytes := r.get("k")
				for _, ahead := range []time.Duration{0, 40 * 365 * 24 * time.Hour} {
					if d.LegacyExpired(dialect.Text(bytes), d.NewID([16]byte{1}), r.w.Now().Add(ahead)) {
						r.Errorf("%s: the %s %q is past %v ahead", d.Name, what, bytes, ahead)
					}
				}
				if what == "guard" {
					_ = g.Release(background)
				}
			}
		})
	}
}

// Rule 4: the lease rule.

func TestALeaseBeyondTheRuleIsRefused(t *testing.T) {
	each(t, []migrate.Phase{migrate.Observe, migrate.Dual, migrate.Sealed, migrate.Modern},
		func(r *rig, p migrate.Phase) {
			b := r.bridge(p)
			g, err := b.Contract().Try(background, "k", lease)
			if g != nil || err == nil || errors.Is(err, lock.ErrHeld) ||
				!strings.Contains(err.Error(), "Lease") {
				r.Errorf("%v, %v", g, err)
			}
			if _, err := lock.New(b, lock.Config{TTL: lease}); err == nil ||
				!strings.Contains(err.Error(), "TTL") {
				r.Errorf("lock.New: %v", err)
			}
			r.wantKeys("", "")
		})
}

// It does by the first renewal that is more than the gap later.
func TestBridgeAsksForLongLeasesInModernOnly(t *testing.T) {
	const long = 10 * time.Minute
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		for _, tomb := range []bool{false, true} {
			if tomb {
				r.entomb()
				if p == migrate.Observe {
					continue // takes it for held
				}
			}
			b := r.bridge(p, func(c *migrate.Config) { c.LongLeases = true })
			g, err := b.Contract().Try(background, "k", long)
			if err != nil {
				r.Fatal(err)
			}
			rule, _ := b.Dialect().LongestLease(b.Terms())
			want := rule
			if p == migrate.Clean {
				want = long
			}
			check := func(when string, want time.Duration) {
				if got := r.left(keyM); got != want {
					r.Errorf("%s M ends in %v, want %v", when, got, want)
				}
				if l := r.get("k"); l != "" && l != tombstone && p != migrate.Observe && r.left("k") != want {
					r.Errorf("%s L ends in %v, want %v", when, r.left("k"), want)
				}
			}
			check("at first", want)
			r.w.Pass(b.Terms().Gap)
			if _, err := g.Extend(background, long); err != nil {
				r.Fatal(err)
			}
			check("within the gap", want)
			r.w.Pass(time.Millisecond)
			term, err := g.Extend(background, long)
			if err != nil {
				r.Fatal(err)
			}
			if p == migrate.Modern {
				want = long
			}
			check("beyond the gap", want)
			if term.TTL < want {
				r.Errorf("trusted for %v of %v", term.TTL, want)
			}
			r.release(g)
			r.del("k")
		}
	})
}

// TestAGapOfZeroMakesNoFirstLeaseLong: a claim of zero is no time before all
// others.
func TestAGapOfZeroMakesNoFirstLeaseLong(t *testing.T) {
	bridges(t, func(r *rig) {
		b := r.bridge(migrate.Modern,
			func(c *migrate.Config) {
				c.LongLeases, c.Terms.Gap, c.Terms.Spread = true, dialect.Zero, dialect.Zero
			})
		g, err := b.Contract().Try(background, "k", 10*time.Minute)
		if err != nil {
			r.Fatal(err)
		}
		if rule, _ := b.Dialect().LongestLease(b.Terms()); rule != lease+time.Millisecond ||
			r.left(keyM) != rule {
			r.Errorf("M ends in %v, and the rule says %v", r.left(keyM), rule)
		}
		r.w.Pass(time.Millisecond)
		if _, err := g.Extend(background, 10*time.Minute); err != nil || r.left(keyM) != 10*time.Minute {
			r.Errorf("M ends in %v after a renewal (%v)", r.left(keyM), err)
		}
		r.release(g)
	})
}

// It never exceeds the old clients' lease.
func TestLeaseIsShortWhereOldClientsCutTTLs(t *testing.T) {
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		b := r.bridge(p, speaks(dialect.BareExpire()), func(c *migrate.Config) { c.LongLeases = true })
		if g, err := b.Contract().Try(background, "k", 2*lease); err == nil {
			r.Errorf("%v", g)
		}
		if _, err := lock.New(b, lock.Config{TTL: 2 * lease}); err == nil {
			r.Error("lock.New allowed it")
		}
	})
}

func TestTimesForLongLeasesFitTheShortFirstOne(t *testing.T) {
	bridges(t, func(r *rig) {
		b := r.bridge(migrate.Modern, func(c *migrate.Config) { c.LongLeases = true })
		c, err := lock.New(b, lock.Config{TTL: time.Hour, Clock: r.w.Clock(r.skew())})
		if err != nil {
			r.Fatal(err)
		}
		defer c.Close(background)
		r.entomb()
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		l, err := c.Acquire(ctx, "k")
		if err != nil {
			r.Fatal(err)
		}
		r.w.Pass(30 * time.Minute)
		if err := l.Err(); err != nil {
			r.Error(err)
		}
		if left := r.left(keyM); left < 50*time.Minute {
			r.Errorf("M ends in %v", left)
		}
		if err := l.Release(); err != nil {
			r.Error(err)
		}
		if _, err := lock.New(b, lock.Config{TTL: time.Hour, RenewEvery: 20 * time.Minute}); err == nil {
			r.Error("a renewal that comes after the first lease has ended was allowed")
		}
	})
}

// Rule 10: release.

// Where the key means "done", no getsetlock client takes it again before its
// time. The old clients' stamp says "done" while it is there. From sealed on L
// holds a tombstone or nothing, and M has to say it.
func TestBridgeTakesNoTickThatIsDone(t *testing.T) {
	d := dialect.Machinery()
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		for _, tomb := range []bool{false, true} {
			if tomb && p == migrate.Observe {
				continue // held
			}
			r.del("k")
			if tomb {
				r.set("k", d.Tombstone())
			}
			b, other := r.bridge(p, speaks(d)), r.bridge(p, speaks(d))
			g := r.take(b)
			if sharer, ok := g.(backend.Sharer); ok {
				if _, shared := sharer.Share(); shared {
					r.Error("handed over")
				}
			}
			r.w.Pass(time.Second)
			r.release(g)
			if err := g.Release(background); !errors.Is(err, lock.ErrLost) {
				r.Errorf("released twice: %v", err)
			}
			if l := r.get("k"); (p == migrate.Sealed || p == migrate.Modern) && l != d.Tombstone() {
				r.Errorf("L is %q", l)
			}
			r.w.Pass(lease - 2*time.Second)
			r.held(b)
			r.held(other)
			r.w.Pass(time.Minute)
			r.release(r.take(other))
			r.w.Pass(2 * lease)
		}
	})
}

// Tombstones.

func TestLeaseDoesNotRestoreItsMissingTombstone(t *testing.T) {
	each(t, withTomb, func(r *rig, p migrate.Phase) {
		g := r.take(r.bridge(p))
		r.release(g)
		g = r.take(r.bridge(p))
		r.del("k")
		_, err := g.Extend(background, ttl)
		r.wantLost(err)
		r.wantLost(g.Release(background))
		r.wantKeys("", "")
	})
}

// TestAfterCleanAProgramMayUseModernOnTheSecondKeysName: alongside a member of
// clean, in either order. The fencing numbers go on.
func TestAfterCleanAProgramMayUseModernOnTheSecondKeysName(t *testing.T) {
	bridges(t, func(r *rig) {
		clean := r.bridge(migrate.Clean, func(c *migrate.Config) { c.Fence, c.Namespace = true, "shop" })
		plain, err := modern.New(r.wire.Pool(), modern.Config{Fence: true, Namespace: "shop"})
		if err != nil {
			r.Fatal(err)
		}
		defer plain.Close()
		last := int64(0)
		for range 2 {
			g := r.take(clean)
			if _, err := plain.Contract().Try(background, keyM, ttl); !errors.Is(err, lock.ErrHeld) {
				r.Errorf("modern beside clean: %v", err)
			}
			r.release(g)
			p, err := plain.Contract().Try(background, keyM, ttl)
			if err != nil {
				r.Fatal(err)
			}
			r.held(clean)
			if m := r.get(keyM); m != p.Token() {
				r.Errorf("modern has %q there, and its token is %q", m, p.Token())
			}
			r.release(p)
			a, b := g.(backend.Fenced).Fence(), p.(backend.Fenced).Fence()
			if a <= last || b <= a {
				r.Errorf("fencing numbers %d, %d, %d", last, a, b)
			}
			last = b
		}
		r.wantKeys("", "")
	})
}

func TestFencingNumbersIncreaseAcrossPhasesAndHandOvers(t *testing.T) {
	bridges(t, func(r *rig) {
		last := int64(0)
		next := func(g backend.Grant) {
			if n := g.(backend.Fenced).Fence(); n <= last {
				r.Errorf("%d after %d", n, last)
			} else {
				last = n
			}
		}
		for _, p := range []migrate.Phase{
			migrate.Observe, migrate.Dual, migrate.Sealed, migrate.Modern, migrate.Clean, migrate.Modern,
			migrate.Dual, migrate.Observe} {
			b := r.bridge(p, func(c *migrate.Config) { c.Fence, c.Namespace = true, "shop" })
			if p == migrate.Observe {
				r.del("k")
			}
			g := r.take(b)
			next(g)
			if p != migrate.Observe {
				for range 3 {
					shared, ok := g.(backend.Sharer).Share()
					if !ok {
						r.Fatal("not shared")
					}
					g = shared
					next(g)
				}
			}
			r.release(g)
		}
		b := r.bridge(migrate.Clean, func(c *migrate.Config) { c.Fence, c.Namespace = true, "shop" })
		r.take(b)
		counter := r.get("gsl:fence:shop:{m5p}")
		if counter == "" {
			r.Error("no counter of the namespace")
		}
		r.held(b)
		if r.get("gsl:fence:shop:{m5p}") != counter {
			r.Error("a refused attempt drew a number")
		}
	})
}

// TestACounterThatCannotBeReadLeavesNothingTaken: the counter's key is another
// program's, and the lock would have no number.
func TestACounterThatCannotBeReadLeavesNothingTaken(t *testing.T) {
	for _, text := range []string{"abc", "", "9999999999999999999", "nan"} {
		bridges(t, func(r *rig) {
			b := r.bridge(migrate.Dual, func(c *migrate.Config) { c.Fence, c.Namespace = true, "shop" })
			r.set("gsl:fence:shop:{m5p}", text)
			if g, err := b.Contract().Try(background, "k", ttl); err == nil ||
				!strings.Contains(err.Error(), "holds no fencing number") {
				r.Errorf("%q: grant %v, error %v", text, g, err)
			}
			r.wantKeys("", "")
			if now := r.get("gsl:fence:shop:{m5p}"); now != text {
				r.Errorf("the counter was %q and is %q", text, now)
			}
			r.del("gsl:fence:shop:{m5p}")
		})
	}
}

func TestSharingEndsWithTheReservedNumbersOfTheBlock(t *testing.T) {
	bridges(t, func(r *rig) {
		g := r.take(r.bridge(migrate.Dual, func(c *migrate.Config) { c.Fence = true }))
		shared := 0
		for {
			next, ok := g.(backend.Sharer).Share()
			if !ok {
				break
			}
			if err := g.Release(background); !errors.Is(err, lock.ErrLost) {
				r.Errorf("the old grant's release: %v", err)
			}
			g, shared = next, shared+1
		}
		if shared != 7 {
			r.Errorf("shared %d times", shared)
		}
		r.release(g)
	})
}

func TestConfigurationsThatCannotBeRightAreNamed(t *testing.T) {
	bridges(t, func(r *rig) {
		for _, c := range []struct {
			change func(*migrate.Config)
			says   string
		}{
			{func(c *migrate.Config) { c.Phases = nil }, "Config.Phases"},
			{func(c *migrate.Config) { c.Phases = migrate.Fixed(migrate.NoPhase) }, "none of observe"},
			{func(c *migrate.Config) { c.Namespace = "a\n" }, "namespace"},
			{func(c *migrate.Config) { c.Dialect, c.Terms = dialect.RedisPy(), dialect.Terms{} }, "Lease"},
			{func(c *migrate.Config) { c.Terms.Spread = time.Hour }, "Spread"},
		} {
			cfg := r.config(migrate.Dual)
			c.change(&cfg)
			if _, err := migrate.New(r.w.Pool(), cfg); err == nil || !strings.Contains(err.Error(), c.says) {
				r.Errorf("%v, want %q", err, c.says)
			}
		}
		b := r.bridge(migrate.Dual)
		if _, err := b.Contract().Try(background, "", ttl); err == nil {
			r.Error("an empty key was taken")
		}
	})
}

// TestOnlyATakenLForgetsTheRememberedLook: the look is about the bytes that L
// held before.
func TestOnlyATakenLForgetsTheRememberedLook(t *testing.T) {
	const look = "{k}:gsl:look"
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		if p == migrate.Observe {
			return // package legacy's
		}
		b := r.bridge(p, func(c *migrate.Config) { c.Terms.Behind = dialect.Zero })
		for name, c := range map[string]struct {
			stands func() // on L
			keeps  bool
		}{
			"free":         {func() {}, p == migrate.Clean},
			"a past stamp": {func() { r.set("k", r.stamp(-time.Hour)) }, p == migrate.Clean},
			"a tombstone":  {r.entomb, p != migrate.Dual},
			"a live stamp": {func() { r.set("k", r.stamp(time.Hour)) }, true},
		} {
			r.w.Mini.HSet(look, "bytes", "a past stamp")
			c.stands()
			g, err := b.Contract().Try(background, "k", ttl)
			if _, kept := r.w.Mini.DB(0).HKeys(look); (kept == nil) != c.keeps {
				r.Errorf("%s: the look is kept: %t, want %t (%v)", name, kept == nil, c.keeps, err)
			}
			if g != nil {
				r.release(g)
			}
			r.del("k")
			r.del(look)
		}
	})
}

// A lease of any phase may be renewed, whatever phase the asker is in. One
// whose guard an old client deleted is not.
func TestHeldSaysWhetherALeaseMayBeRenewed(t *testing.T) {
	phases := []migrate.Phase{migrate.Observe, migrate.Dual, migrate.Sealed, migrate.Modern, migrate.Clean}
	for i, holder := range phases {
		for _, asker := range phases[max(i-1, 0):min(i+2, len(phases))] {
			bridges(t, func(r *rig) {
				g := r.take(r.bridge(holder))
				e := r.held(r.bridge(asker))
				if e.Final || e.Until.IsZero() || !strings.Contains(e.Error(), "may be renewed") {
					r.Errorf("%v asks beside %v: %v", asker, holder, e)
				}
				r.release(g)
			})
		}
	}
	bridges(t, func(r *rig) {
		g := r.take(r.bridge(migrate.Dual))
		r.w.Mini.Del("k")
		if e := r.held(r.bridge(migrate.Dual)); !e.Final || !strings.Contains(e.Error(), "is not renewed") {
			r.Errorf("after an old client's DEL: %v", e)
		}
		if err := g.Release(background); !errors.Is(err, lock.ErrLost) {
			r.Error(err)
		}
	})
}

// movable is a phase that a test moves.
type movable struct{ at migrate.Phase }

func (m *movable) Phase(context.Context) (migrate.Phase, error) { return m.at, nil }

// A member sees the server's clock set forward while it is in observe. What it
// saw counts in dual.
func TestStepSeenInObserveCountsInDual(t *testing.T) {
	bridges(t, func(r *rig) {
		phases := &movable{migrate.Observe}
		b := r.bridge(migrate.Observe, func(c *migrate.Config) { c.Phases = phases })
		r.set("k", r.stamp(time.Minute))
		if _, err := b.Contract().Try(background, "k", ttl); !errors.Is(err, lock.ErrHeld) {
			r.Fatal(err)
		}
		r.w.StepServer(2 * time.Minute)
		old := r.stamp(-time.Minute) // taken now by a client whose clock did not step
		r.set("k", old)
		if _, err := b.Contract().Try(background, "k", ttl); !errors.Is(err, lock.ErrHeld) {
			r.Errorf("in observe: %v", err)
		}
		phases.at = migrate.Dual
		if _, err := b.Contract().Try(background, "k", ttl); !errors.Is(err, lock.ErrHeld) {
			r.Errorf("in dual: %v", err)
		}
		if got := r.get("k"); got != old {
			r.Errorf("L is %q, want %q", got, old)
		}
	})
}
