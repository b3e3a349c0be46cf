// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/skew"
)

// F (20 s ahead) takes the key from whichever client works, and no client can
// take F's value: for the others it lies 20 s further in the future than their
// own values. So F is without the key only from the end of a job to its next
// poll. Another client wins it there, and loses it to F.
//
//	F   ├── 1 s ──┤ 0.1 s ├── 1 s ──┤ 0.1 s …   in a minute 54 jobs, and one more is begun
//
// With a getsetlock protocol it gets what each of three clients gets that take
// turns: a third.
func TestFastClientStealsAndCannotBeDisplaced(t *testing.T) {
	shares := map[fleet.Protocol]int{}
	for _, p := range fleet.All {
		fleet.In(t, dialect.Jedis(), 8*time.Second, func(f *fleet.Fleet) { shares[p] = steals(f, p) })
	}
	for p, want := range map[fleet.Protocol]int{
		fleet.Verbatim: 55, fleet.Hardened: 20, fleet.Tokens: 20, fleet.Bridged: 20} {
		if shares[p] != want {
			t.Errorf("%s: the fast client acquired %d times in a minute, the timeline says %d", p, shares[p],
				want)
		}
	}
}

// steals lets three clients work for a minute, in jobs of 1 s, and returns how
// often the fast one had the key.
func steals(f *fleet.Fleet, p fleet.Protocol) (share int) {
	fast, others := f.Join(p, fleet.Ahead(20*time.Second)),
		[]*fleet.Member{f.Join(p, fleet.Exact), f.Join(p, fleet.Exact)}
	finish := map[*fleet.Member]time.Time{}
	stolen := 0
	for range 600 {
		for _, m := range append([]*fleet.Member{fast}, others...) {
			switch {
			case m.Working && !f.World.Now().Before(finish[m]):
				m.Done()
			case !m.Working && m.Try():
				finish[m] = f.World.Now().Add(time.Second)
				if m == fast {
					share++
					for _, o := range others {
						if o.Working {
							stolen++
						}
					}
				}
			}
		}
		f.Pass(100 * time.Millisecond)
	}
	if p == fleet.Verbatim && stolen == 0 {
		f.Error("verbatim: the fast client took no held key")
	}
	if p != fleet.Verbatim && (stolen > 0 || f.Most > 1) {
		f.Errorf("%s: stolen %d times, %d at work at once", p, stolen, f.Most)
	}
	return share
}

// judging returns one attempt of a hardened backend or a bridge that judges
// dead values by the given policy, and whose clock is wrong by skew.
func judging(f *fleet.Fleet, p fleet.Protocol, judge legacy.Takeover, skew redistest.Skew) func() bool {
	f.Helper()
	terms, clock := dialect.Terms{Lease: f.Lease}, f.World.Clock(skew)
	var b interface {
		backend.Store
		io.Closer
	}
	var err error
	if p == fleet.Bridged {
		b, err = migrate.New(f.World.Pool(),
			migrate.Config{Phases: migrate.Fixed(migrate.Dual), Dialect: f.Dialect, Terms: terms,
				Takeover: judge, Clock: clock})
	} else {
		b, err = legacy.New(f.World.Pool(),
			legacy.Config{Mode: legacy.Hardened, Dialect: f.Dialect, Terms: terms, Takeover: judge,
				Clock: clock})
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { b.Close() })
	return func() bool {
		_, err := b.Contract().Try(context.Background(), fleet.Key, f.TTL)
		return err == nil
	}
}

// A   0 s ├── job ──────────── 10 s ┤   a TTL of 15 s
// S        the server's clock is set forward by 20 s: every TTL is over
// B        1 s: the key is gone
//
// No client can see this in time: a key that the server frees by its wall clock
// is safe only up to the trust margin. Only the verbatim lock, which has no
// TTL, is not affected.
func TestServerStepBeyondMarginFreesHeldKey(t *testing.T) {
	for _, c := range []struct {
		p    fleet.Protocol
		step time.Duration
		two  bool
	}{
		{fleet.Tokens, 20 * time.Second, true},
		{fleet.Hardened, 20 * time.Second, true},
		{fleet.Bridged, 20 * time.Second, true},
		{fleet.Verbatim, 20 * time.Second, false},
		{fleet.Tokens, time.Second, false}, // within the margin, a tenth of the TTL
		{fleet.Hardened, time.Second, false},
		{fleet.Bridged, time.Second, false},
	} {
		fleet.Run(t, fmt.Sprint(c.p, " ", c.step), dialect.Jedis(), time.Minute, func(f *fleet.Fleet) {
			a, b := f.Join(c.p, fleet.Exact), f.Join(c.p, fleet.Exact)
			a.Must()
			f.World.StepServer(c.step)
			if !c.two {
				// The last moment of trust without a renewal.
				f.Pause(f.TTL - f.TTL/10 - time.Millisecond)
			}
			b.Try()
			if f.Together() != c.two {
				f.Errorf("two at work: %v", f.Together())
			}
		})
	}
}

// S   the server's clock is set back by an hour: a crashed holder's key lives
// an hour longer. That costs time, not exclusion.
func TestServerStepBackProlongsDeadHoldersKey(t *testing.T) {
	for _, p := range fleet.Ours {
		fleet.Run(t, string(p), dialect.Jedis(), time.Minute, func(f *fleet.Fleet) {
			a, b := f.Join(p, fleet.Exact), f.Join(p, fleet.Exact)
			a.Must()
			a.Crash()
			f.World.StepServer(-time.Hour)
			f.Pause(f.TTL + 5*time.Second) // a stamp lasts for some time beyond its end
			if b.Try() {
				f.Error("freed by elapsed time; Redis frees by its wall clock")
			}
			f.Pause(time.Hour)
			if !b.Try() {
				f.Error("never freed")
			}
		})
	}
}

// The test compares the real clients with the law, cell by cell. A holder has a
// job just at the law's limit. A challenger is behind, exact, or ahead by just
// as much as is safe, or by one unit of the dialect more. The old client must
// follow the law. A getsetlock client must never take what an honest holder
// has, by any policy. Every dialect with a stamp is here, JedisUUID without its
// race.
func TestMatrixOfSkews(t *testing.T) {
	for _, d := range []dialect.Dialect{
		dialect.Jedis(), dialect.JedisAQS(), dialect.Errorception(), dialect.Faye(), dialect.ServiceStack(),
		dialect.Page(), dialect.PageNil(), dialect.PageGet(), dialect.ResqueTimeout(), dialect.Kdyby(),
		dialect.RedisPy(), dialect.TaskTiger(),
		dialect.RedisObjects(), dialect.RedisMutex(), dialect.Gorlock(), dialect.JedisUUID(),
		dialect.Template(), dialect.Machinery(),
	} {
		t.Run(d.Name, func(t *testing.T) {
			lease := time.Minute
			if d.Name == "Kdyby" || d.Name == "Faye" {
				lease = d.Lease // their callers cannot choose it
			}
			job := lease / 2
			v, err := skew.Law{Dialect: d, Lease: lease, Job: job}.Verdict()
			if err != nil {
				t.Fatal(err)
			}
			limit := v.GreatestSpread.Bound
			unit := time.Millisecond
			if d.Unit == dialect.UnitSeconds {
				unit = time.Second
			}
			under := limit
			if d.Unit == dialect.UnitFloatSeconds && d.Inclusive {
				under -= unit // a clock without steps reaches "not after" at the limit itself
			}
			for _, delta := range []time.Duration{-lease, 0, under, limit + unit} {
				cell(t, d, lease, job, delta)
			}
		})
	}
}

// cell lets a holder work and a challenger try right before its release.
func cell(t *testing.T, d dialect.Dialect, lease, job, delta time.Duration) {
	t.Helper()
	v, err := skew.Law{Dialect: d, Lease: lease, Job: job, Spread: max(delta, 0)}.Verdict()
	if err != nil {
		t.Fatal(err)
	}
	var won bool
	fleet.In(t, d, lease, func(f *fleet.Fleet) {
		if d.Unit == dialect.UnitSeconds {
			// The law is about the worst moment: a stamp that is cut by almost
			// a whole second.
			f.World.Pass(999 * time.Millisecond)
		}
		a, b := f.Join(fleet.Verbatim, fleet.Exact), f.Join(fleet.Verbatim, fleet.Ahead(delta))
		a.Must()
		f.World.Pass(job)
		won = b.Try()
	})
	possible := v.Possible && delta >= 0
	if v.Unconditional {
		// These clients grant twice with all clocks right only when two race
		// for a dead value, as in TestJedisUUIDGrantsTwiceWithNoSkewAtAll. Here
		// no client died, so clocks alone decide.
		possible = delta > v.GreatestSpread.Bound
	}
	if won != possible {
		t.Errorf("Δ %v: taken %v, the law says %v", delta, won, possible)
	}
	judges := map[string]legacy.Takeover{
		"server clock": legacy.ServerClock(time.Second),
		"unchanged":    legacy.All(legacy.Unchanged(lease), legacy.ServerClock(time.Second)),
		// Its margin has to cover the judging clock's own error as well.
		"local clock": legacy.LocalClock(time.Second + max(delta, 0)),
	}
	for name, judge := range judges {
		for _, p := range []fleet.Protocol{fleet.Hardened, fleet.Bridged} {
			fleet.In(t, d, lease, func(f *fleet.Fleet) {
				a := f.Join(fleet.Verbatim, fleet.Behind(min(max(delta, -time.Second), time.Second)))
				try := judging(f, p, judge, fleet.Ahead(delta))
				a.Must()
				f.World.Pass(job)
				if try() {
					f.Errorf("Δ %v: %s, by %s, took what an honest holder has", delta, p, name)
				}
			})
		}
	}
	fleet.In(t, d, lease, func(f *fleet.Fleet) { cellOfOurs(f, delta) })
}

// cellOfOurs lets the bridge work, to the last moment of its trust, and an old
// client try meanwhile whose clock is off by delta. A guard is not in any
// clock's past. (A stamp is safe only as far as it lies ahead of the fastest
// clock.)
func cellOfOurs(f *fleet.Fleet, delta time.Duration) {
	a, b := f.Join(fleet.Bridged, fleet.Exact), f.Join(fleet.Verbatim, fleet.Ahead(delta))
	a.Must()
	f.World.Pass(f.TTL - f.TTL/10 - time.Second - time.Millisecond)
	if b.Try() && a.AtWork() {
		f.Errorf("Δ %v: an old client entered in spite of a guard", delta)
	}
}

// A   0 s ├── job of a getsetlock client ─────────── 40 s ┤
// B (an old client, 25 h ahead)   at once: a stamp a day beyond the lease is over by its clock, a guard by no clock
func TestOldClientADayAheadStealsFromAStamp(t *testing.T) {
	for _, c := range []struct {
		p      fleet.Protocol
		ahead  time.Duration
		steals bool
	}{
		{fleet.Hardened, 30 * time.Second, false},
		{fleet.Hardened, 23 * time.Hour, false},
		{fleet.Hardened, 25 * time.Hour, true},
		{fleet.Bridged, 25 * time.Hour, false},
	} {
		fleet.Run(t, fmt.Sprint(c.p, " ", c.ahead), dialect.Jedis(), time.Minute, func(f *fleet.Fleet) {
			a, b := f.Join(c.p, fleet.Exact), f.Join(fleet.Verbatim, fleet.Ahead(c.ahead))
			a.Must()
			f.Pass(time.Second)
			if won := b.Try(); won != c.steals {
				f.Errorf("entered: %v", won)
			}
			f.Pass(5 * time.Second)
			if a.AtWork() == c.steals {
				f.Errorf("at work: %v; a holder that lost its mark learns of it at the next renewal",
					a.AtWork())
			}
		})
	}
}

// A (an old client, 2 min behind the server)   0 s ├── job ──────────────── 50 s ┤   writes −60 s by the server's clock
// B (a getsetlock client)          polls: the stamp has passed, but the key has had it for less than a lease
func TestFleetBehindTheServerIsNotRobbed(t *testing.T) {
	for _, p := range []fleet.Protocol{fleet.Hardened, fleet.Bridged} {
		for _, c := range []struct {
			name   string
			behind time.Duration
			robs   bool
		}{
			{"unknown", 0, false},
			{"claimed", 2 * time.Minute, false},
			{"claimed wrongly", time.Second, true},
		} {
			fleet.Run(t, fmt.Sprint(p, " ", c.name), dialect.Jedis(), time.Minute, func(f *fleet.Fleet) {
				f.Behind = c.behind
				a, b := f.Join(fleet.Verbatim, fleet.Behind(2*time.Minute)), f.Join(p, fleet.Exact)
				a.Must()
				for range 10 {
					f.Pass(5 * time.Second)
					b.Try()
				}
				if f.Together() != c.robs {
					f.Errorf("two held: %v", f.Together())
				}
				a.Done()
				if !b.AtWork() {
					b.Must() // and the key is free again
				}
			})
		}
	}
}
