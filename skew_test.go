// The failure modes of clock drift, one test each. A name claims what happens; "falls" shows it under
// the old rules on the real client of package legacy, and that neither the hardened nor the modern lock
// does the same.
package getsetlock_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// A   0 s ├── job ──────────────────────────── 40 s ┤   writes 60 s
// B (30 s ahead)                        35 s: its clock says 65 s, takes over
func TestFastThiefStealsFromARunningJob(t *testing.T) {
	falls(t, dialect.Jedis(), time.Minute, func(f *fleet, p protocol) bool {
		a, b := f.join(p, exact), f.join(p, ahead(30*time.Second))
		a.must()
		f.pass(35 * time.Second)
		b.try()
		f.pass(5 * time.Second)
		a.done()
		return f.together()
	})
}

// A (2 min behind)   0 s ├── job ──   writes −60 s: expired before anybody has read it
// B                  1 s: takes over
func TestSlowHoldersValueIsBornExpired(t *testing.T) {
	falls(t, dialect.Jedis(), time.Minute, func(f *fleet, p protocol) bool {
		a, b := f.join(p, behind(2*time.Minute)), f.join(p, exact)
		a.must()
		f.pass(time.Second)
		b.try()
		return f.together()
	})
}

// A (a day ahead)   0 s ├─ crash            writes a day and 60 s
// B                                  2 min: waits for a day
func TestCrashedHolderWhoseClockWasAheadBlocksTheKey(t *testing.T) {
	falls(t, dialect.Jedis(), time.Minute, func(f *fleet, p protocol) bool {
		a, b := f.join(p, ahead(24*time.Hour)), f.join(p, exact)
		a.must()
		a.crash()
		f.pass(2 * time.Minute)
		return !b.try()
	})
}

// A   0 s ├── job ─────────── 30 s ┤
// B        waits   10 s: its clock is set forward by an hour, takes over
func TestForwardStepOfAWaiterBreaksTheLockAtOnce(t *testing.T) {
	falls(t, dialect.Jedis(), time.Minute, func(f *fleet, p protocol) bool {
		a, b := f.join(p, exact), f.join(p, exact)
		a.must()
		f.pass(10 * time.Second)
		b.try()
		b.step(time.Hour)
		b.try()
		f.pass(20 * time.Second)
		a.done()
		return f.together()
	})
}

// A   0 s ├── job, its own clock steps by an hour ── 30 s ┤   what it wrote stands
// B                                   20 s: waits
func TestStepOfTheHoldersClockAfterItsWriteChangesNothing(t *testing.T) {
	for _, p := range all {
		t.Run(string(p), func(t *testing.T) {
			f := newFleet(t, dialect.Jedis(), time.Minute)
			a, b := f.join(p, exact), f.join(p, exact)
			a.must()
			a.step(-time.Hour) // forwards, ours give up by themselves: which clock is right cannot be known
			f.pass(20 * time.Second)
			if b.try() || f.together() {
				t.Error("taken over")
			}
			f.pass(10 * time.Second)
			a.done()
		})
	}
}

// A   0 s ├─ crash
// B        its clock is set back by 10 min        2 min: still waits
func TestBackwardStepOfAWaiterKeepsADeadLockAlive(t *testing.T) {
	falls(t, dialect.Jedis(), time.Minute, func(f *fleet, p protocol) bool {
		a, b := f.join(p, exact), f.join(p, exact)
		a.must()
		a.crash()
		b.step(-10 * time.Minute)
		f.pass(2 * time.Minute)
		return !b.try()
	})
}

// A   0 s ├── job ─────────────────────────────────── 59 min 59.95 s ┤   lease one hour
// B (gains 30 ppm: 108 ms in an hour)   59 min 59.94 s: takes over
func TestDriftAddsUpOverALongJob(t *testing.T) {
	falls(t, dialect.Jedis(), time.Hour, func(f *fleet, p protocol) bool {
		a, b := f.join(p, exact), f.join(p, redistest.Skew{PPM: 30})
		a.must()
		f.pass(time.Hour - 60*time.Millisecond)
		b.try()
		f.pass(10 * time.Millisecond)
		a.done()
		return f.together()
	})
}

// A   0 s ├── job ───────────────── 4.9 s ┤   lease 5 s
// B (slewed at 83,333 ppm, chrony's default)   4.7 s: its clock gained 390 ms, takes over
func TestSlewedClockStealsFromAShortLease(t *testing.T) {
	falls(t, dialect.Jedis(), 5*time.Second, func(f *fleet, p protocol) bool {
		a, b := f.join(p, exact), f.join(p, redistest.Skew{PPM: 83333})
		a.must()
		f.pass(4700 * time.Millisecond)
		b.try()
		f.pass(200 * time.Millisecond)
		a.done()
		return f.together()
	})
}

// B (20 s behind)   reads the dead value, and stalls
// A        takes over ├── job ──────────────────── 55 s ┤   writes 60 s
// B        its GETSET loses, and leaves 40 s on the key
// C                                          41 s: takes over
func TestLoserShortensTheWinnersLease(t *testing.T) {
	// Ours takes over by compare-and-set: the loser writes nothing.
	falls(t, dialect.Jedis(), time.Minute, func(f *fleet, p protocol) bool {
		a, b, c := f.join(p, exact), f.join(p, behind(20*time.Second)), f.join(p, exact)
		f.dead(p)
		resume := b.stalls()
		a.must()
		if resume() {
			f.Fatal("the loser won")
		}
		f.pass(41 * time.Second)
		c.try()
		return f.together()
	})
}

// B   reads the dead value, and stalls
// A   takes over, works, deletes the key
// B   its GETSET finds nothing: it does not hold, and leaves a value that nobody holds
// C                                    5 s: waits for a minute
func TestGhostHoldsTheKeyForAWholeLease(t *testing.T) {
	falls(t, dialect.Jedis(), time.Minute, func(f *fleet, p protocol) bool {
		a, b, c := f.join(p, exact), f.join(p, exact), f.join(p, exact)
		f.dead(p)
		resume := b.stalls()
		a.must()
		a.done()
		// Ours finds the key free, takes it and knows so.
		switch won := resume(); {
		case won && p == verbatim:
			f.Fatal("a GETSET that found nothing counted as won")
		case won:
			b.done()
		}
		f.pass(5 * time.Second)
		ghost := !c.try()
		f.pass(56 * time.Second)
		if ghost && !c.try() {
			f.Error("the ghost outlived its lease")
		}
		return ghost
	})
}

// A   0 s ├── job, stopped for 70 s ──────────────── 75 s ┤ its DEL deletes B's key
// B                              61 s ├── job ─────────────── 100 s ┤ its DEL deletes C's key
// C                                                  76 s ├── job ──
// D                                                            101 s ├──
func TestOneOverrunStartsAChain(t *testing.T) {
	falls(t, dialect.Jedis(), time.Minute, func(f *fleet, p protocol) bool {
		a, b, c, d := f.join(p, exact), f.join(p, exact), f.join(p, exact), f.join(p, exact)
		a.must()
		f.pause(61 * time.Second)
		b.try()
		f.pass(14 * time.Second)
		a.done()
		f.pass(time.Second)
		c.try()
		f.pass(24 * time.Second)
		if b.working {
			b.done()
		}
		f.pass(time.Second)
		d.try()
		return f.together()
	})
}

// B   0 s: reads the dead value, and stalls for 50 s with its stamp (60 s) in hand
// A                    49 s ├── job ──────────────── 79 s ┤ writes 109 s
// B                       50 s: its GETSET loses, and leaves 60 s on the key
// C                                  61 s: takes over. No clock is wrong by anything.
func TestStalledLoserLetsTwoHoldAtZeroSkew(t *testing.T) {
	falls(t, dialect.Jedis(), time.Minute, func(f *fleet, p protocol) bool {
		a, b, c := f.join(p, exact), f.join(p, exact), f.join(p, exact)
		f.dead(p)
		resume := b.stalls()
		f.pass(49 * time.Second)
		a.must()
		f.pass(time.Second)
		if resume() {
			f.Fatal("the loser won")
		}
		f.pass(11 * time.Second)
		c.try()
		return f.together()
	})
	for _, p := range []protocol{hardened, bridged} {
		// Beside ours the stalled old client breaks its own bounds: a pause longer than the gap. Ours
		// loses its mark, is told at its next renewal, and has stopped before anybody enters.
		t.Run(string(p)+" is told", func(t *testing.T) {
			f := newFleet(t, dialect.Jedis(), time.Minute)
			a, b, c := f.join(p, exact), f.join(verbatim, exact), f.join(verbatim, exact)
			f.dead(p)
			resume := b.stalls()
			f.pass(49 * time.Second)
			a.must()
			resume()
			f.pass(5 * time.Second)
			if a.atWork() {
				t.Error("not told")
			}
			f.pass(6 * time.Second)
			c.try()
			if f.together() {
				t.Error("two at work")
			}
		})
	}
}

// A, B   the same clock to the millisecond, both read the dead value; equal stamps. Only the first
// GETSET returns what both read, so only one of them wins.
func TestLockstepClientsWithEqualStampsAreHarmless(t *testing.T) {
	for _, p := range all {
		t.Run(string(p), func(t *testing.T) {
			f := newFleet(t, dialect.Jedis(), time.Minute)
			a, b := f.join(p, exact), f.join(p, exact)
			f.dead(p)
			first, second := a.stalls(), b.stalls()
			if one, two := first(), second(); !one || two || f.together() {
				t.Errorf("first won %v, second won %v", one, two)
			}
		})
	}
}

// A   0 s ├── job, stopped ─────────── 62 s ┤ its DEL answers 1: it deleted B's key
// B                        61 s ├── job ──
// C                                    63 s ├──
func TestDelThatReturnsOneHasLetTwoIn(t *testing.T) {
	falls(t, dialect.Jedis(), time.Minute, func(f *fleet, p protocol) bool {
		a, b, c := f.join(p, exact), f.join(p, exact), f.join(p, exact)
		a.must()
		f.pause(61 * time.Second)
		b.must()
		f.pass(time.Second)
		if p != verbatim {
			a.done() // compares
		} else {
			conn := f.w.Pool().Get()
			defer conn.Close()
			if n, err := conn.Do("DEL", key); err != nil || n != int64(1) {
				f.Fatalf("DEL answered %v, %v", n, err)
			}
			a.crash() // it believes that all was well: its DEL returned 1
		}
		f.pass(time.Second)
		c.try()
		return f.together()
	})
}

// A   0 s ├── job ────────── 20 s ┤    somebody's EXPIRE gives the key 3 s
// B                   4 s: the key is gone
//
// Ours set the TTL anew at each renewal, every 2 s here; were the foreign TTL shorter than that, ours
// would find the key gone and be told lost.
func TestForeignExpireTakesTheKeyAway(t *testing.T) {
	falls(t, dialect.Jedis(), 24*time.Second, func(f *fleet, p protocol) bool {
		a, b := f.join(p, exact), f.join(p, exact)
		a.must()
		f.w.Mini.SetTTL(key, 3*time.Second)
		f.pass(4 * time.Second)
		b.try()
		return f.together()
	})
}
