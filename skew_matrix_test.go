package getsetlock_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/skew"
)

// F (20 s ahead) takes the key from whoever works, and its own value cannot be taken from it: for the
// others it lies 20 s further in the future than theirs. So F is without the key only from the end of a
// job to its next poll: another wins it there, and is robbed.
//
//	F   ├── 1 s ──┤ 0.1 s ├── 1 s ──┤ 0.1 s …   in a minute 54 jobs, and one more is begun
//
// Beside ours it has what each of three has who take turns: a third.
func TestFastClientStealsAndCannotBeDisplaced(t *testing.T) {
	shares := map[protocol]int{}
	for _, p := range all {
		f := newFleet(t, dialect.Jedis(), 8*time.Second)
		fast, others := f.join(p, ahead(20*time.Second)), []*member{f.join(p, exact), f.join(p, exact)}
		finish := map[*member]time.Time{}
		stolen := 0
		for range 600 { // a minute of polls, a job of 1 s each
			for _, m := range append([]*member{fast}, others...) {
				switch {
				case m.working && !f.w.Now().Before(finish[m]):
					m.done()
				case !m.working && m.try():
					finish[m] = f.w.Now().Add(time.Second)
					if m == fast {
						shares[p]++
						for _, o := range others {
							if o.working {
								stolen++
							}
						}
					}
				}
			}
			f.pass(100 * time.Millisecond)
		}
		if p == verbatim && stolen == 0 {
			t.Error("verbatim: the fast client stole nothing")
		}
		if p != verbatim && (stolen > 0 || f.most > 1) {
			t.Errorf("%s: stolen %d times, %d at work at once", p, stolen, f.most)
		}
	}
	for p, want := range map[protocol]int{verbatim: 55, hardened: 20, tokens: 20, bridged: 20} {
		if shares[p] != want {
			t.Errorf("%s: the fast one acquired %d times in a minute, the timeline says %d", p, shares[p], want)
		}
	}
}

// A   0 s ├── job ┤ deletes the key
// B (30 s behind)  30 s: writes the very same millisecond again ├── job ──
// H   looks at 0 s, and again at 61 s: the same bytes. It has not followed them, and must not judge.
func TestValueWrittenAgainToTheSameMillisecondDoesNotDeceiveASparseObserver(t *testing.T) {
	for _, p := range []protocol{hardened, bridged} {
		t.Run(string(p), func(t *testing.T) { looksSeldom(t, p) })
	}
}

func looksSeldom(t *testing.T, p protocol) {
	f := newFleet(t, dialect.Jedis(), time.Minute)
	a, b := f.join(verbatim, exact), f.join(verbatim, behind(30*time.Second))
	own := f.w.Clock(redistest.Skew{})
	backend := f.judging(p, legacy.Unchanged(time.Minute), own)
	a.must()
	first, _ := f.w.Mini.Get(key)
	if _, err := backend.Try(bg, key, f.ttl); err == nil {
		t.Fatal("taken from A")
	}
	a.done()
	f.pass(30 * time.Second)
	b.must()
	if again, _ := f.w.Mini.Get(key); again != first {
		t.Fatalf("the test is wrong: %s is not %s", again, first)
	}
	f.pass(31 * time.Second)
	if _, err := backend.Try(bg, key, f.ttl); err == nil {
		t.Error("taken from B, whom it took for a dead A")
	}
	// Followed at its own pace, the same bytes do tell: B has crashed.
	b.crash()
	took := false
	for i := 0; i < 700 && !took; i++ {
		f.pass(100 * time.Millisecond)
		took = tryWithClock(backend, own, f)
	}
	if !took {
		t.Error("a dead value was never taken over")
	}
}

// judging is a backend of ours alone, which judges dead values in a way of its own.
func (f *fleet) judging(p protocol, judge legacy.Takeover, own *redistest.Clock) lock.Backend {
	f.Helper()
	terms := dialect.Terms{Lease: f.lease}
	var b interface {
		lock.Backend
		io.Closer
	}
	var err error
	if p == bridged {
		b, err = migrate.New(f.w.Pool(), migrate.Config{Phases: migrate.Fixed(migrate.Dual), Dialect: f.dialect, Terms: terms, Takeover: judge, Clock: own})
	} else {
		b, err = legacy.New(f.w.Pool(), legacy.Config{Mode: legacy.Hardened, Dialect: f.dialect, Terms: terms, Takeover: judge, Clock: own})
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { b.Close() })
	return b
}

// tryWithClock is one attempt of a bare backend whose settle is awaited by moving time.
func tryWithClock(b lock.Backend, own *redistest.Clock, f *fleet) bool {
	settling := own.AskedTimes(own.Asked() + 1)
	got := make(chan error, 1)
	go func() {
		_, err := b.Try(bg, key, f.ttl)
		got <- err
	}()
	select {
	case err := <-got:
		return err == nil
	case <-settling:
		f.w.Pass(settled)
		return <-got == nil
	}
}

// A   0 s ├── job ──────────── 10 s ┤   a TTL of 15 s
// S        the server's clock is set forward by 20 s: every TTL is over
// B        1 s: the key is gone
//
// This is what no client can see in time: trust in a key that the server frees by its wall clock ends
// with the margin. Only the verbatim lock, which has no TTL, does not care.
func TestServersForwardStepBeyondTheMarginFreesAHeldKey(t *testing.T) {
	for _, c := range []struct {
		p    protocol
		step time.Duration
		two  bool
	}{
		{tokens, 20 * time.Second, true},
		{hardened, 20 * time.Second, true},
		{bridged, 20 * time.Second, true},
		{verbatim, 20 * time.Second, false},
		{tokens, time.Second, false}, // within the margin, a tenth of the TTL
		{hardened, time.Second, false},
		{bridged, time.Second, false},
	} {
		t.Run(fmt.Sprint(c.p, " ", c.step), func(t *testing.T) {
			f := newFleet(t, dialect.Jedis(), time.Minute)
			a, b := f.join(c.p, exact), f.join(c.p, exact)
			a.must()
			f.w.StepServer(c.step)
			if !c.two {
				// The last moment of trust, unrenewed.
				f.pause(f.ttl - f.ttl/10 - time.Millisecond)
			}
			b.try()
			if f.together() != c.two {
				t.Errorf("two at work: %v", f.together())
			}
		})
	}
}

// S   the server's clock is set back by an hour: a crashed holder's key lives an hour longer. That
// costs time, not exclusion.
func TestServersBackwardStepStretchesADeadHoldersKey(t *testing.T) {
	for _, p := range ours {
		t.Run(string(p), func(t *testing.T) {
			f := newFleet(t, dialect.Jedis(), time.Minute)
			a, b := f.join(p, exact), f.join(p, exact)
			a.must()
			a.crash()
			f.w.StepServer(-time.Hour)
			f.pause(f.ttl + 5*time.Second) // a stamp is kept for some time beyond its end
			if b.try() {
				t.Error("freed by elapsed time; Redis frees by its wall clock")
			}
			f.pause(time.Hour)
			if !b.try() {
				t.Error("never freed")
			}
		})
	}
}

// TestMatrixOfSkews compares the real clients with the law, cell by cell: a holder with a job just at
// the law's limit, and a challenger that is behind, exact, or ahead by just as much as is safe, or by
// one unit of the dialect more. The old client follows the law; ours never takes what an honest
// holder has, by any way of judging. Every dialect with a stamp is here, JedisUUID without its race.
func TestMatrixOfSkews(t *testing.T) {
	for _, d := range []dialect.Dialect{
		dialect.Jedis(), dialect.JedisAQS(), dialect.Errorception(), dialect.Faye(), dialect.ServiceStack(),
		dialect.Page(), dialect.PageNil(), dialect.PageGet(), dialect.ResqueTimeout(), dialect.Kdyby(), dialect.RedisPy(), dialect.TaskTiger(),
		dialect.RedisObjects(), dialect.RedisMutex(), dialect.Gorlock(), dialect.JedisUUID(), dialect.Template(), dialect.Machinery(),
	} {
		t.Run(d.Name, func(t *testing.T) {
			lease := time.Minute
			if d.Name == "Kdyby" || d.Name == "Faye" {
				lease = d.Lease // theirs is not the caller's to choose
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
	f := newFleet(t, d, lease)
	if d.Unit == dialect.UnitSeconds {
		// The law speaks of the worst moment: a stamp that is cut by almost a whole second.
		f.w.Pass(999 * time.Millisecond)
	}
	a, b := f.join(verbatim, exact), f.join(verbatim, ahead(delta))
	a.must()
	f.w.Pass(job)
	won := b.try()
	possible := v.Possible && delta >= 0
	if v.Unconditional {
		// What these clients do with no clock at fault needs two who race for a dead value, as in
		// TestJedisUUIDGrantsTwiceWithNoSkewAtAll. Here nobody died, and clocks alone decide.
		possible = delta > v.GreatestSpread.Bound
	}
	if won != possible {
		t.Errorf("Δ %v: taken %v, the law says %v", delta, won, possible)
	}
	judges := map[string]legacy.Takeover{
		"server clock": legacy.ServerClock(time.Second), "unchanged": legacy.All(legacy.Unchanged(lease), legacy.ServerClock(time.Second)),
		// Its margin has to cover our own clock's error as well.
		"local clock": legacy.LocalClock(time.Second + max(delta, 0)),
	}
	for name, judge := range judges {
		for _, p := range []protocol{hardened, bridged} {
			f := newFleet(t, d, lease)
			a, own := f.join(verbatim, behind(min(max(delta, -time.Second), time.Second))), f.w.Clock(ahead(delta))
			backend := f.judging(p, judge, own)
			a.must()
			f.w.Pass(job)
			if tryWithClock(backend, own, f) {
				t.Errorf("Δ %v: %s, by %s, took what an honest holder has", delta, p, name)
			}
		}
	}
	cellOfOurs(t, d, lease, delta)
}

// cellOfOurs lets the bridge work, to the last moment of its trust, and an old client try beside it whose
// clock is off by delta: a guard is in no clock's past. (A stamp is: hardened stands as far as its margin
// covers the fastest.)
func cellOfOurs(t *testing.T, d dialect.Dialect, lease, delta time.Duration) {
	t.Helper()
	f := newFleet(t, d, lease)
	a, b := f.join(bridged, exact), f.join(verbatim, ahead(delta))
	a.must()
	f.w.Pass(f.ttl - f.ttl/10 - time.Second - time.Millisecond)
	if b.try() && a.atWork() {
		t.Errorf("Δ %v: an old client entered beside a guard", delta)
	}
}

// A   0 s ├── job of a getsetlock client ─────────── 40 s ┤
// B (an old client, 25 h ahead)   at once: a stamp a day beyond the lease is over by its clock, a guard by nobody's
func TestOldClientADayAheadStealsFromAStamp(t *testing.T) {
	for _, c := range []struct {
		p      protocol
		ahead  time.Duration
		steals bool
	}{
		{hardened, 30 * time.Second, false},
		{hardened, 23 * time.Hour, false},
		{hardened, 25 * time.Hour, true},
		{bridged, 25 * time.Hour, false},
	} {
		t.Run(fmt.Sprint(c.p, " ", c.ahead), func(t *testing.T) {
			f := newFleet(t, dialect.Jedis(), time.Minute)
			a, b := f.join(c.p, exact), f.join(verbatim, ahead(c.ahead))
			a.must()
			f.pass(time.Second)
			if won := b.try(); won != c.steals {
				t.Errorf("entered: %v", won)
			}
			f.pass(5 * time.Second)
			if a.atWork() == c.steals {
				t.Errorf("at work: %v; a holder that lost its mark is told at the next renewal", a.atWork())
			}
		})
	}
}

// A (an old client, 2 min behind the server)   0 s ├── job ──────────────── 50 s ┤   writes −60 s by the server's clock
// B (a getsetlock client)          polls: the stamp has passed, and stands no longer than a lease
func TestFleetBehindTheServerIsNotRobbed(t *testing.T) {
	for _, p := range []protocol{hardened, bridged} {
		for _, c := range []struct {
			name   string
			behind time.Duration
			robs   bool
		}{
			{"unknown", 0, false},
			{"claimed", 2 * time.Minute, false},
			{"claimed wrongly", time.Second, true},
		} {
			t.Run(fmt.Sprint(p, " ", c.name), func(t *testing.T) {
				f := newFleet(t, dialect.Jedis(), time.Minute)
				f.behind = c.behind
				a, b := f.join(verbatim, behind(2*time.Minute)), f.join(p, exact)
				a.must()
				for range 10 {
					f.pass(5 * time.Second)
					b.try()
				}
				if f.together() != c.robs {
					t.Errorf("two held: %v", f.together())
				}
				a.done()
				if !b.atWork() {
					b.must() // and the key is free again
				}
			})
		}
	}
}

// A (an old client, 2 min behind the server)   0 s ├─ crash
// B (a getsetlock client)   looks at 1 s and at 62 s: the same bytes stood there for longer than any lease
func TestCrashedHolderOfASlowFleetIsReplaced(t *testing.T) {
	for _, p := range []protocol{hardened, bridged} {
		t.Run(string(p), func(t *testing.T) {
			f := newFleet(t, dialect.Jedis(), time.Minute)
			f.behind = 0
			a, b, c := f.join(verbatim, behind(2*time.Minute)), f.join(p, exact), f.join(p, exact)
			b.clock.On("machine")
			c.clock.On("machine") // another process of it
			a.must()
			a.crash()
			f.pass(time.Second)
			if b.try() {
				t.Error("taken at the first look")
			}
			f.pass(61 * time.Second)
			c.must()
		})
	}
}
