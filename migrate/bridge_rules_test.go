package migrate_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
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

func TestEachPhaseLeavesItsOwnMark(t *testing.T) {
	guard := regexp.MustCompile(`^[4-9][0-9]{18}$`)
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		g := r.take(r.bridge(p))
		l, m := r.get("k"), r.get(keyM)
		switch {
		case p == migrate.Clean && (l != "" || m != g.Token()),
			p == migrate.Observe && (l != r.stamp(ttl+24*time.Hour+time.Millisecond) || m != g.Token()+" "+l),
			p != migrate.Clean && p != migrate.Observe &&
				(!guard.MatchString(l) || l == tombstone || m != g.Token()+" "+l):
			r.Errorf("L %q, M %q", l, m)
		}
		if p != migrate.Observe && (r.left(keyM) != ttl || l != "" && r.left("k") != ttl) {
			r.Errorf("L ends in %v, M in %v", r.left("k"), r.left(keyM))
		}
		r.release(g)
		left := ""
		if p == migrate.Sealed || p == migrate.Modern {
			left = tombstone
		}
		r.wantKeys(left, "")
		if left != "" && r.left("k") != 30*24*time.Hour {
			r.Errorf("the tombstone ends in %v", r.left("k"))
		}
	})
}

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

func TestTwoGrantsNeverDrawTheSameGuard(t *testing.T) {
	bridges(t, func(r *rig) {
		b, seen := r.bridge(migrate.Dual), map[string]bool{}
		for range 200 {
			g := r.take(b)
			if l := r.get("k"); seen[l] || seen[g.Token()] {
				r.Fatalf("%q again", l)
			}
			seen[r.get("k")], seen[g.Token()] = true, true
			r.release(g)
		}
	})
}

// Rules 1 to 3: what may be taken over, and how.

func TestAValueThatIsNotExpiredIsHeld(t *testing.T) {
	for _, value := range []string{"1", "not a number", "9223372036854775806", "", "1790000000"} {
		each(t, withGuard, func(r *rig, p migrate.Phase) {
			if value == "" {
				value = r.stamp(time.Second)
			}
			r.set("k", value)
			r.held(r.bridge(p))
			r.wantKeys(value, "")
		})
	}
}

// What is judged is an argument that may be missing, and then is no value.
func TestAnEmptyValueIsHeld(t *testing.T) {
	each(t, withGuard, func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		r.set("k", "")
		for range 2 { // the first one also asks for the clock
			r.held(b)
			if !r.w.Mini.Exists("k") || r.get("k") != "" || r.w.Mini.Exists(keyM) {
				r.Fatalf("L %q, M %q", r.get("k"), r.get(keyM))
			}
		}
	})
}

func TestAnExpiredStampIsTakenOverAfterTheMarginAndASettle(t *testing.T) {
	each(t, withGuard, func(r *rig, p migrate.Phase) {
		r.set("k", r.stamp(-time.Second)) // within the spread of the old clients' clocks
		r.held(r.bridge(p))
		b := r.bridge(p) // which did not see the value change
		r.set("k", r.stamp(-time.Second-time.Millisecond))
		began := r.w.Now()
		g := r.take(b)
		if d := r.w.Now().Sub(began); d <= b.Terms().Gap {
			r.Errorf("settled for %v", d)
		}
		if n := b.Stats().Takeovers; n != 1 {
			r.Errorf("%d takeovers counted", n)
		}
		r.release(g)
	})
}

func TestATakeoverReplacesOnlyWhatWasJudged(t *testing.T) {
	each(t, withGuard, func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		r.take(r.bridge(migrate.Dual, func(c *migrate.Config) { c.Clock = nil })) // the scripts are known
		r.del("k")
		r.del(keyM)
		r.set("k", r.stamp(-time.Minute))
		other := r.stamp(30 * time.Second)
		r.between(2, func() { r.set("k", other) })
		r.held(b)
		r.wantKeys(other, "")
	})
}

func TestAStandingMarkIsNotTakenOverWithoutItsM(t *testing.T) {
	each(t, withGuard, func(r *rig, p migrate.Phase) {
		g := r.take(r.bridge(migrate.Dual))
		guard := r.get("k")
		r.del(keyM)
		r.held(r.bridge(p))
		r.wantKeys(guard, "")
		_ = g
	})
}

func TestUnchangedBytesAreJudgedByElapsedTimeAlone(t *testing.T) {
	each(t, withGuard, func(r *rig, p migrate.Phase) {
		b := r.bridge(p, func(c *migrate.Config) { c.Takeover = legacy.Unchanged(lease) })
		r.set("k", r.stamp(-time.Hour)) // a clock an hour behind
		began := r.w.Now()
		for {
			g, err := b.Contract().Try(background, "k", ttl)
			if err == nil {
				r.release(g)
				break
			}
			r.wantHeld(g, err)
			r.w.Pass(100 * time.Millisecond)
		}
		if d := r.w.Now().Sub(began); d < lease {
			r.Errorf("taken over after %v", d)
		}
	})
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

// Rules 5 and 6: settle.

func TestASettleFindsTheStalledLoser(t *testing.T) {
	each(t, withGuard, func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		r.set("k", r.stamp(-time.Minute))
		other := r.stamp(59 * time.Second)
		g, err := r.during(b, background, func() { r.set("k", other) })
		r.wantHeld(g, err)
		r.wantKeys(other, "")
		if s := b.Stats(); s.Clobbered != 1 || s.Acquired != 0 {
			r.Errorf("%+v", s)
		}
	})
}

func TestASettleFindsThatTheTokenIsGone(t *testing.T) {
	each(t, withGuard, func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		r.set("k", r.stamp(-time.Minute))
		g, err := r.during(b, background, func() { r.del(keyM) })
		r.wantHeld(g, err)
		if n := b.Stats().Taken; n != 1 {
			r.Errorf("counted %d times", n)
		}
	})
}

func TestAnEndedContextInASettleIsUndone(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Jedis(), dialect.JedisUUID()} {
		each(t, withTomb, func(r *rig, p migrate.Phase) {
			b := r.bridge(p, speaks(d), func(c *migrate.Config) { c.SettleAlways = true })
			ctx, cancel := context.WithCancel(background)
			g, err := r.during(b, ctx, cancel)
			var unsure *backend.UnsureError
			if g != nil || !errors.As(err, &unsure) {
				r.Fatalf("%v, %v", g, err)
			}
			r.release(unsure.Grant)
			// An old client that finds its own bytes would take the lock over
			// the tombstone, and nobody would notice.
			left := d.Tombstone()
			if d.OrMine {
				left = ""
			}
			r.wantKeys(left, "")
		})
	}
}

// TestASettleOutlastsTheWaitOfTheAcquire: the key was taken in time.
func TestASettleOutlastsTheWaitOfTheAcquire(t *testing.T) {
	each(t, withGuard, func(r *rig, p migrate.Phase) {
		b := r.bridge(p, func(c *migrate.Config) { c.SettleAlways = true })
		client, err := lock.New(b, lock.Config{TTL: ttl, Wait: time.Millisecond})
		if err != nil {
			r.Fatal(err)
		}
		defer client.Close(background)
		l, err := client.Acquire(background, "k")
		if err != nil {
			r.Fatal(err)
		}
		if err := l.Release(); err != nil {
			r.Error(err)
		}
	})
}

// Old clients of such a dialect take their own bytes for their lock. A
// tombstone needs no settle.
func TestBridgeSettlesEachTimeForOrMineClients(t *testing.T) {
	each(t, withGuard, func(r *rig, p migrate.Phase) {
		b := r.bridge(p, speaks(dialect.JedisUUID()),
			func(c *migrate.Config) { c.Terms.Gap = 3 * time.Second })
		for i := range 2 {
			began := r.w.Now()
			g := r.take(b)
			settled := r.w.Now().Sub(began) > 3*time.Second
			if want := i == 0 || p == migrate.Dual; settled != want {
				r.Errorf("acquisition %d: settled %v", i+1, settled)
			}
			r.release(g)
		}
	})
}

func TestASettledGuardIsHandedOnWithoutASettle(t *testing.T) {
	each(t, withGuard, func(r *rig, p migrate.Phase) {
		b := r.bridge(p, speaks(dialect.JedisUUID()))
		g := r.take(b)
		guard, began := r.get("k"), r.w.Now()
		next, ok := g.(backend.Sharer).Share()
		if !ok || !r.w.Now().Equal(began) || r.get("k") != guard {
			r.Fatalf("shared %v, after %v L is %q, was %q", ok, r.w.Now().Sub(began), r.get("k"), guard)
		}
		r.wantKeys(guard, next.Token()+" "+guard)
		r.release(next)
		if l := r.get("k"); p != migrate.Dual && l != dialect.JedisUUID().Tombstone() {
			r.Errorf("L is %q after the release of a settled guard", l)
		}
	})
}

func TestUndoingAnUnsettledAttemptLeavesTheTombstoneItFound(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Jedis(), dialect.JedisUUID()} {
		each(t, withTomb, func(r *rig, p migrate.Phase) {
			r.set("k", d.Tombstone())
			b := r.bridge(p, speaks(d))
			r.warm(b)
			r.fault()
			_, err := b.Contract().Try(background, "k", ttl)
			var unsure *backend.UnsureError
			if !errors.As(err, &unsure) {
				r.Fatalf("%v", err)
			}
			r.release(unsure.Grant)
			r.wantKeys(d.Tombstone(), "")
		})
	}
}

// Rules 7 and 8: looking at L, and what its loss means.

var losses = []struct {
	what  string
	do    func(r *rig)
	count func(migrate.BridgeStats) int64
	says  string
}{
	{"overwritten", func(r *rig) { r.set("k", r.stamp(time.Minute)) },
		func(s migrate.BridgeStats) int64 { return s.Clobbered }, "overwritten"},
	{"another type", func(r *rig) {
		r.del("k")
		r.w.Mini.Lpush("k", "x")
	}, func(s migrate.BridgeStats) int64 { return s.Clobbered }, "list"},
	{"another's guard", func(r *rig) { r.set("k", "4000000000000000001") },
		func(s migrate.BridgeStats) int64 { return s.Clobbered }, "overwritten"},
	{"deleted", func(r *rig) { r.del("k") }, func(s migrate.BridgeStats) int64 { return s.Deleted },
		"deleted"},
	{"M deleted", func(r *rig) { r.del(keyM) }, func(s migrate.BridgeStats) int64 { return s.Taken },
		"its lease has ended"},
	{"M another's", func(r *rig) { r.set(keyM, "AAAAAAAAAAAAAAAAAAAAAA "+r.get("k")) },
		func(s migrate.BridgeStats) int64 { return s.Taken }, "its lease has ended"},
}

// A lost mark is counted, what replaced it is left alone, and M stays until
// Release.
func TestBridgeReportsALostMarkAndKeepsM(t *testing.T) {
	for _, tomb := range []bool{false, true} {
		for _, c := range losses {
			phases := withGuard
			if tomb {
				phases = withTomb
			}
			each(t, phases, func(r *rig, p migrate.Phase) {
				if tomb {
					r.entomb()
				}
				b := r.bridge(p)
				g := r.take(b)
				c.do(r)
				l, m, ends := r.get("k"), r.get(keyM), r.left(keyM)
				for range 2 {
					_, err := g.Extend(background, ttl)
					if lost := r.wantLost(err); !strings.Contains(lost.Error(), c.says) {
						r.Errorf("%s: %v", c.what, lost)
					}
				}
				if r.left(keyM) != ends {
					r.Errorf("%s: M was renewed to %v", c.what, r.left(keyM))
				}
				if m != "" {
					r.held(r.bridge(migrate.Clean)) // which asks for M alone
				}
				r.wantLost(g.Release(background))
				if !strings.HasPrefix(c.what, "M ") {
					m = ""
				}
				if c.what != "another type" {
					r.wantKeys(l, m)
				}
				if n := c.count(b.Stats()); n != 1 {
					r.Errorf("%s: counted %d times: %+v", c.what, n, b.Stats())
				}
			})
		}
	}
}

func TestALossIsFoundAtReleaseAndTheOldKeyIsLeftAlone(t *testing.T) {
	for _, c := range losses[:4] {
		each(t, withGuard, func(r *rig, p migrate.Phase) {
			b := r.bridge(p)
			g := r.take(b)
			c.do(r)
			l := r.get("k")
			r.wantLost(g.Release(background))
			if r.get("k") != l || r.get(keyM) != "" {
				r.Errorf("%s: L %q, M %q", c.what, r.get("k"), r.get(keyM))
			}
			if n := c.count(b.Stats()); n != 1 {
				r.Errorf("%s: counted %d times", c.what, n)
			}
		})
	}
}

// Its mark may come back.
func TestBridgeNeverRenewsALostGrant(t *testing.T) {
	each(t, withGuard, func(r *rig, p migrate.Phase) {
		g := r.take(r.bridge(p))
		guard := r.get("k")
		r.set("k", "1")
		_, err := g.Extend(background, ttl)
		r.wantLost(err)
		r.set("k", guard)
		r.w.Pass(time.Second)
		_, err = g.Extend(background, ttl)
		r.wantLost(err)
		if left := r.left(keyM); left != ttl-time.Second {
			r.Errorf("M ends in %v", left)
		}
		if _, ok := g.(backend.Sharer).Share(); ok {
			r.Error("a lost grant was shared")
		}
	})
}

// Rule 9: foreign EXPIRE.

func TestAShortenedGuardIsSetRightAndCounted(t *testing.T) {
	each(t, withGuard, func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		g := r.take(b)
		r.expire("k", 3*time.Second)
		if term, err := g.Extend(background, ttl); err != nil || term.TTL != ttl {
			r.Errorf("%v, %v", term, err)
		}
		if r.left("k") != ttl || r.left(keyM) != ttl {
			r.Errorf("L ends in %v, M in %v", r.left("k"), r.left(keyM))
		}
		if n := b.Stats().Touched; n != 1 {
			r.Errorf("counted %d times", n)
		}
		r.release(g)
	})
}

// Acquisitions and renewals do.
func TestBridgeRenewsTheTTLOfATombstone(t *testing.T) {
	const month = 30 * 24 * time.Hour
	each(t, withTomb, func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		r.entomb()
		r.expire("k", month/2)
		g := r.take(b)
		if left := r.left("k"); left != month/2 {
			r.Errorf("half of its time is enough: %v", left)
		}
		r.release(g)
		r.expire("k", month/2-time.Second)
		g = r.take(b)
		if left := r.left("k"); left != month {
			r.Errorf("after the acquisition it ends in %v", left)
		}
		r.expire("k", lease)
		if _, err := g.Extend(background, ttl); err != nil {
			r.Fatal(err)
		}
		if left := r.left("k"); left != month {
			r.Errorf("after the renewal it ends in %v", left)
		}
		if n := b.Stats().Touched; n != 1 {
			r.Errorf("counted %d times", n)
		}
		r.release(g)
		r.wantKeys(tombstone, "")
	})
}

// Rule 10: release.

func TestWhereTheKeyMeansDoneTheOldClientsOwnStampStays(t *testing.T) {
	bridges(t, func(r *rig) {
		d := dialect.Machinery()
		b := r.bridge(migrate.Dual, speaks(d))
		at := r.w.ServerNow()
		g := r.take(b)
		r.w.Pass(time.Second)
		r.release(g)
		want, err := d.Stamp(at, lease, "")
		if err != nil {
			r.Fatal(err)
		}
		r.wantKeys(want, "")
		if left := r.left("k"); left < lease-2*time.Second || left > lease+d.Slack {
			r.Errorf("it ends in %v", left)
		}
	})
}

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

// A holder that lost L says nothing of the tick, which is now another client's.
func TestATickThatWasLostIsNotDone(t *testing.T) {
	each(t, withTomb, func(r *rig, p migrate.Phase) {
		g := r.take(r.bridge(p, speaks(dialect.Machinery())))
		r.set("k", "1772452861001000000")
		r.wantLost(g.Release(background))
		r.wantKeys("1772452861001000000", "")
	})
}

// Tombstones.

func TestATombstoneIsFreeFromDualOnAndHeldInObserve(t *testing.T) {
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		r.entomb()
		if p == migrate.Observe {
			r.held(b)
			r.wantKeys(tombstone, "")
			return
		}
		g := r.take(b)
		l, m := r.get("k"), r.get(keyM)
		switch {
		case p == migrate.Dual && (l == tombstone || m != g.Token()+" "+l),
			p == migrate.Clean && m != g.Token(),
			p != migrate.Dual && l != tombstone,
			(p == migrate.Sealed || p == migrate.Modern) && m != g.Token()+" "+tombstone:
			r.Errorf("L %q, M %q", l, m)
		}
		r.release(g)
		left := tombstone
		if p == migrate.Dual {
			left = ""
		}
		r.wantKeys(left, "")
	})
}

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

func TestBridgesExcludeEachOtherAcrossPhases(t *testing.T) {
	for _, p := range migrate.Phases() {
		each(t, migrate.Phases(), func(r *rig, q migrate.Phase) {
			for _, tomb := range []bool{false, true} {
				r.del("k")
				if tomb && p != migrate.Observe {
					r.entomb()
				}
				g := r.take(r.bridge(p))
				r.held(r.bridge(q))
				r.release(g)
			}
		})
	}
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

// Manners.

func TestBridgeIsPoliteOnlyWhereOldClientsPoll(t *testing.T) {
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		b := r.bridge(p)
		for _, tomb := range []bool{false, true} {
			if tomb {
				if p == migrate.Observe {
					continue
				}
				r.entomb()
			}
			g := r.take(b)
			want := time.Duration(0)
			if p == migrate.Observe || p == migrate.Dual {
				want = gap
			}
			if got := g.(backend.Yielder).YieldFor(0); got != 0 {
				r.Errorf("tombstone %v: it owes %v at once", tomb, got)
			}
			r.w.Pass(1015 * time.Millisecond)
			if got := g.(backend.Yielder).YieldFor(0); got != want {
				r.Errorf("tombstone %v: it owes %v", tomb, got)
			}
			if got := g.(backend.Yielder).YieldFor(time.Second); (got == time.Second) != (want > 0) {
				r.Errorf("tombstone %v: wished for a second, it owes %v", tomb, got)
			}
			r.release(g)
			r.del("k")
			r.w.Pass(gap) // a pause in which old clients had their turn
		}
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

// Its own keys are no locks: a guard on a counter would stop every fenced lock.
func TestKeysOfGetsetlockAreRefused(t *testing.T) {
	bridges(t, func(r *rig) {
		_, err := r.bridge(migrate.Dual).Contract().Try(background, "gsl:fence:", ttl)
		if err == nil || !strings.Contains(err.Error(), "another name") {
			r.Error(err)
		}
	})
}
