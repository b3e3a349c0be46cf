// SPDX-License-Identifier: Apache-2.0

package twokey_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Rules 1 to 3: what may be taken over, and how.

func TestValueThatIsNotExpiredIsHeld(t *testing.T) {
	for _, value := range []string{"1", "not a number", "9223372036854775806", "", "1790000000", "live"} {
		each(t, marked, func(r *rig) {
			if value == "live" {
				value = r.stamp(time.Second)
			}
			p := r.engine()
			r.set("k", value)
			for range 2 { // the first attempt also asks for the clock
				r.held(p)
				if !r.w.Mini.Exists("k") {
					r.Fatal("L is gone")
				}
				r.wantKeys(value, "")
			}
		})
	}
}

func TestExpiredStampIsTakenOverAfterMarginAndSettle(t *testing.T) {
	each(t, marked, func(r *rig) {
		r.set("k", r.stamp(-time.Second)) // within the spread of the old clients' clocks
		r.held(r.engine())
		p := r.engine() // which did not see the value change
		r.set("k", r.stamp(-time.Second-time.Millisecond))
		began := r.w.Now()
		g := r.take(p)
		if d := r.w.Now().Sub(began); d <= p.Settings.Terms.Gap {
			r.Errorf("settled for %v", d)
		}
		if n := p.Count.Takeovers.Load(); n != 1 {
			r.Errorf("%d takeovers counted", n)
		}
		r.release(g)
	})
}

func TestTakeoverReplacesOnlyTheValueThatWasJudged(t *testing.T) {
	each(t, marked, func(r *rig) {
		p := r.warm(r.engine())
		r.del("k")
		r.set("k", r.stamp(-time.Minute))
		other := r.stamp(30 * time.Second)
		r.between(2, func() { r.set("k", other) })
		r.held(p)
		r.wantKeys(other, "")
	})
}

func TestMarkWithoutItsTokenIsNotTakenOver(t *testing.T) {
	each(t, marked, func(r *rig) {
		r.take(r.engine())
		mark := r.get("k")
		r.del(keyM)
		r.held(r.engine())
		r.wantKeys(mark, "")
	})
}

func TestTwoGrantsNeverDrawTheSameGuard(t *testing.T) {
	each(t, []strategy{guard}, func(r *rig) {
		p, seen := r.engine(), map[string]bool{}
		for range 200 {
			g := r.take(p)
			if l := r.get("k"); seen[l] || seen[g.Token()] {
				r.Fatalf("%q again", l)
			}
			seen[r.get("k")], seen[g.Token()] = true, true
			r.release(g)
		}
	})
}

// Rules 5 and 6: settle.

func TestSettleFindsOldClientThatOverwroteL(t *testing.T) {
	each(t, marked, func(r *rig) {
		p := r.engine()
		r.set("k", r.stamp(-time.Minute))
		other := r.stamp(59 * time.Second)
		g, err := r.during(p, bg, func() { r.set("k", other) })
		if held := r.wantHeld(g, err); held.Protocol != "Jedis" {
			r.Errorf("%v", held)
		}
		r.wantKeys(other, "")
		if c := &p.Count; c.Clobbered.Load() != 1 || c.Overwritten.Load() != 1 || c.Acquired.Load() != 0 {
			r.Errorf("%d clobbered, %d acquired", c.Clobbered.Load(), c.Acquired.Load())
		}
	})
}

// The look that found a loss was the first one at those bytes.
func TestSettleThatLostSaysHowLongTheBytesMustStay(t *testing.T) {
	each(t, marked, func(r *rig) {
		p := r.engine(settling, func(s *twokey.Settings) { s.Takeover = twokey.Unchanged(lease) })
		r.w.Pass(time.Hour)
		g, err := r.during(p, bg, func() { r.set("k", r.stamp(59*time.Second)) })
		if held := r.wantHeld(g, err); held.Left < lease || held.Passed {
			r.Errorf("%+v", held)
		}
	})
}

func TestSettleFindsThatTheTokenIsGone(t *testing.T) {
	each(t, marked, func(r *rig) {
		p := r.engine(settling)
		g, err := r.during(p, bg, func() { r.del(keyM) })
		r.wantHeld(g, err)
		if n := p.Count.Taken.Load(); n != 1 {
			r.Errorf("counted %d times", n)
		}
	})
}

func TestEndedContextInSettleIsUndone(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Jedis(), dialect.JedisUUID()} {
		each(t, marked, func(r *rig) {
			ctx, cancel := context.WithCancel(bg)
			g, err := r.during(r.engine(speaks(d), settling), ctx, cancel)
			if g != nil || !errors.Is(err, context.Canceled) {
				r.Fatalf("%v, %v", g, err)
			}
			r.release(r.wantUnsure(err))
			// An old client that finds its own bytes would take the lock over
			// the tombstone, and nobody would notice.
			left := r.leaves()
			if d.OrMine {
				left = ""
			}
			r.wantKeys(left, "")
		})
	}
}

// The key was taken before the wait ended, so its settle may end after it.
func TestTakeoverSettlesBeyondEndOfWait(t *testing.T) {
	each(t, marked, func(r *rig) {
		client, err := lock.New(backend.Of(r.engine(settling)), lock.Config{TTL: ttl, Wait: time.Millisecond})
		if err != nil {
			r.Fatal(err)
		}
		defer client.Close(bg)
		l, err := client.Acquire(bg, "k")
		if err != nil {
			r.Fatal(err)
		}
		if err := l.Release(); err != nil {
			r.Error(err)
		}
	})
}

// A tombstone needs no settle, and M alone has none.
func TestFreeKeySettlesOnlyWithSettleAlways(t *testing.T) {
	for _, always := range []bool{false, true} {
		each(t, all, func(r *rig) {
			p := r.engine(speaks(dialect.PageNil()), func(s *twokey.Settings) { s.SettleAlways = always })
			began := r.w.Now()
			r.release(r.take(p))
			want := always && r.by != alone && r.by != sealed
			if settled := r.w.Now().After(began); settled != want {
				r.Errorf("SettleAlways %v: settled %v", always, settled)
			}
		})
	}
}

// Old clients of such a dialect take their own bytes for their lock. A settled
// guard may be handed on.
func TestOrMineDialectSettlesEveryAcquisition(t *testing.T) {
	d := dialect.JedisUUID()
	each(t, marked, func(r *rig) {
		p := r.engine(speaks(d), func(s *twokey.Settings) { s.Terms.Gap = 3 * time.Second })
		for i := range 2 {
			began := r.w.Now()
			var g backend.Grant = r.take(p)
			settled := r.w.Now().Sub(began) > 3*time.Second
			if want := i == 0 || r.by != sealing; settled != want {
				r.Errorf("acquisition %d: settled %v", i+1, settled)
			}
			mark, token := r.get("k"), g.Token()
			next, shared := g.(backend.Sharer).Share()
			if shared != (r.by != stamp) {
				r.Errorf("shared %v", shared)
			}
			if shared {
				g = next
			}
			r.wantKeys(mark, token+" "+mark)
			r.release(g)
			left := ""
			if r.by == sealing {
				left = d.Tombstone()
			}
			r.wantKeys(left, "")
		}
	})
}

func TestUndoingAnAttemptLeavesTheTombstoneItFound(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Jedis(), dialect.JedisUUID()} {
		each(t, []strategy{sealing}, func(r *rig) {
			p := r.warm(r.engine(speaks(d)))
			r.set("k", d.Tombstone())
			r.fault(redistest.CutAfter)
			_, err := p.Try(bg, "k", ttl)
			r.release(r.wantUnsure(err))
			r.wantKeys(d.Tombstone(), "")
		})
	}
}

// Rules 7 and 8: looking at L, and what its loss means.

var losses = []struct {
	what  string
	do    func(r *rig)
	count func(*twokey.Counters) int64
	says  string
}{
	{"overwritten", func(r *rig) { r.set("k", r.stamp(time.Minute)) }, overwritten, "overwritten"},
	{"overwritten under a TTL", func(r *rig) {
		r.set("k", r.stamp(time.Minute))
		r.expire("k", time.Hour)
	}, overwritten, "overwritten"},
	{"another type", func(r *rig) {
		r.del("k")
		r.w.Mini.Lpush("k", "x")
	}, overwritten, "list"},
	{"another's guard", func(r *rig) { r.set("k", "4000000000000000001") }, overwritten, "overwritten"},
	{"deleted", func(r *rig) { r.del("k") }, deleted, "deleted"},
	{"M deleted", func(r *rig) { r.del(keyM) }, taken, "its lease has ended"},
	{"M another's", func(r *rig) { r.set(keyM, strings.Repeat("A", 22)+" "+r.get("k")) }, taken,
		"its lease has ended"},
	{"M of a longer token", func(r *rig) {
		token, on, _ := strings.Cut(r.get(keyM), " ")
		r.set(keyM, token+"x "+on)
	}, taken, "its lease has ended"},
	{"M another's of that L", func(r *rig) {
		_, on, _ := strings.Cut(r.get(keyM), " ")
		r.set(keyM, "another "+on)
	}, taken, "its lease has ended"},
}

func overwritten(c *twokey.Counters) int64 { return c.Overwritten.Load() }
func deleted(c *twokey.Counters) int64     { return c.Deleted.Load() }
func taken(c *twokey.Counters) int64       { return c.Taken.Load() }

// A lost mark is counted once. What replaced it is left alone, and M stays
// until Release: the next getsetlock client must wait for the job that is still
// being stopped.
func TestLostLIsReportedAndMStaysUntilRelease(t *testing.T) {
	for _, c := range losses {
		each(t, onL, func(r *rig) {
			p := r.engine()
			g := r.take(p)
			c.do(r)
			l, m, ends := r.get("k"), r.get(keyM), r.left(keyM)
			for range 2 {
				_, err := g.Extend(bg, ttl)
				lost := r.wantLost(err)
				if !strings.Contains(lost.Error(), c.says) || lost.Mark != strings.HasPrefix(c.what, "M ") {
					r.Errorf("%s: %v", c.what, lost)
				}
			}
			if r.left(keyM) != ends {
				r.Errorf("%s: M was renewed to %v", c.what, r.left(keyM))
			}
			if _, ok := g.Share(); ok {
				r.Errorf("%s: a lost grant was shared", c.what)
			}
			if c.what == "deleted" {
				held := r.held(p)
				if held.Owner != g.Token() || !held.Final ||
					!strings.Contains(held.Protocol, "removed or replaced") {
					r.Errorf("%v", held)
				}
			}
			r.wantLost(g.Release(bg))
			if !strings.HasPrefix(c.what, "M ") {
				m = ""
			}
			if c.what != "another type" {
				r.wantKeys(l, m)
			}
			if n := c.count(&p.Count); n != 1 || p.Count.Lost() != 1 {
				r.Errorf("%s: counted %d times, of %d losses", c.what, n, p.Count.Lost())
			}
		})
	}
}

func TestLossIsFoundAtReleaseAndTheOldKeyIsLeftAlone(t *testing.T) {
	for _, c := range losses {
		each(t, onL, func(r *rig) {
			p := r.engine()
			g := r.take(p)
			c.do(r)
			l, m := r.get("k"), r.get(keyM)
			if !strings.HasPrefix(c.what, "M ") {
				m = ""
			}
			lost := r.wantLost(g.Release(bg))
			if r.get("k") != l || r.get(keyM) != m || !strings.Contains(lost.Error(), c.says) {
				r.Errorf("%s: L %q, M %q, %v", c.what, r.get("k"), r.get(keyM), lost)
			}
			if n := c.count(&p.Count); n != 1 {
				r.Errorf("%s: counted %d times", c.what, n)
			}
		})
	}
}

// A stamp is no token, so another client may have written the same bytes.
func TestSameBytesWithoutTTLCountAsLost(t *testing.T) {
	each(t, []strategy{stamp}, func(r *rig) {
		g := r.take(r.engine())
		mark := r.get("k")
		r.set("k", mark)
		_, renewed := g.Extend(bg, ttl)
		for _, err := range []error{renewed, g.Release(bg)} {
			lost := r.wantLost(err)
			if lost.Mark || !strings.Contains(lost.Error(), "removed or changed its TTL") {
				r.Errorf("%v", lost)
			}
		}
		r.wantKeys(mark, "")
	})
}

// Its mark may come back.
func TestLostGrantIsNotRenewedWhenBytesReturn(t *testing.T) {
	each(t, onL, func(r *rig) {
		g := r.take(r.engine())
		mark, ends := r.get("k"), r.left("k")
		r.set("k", "1")
		_, err := g.Extend(bg, ttl)
		r.wantLost(err)
		r.set("k", mark)
		r.expire("k", ends)
		r.w.Pass(time.Second)
		r.wire.Forget()
		_, err = g.Extend(bg, ttl)
		r.wantLost(err)
		if sent := r.wire.Sent(); r.left(keyM) != ttl-time.Second || len(sent) > 0 {
			r.Errorf("M ends in %v, and %d commands were sent", r.left(keyM), len(sent))
		}
	})
}

// Rule 9: an EXPIRE by another client.

func TestRenewalRepairsAndCountsForeignEXPIRE(t *testing.T) {
	each(t, marked, func(r *rig) {
		p := r.engine()
		g := r.take(p)
		r.w.Pass(time.Second)
		for range 2 {
			term, err := g.Extend(bg, ttl)
			if err != nil || term.TTL != ttl || p.Count.Shortened.Load() != 0 {
				r.Fatalf("a healthy renewal: %v, %v, counted %d times", term, err, p.Count.Shortened.Load())
			}
		}
		r.expire("k", 3*time.Second)
		if term, err := g.Extend(bg, ttl); err != nil || term.TTL != ttl {
			r.Errorf("%v, %v", term, err)
		}
		if r.left("k") != ttl || r.left(keyM) != ttl || p.Count.Shortened.Load() != 1 {
			r.Errorf("L ends in %v, M in %v, counted %d times", r.left("k"), r.left(keyM),
				p.Count.Shortened.Load())
		}
		r.release(g)
	})
}

func TestSettleLimitsTrustToTTLThatItRead(t *testing.T) {
	each(t, marked, func(r *rig) {
		p := r.engine(settling)
		g, err := r.during(p, bg, func() { r.expire("k", 5*time.Second) })
		if err != nil {
			r.Fatal(err)
		}
		// The attempt was sent 100 ms before L got five seconds.
		if got := g.Term().TTL; got != 5100*time.Millisecond || p.Count.Shortened.Load() != 1 {
			r.Errorf("trusted for %v, counted %d times", got, p.Count.Shortened.Load())
		}
		r.release(g)
	})
}

// Acquisitions and renewals do so below half of it.
func TestTombstoneGetsItsTimeBack(t *testing.T) {
	each(t, []strategy{sealed}, func(r *rig) {
		p := r.engine()
		r.expire("k", month/2)
		g := r.take(p)
		if left := r.left("k"); left != month/2 {
			r.Errorf("half of its time is enough: %v", left)
		}
		r.release(g)
		r.expire("k", month/2-time.Second)
		g = r.take(p)
		if left := r.left("k"); left != month {
			r.Errorf("after the acquisition it ends in %v", left)
		}
		r.expire("k", lease)
		if _, err := g.Extend(bg, ttl); err != nil {
			r.Fatal(err)
		}
		if left := r.left("k"); left != month || p.Count.Shortened.Load() != 1 {
			r.Errorf("after the renewal it ends in %v, counted %d times", left, p.Count.Shortened.Load())
		}
		r.release(g)
		r.wantKeys(tombstone, "")
	})
}

// Rule 10: release.

// A holder that lost L says nothing of the tick, which is now another client's.
func TestTickThatWasLostIsNotDone(t *testing.T) {
	each(t, marked, func(r *rig) {
		g := r.take(r.engine(speaks(dialect.Machinery())))
		r.set("k", "1772452861001000000")
		r.wantLost(g.Release(bg))
		r.wantKeys("1772452861001000000", "")
	})
}
