// SPDX-License-Identifier: Apache-2.0

// Each test shows one failure mode of clock drift.
//
// All time here is a bubble's. Each client reads it through a clock of its own
// that is ahead, behind, fast, slow or stepped. The test moves time by Pass and
// Pause. A line such as b.Try() is one whole poll of client b, with its
// commands, at that instant. Falls runs each scenario four times. With the old
// protocol two clients must end up at work at once, or the key must stay
// blocked. With hardened, modern and bridge neither may happen. The drawing
// above a test shows true time from left to right.
package getsetlock_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A   0 s ├── job ──────────────────────────── 40 s ┤   writes 60 s
// B (30 s ahead)                        35 s: its clock says 65 s, takes over
func TestFastThiefStealsFromARunningJob(t *testing.T) {
	fleet.Falls(t, dialect.Jedis(), time.Minute, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b := f.Join(p, fleet.Exact), f.Join(p, fleet.Ahead(30*time.Second))
		a.Must()
		f.Pass(35 * time.Second)
		b.Try()
		f.Pass(5 * time.Second)
		a.Done()
		return f.Together()
	})
}

// A (2 min behind)   0 s ├── job ──   writes −60 s: expired before any client has read it
// B                  1 s: takes over
func TestSlowHoldersValueIsBornExpired(t *testing.T) {
	fleet.Falls(t, dialect.Jedis(), time.Minute, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b := f.Join(p, fleet.Behind(2*time.Minute)), f.Join(p, fleet.Exact)
		a.Must()
		f.Pass(time.Second)
		b.Try()
		return f.Together()
	})
}

// A (a day ahead)   0 s ├─ crash            writes a day and 60 s
// B                                  2 min: waits for a day
func TestCrashedHolderWhoseClockWasAheadBlocksTheKey(t *testing.T) {
	fleet.Falls(t, dialect.Jedis(), time.Minute, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b := f.Join(p, fleet.Ahead(24*time.Hour)), f.Join(p, fleet.Exact)
		a.Must()
		a.Crash()
		f.Pass(2 * time.Minute)
		return !b.Try()
	})
}

// A   0 s ├── job ─────────── 30 s ┤
// B        waits   10 s: its clock is set forward by an hour, takes over
func TestForwardStepOfAWaiterBreaksTheLockAtOnce(t *testing.T) {
	fleet.Falls(t, dialect.Jedis(), time.Minute, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b := f.Join(p, fleet.Exact), f.Join(p, fleet.Exact)
		a.Must()
		f.Pass(10 * time.Second)
		b.Try()
		b.Clock.Step(time.Hour)
		b.Try()
		f.Pass(20 * time.Second)
		a.Done()
		return f.Together()
	})
}

// A   0 s ├── job, its own clock steps by an hour ── 30 s ┤   what it wrote stands
// B                                   20 s: waits
func TestStepOfTheHoldersClockAfterItsWriteChangesNothing(t *testing.T) {
	for _, p := range fleet.All {
		fleet.Run(t, string(p), dialect.Jedis(), time.Minute, func(f *fleet.Fleet) {
			a, b := f.Join(p, fleet.Exact), f.Join(p, fleet.Exact)
			a.Must()
			// forwards, a getsetlock client gives up by itself, since it cannot
			// know which clock is right
			a.Clock.Step(-time.Hour)
			f.Pass(20 * time.Second)
			if b.Try() || f.Together() {
				f.Error("taken over")
			}
			f.Pass(10 * time.Second)
			a.Done()
		})
	}
}

// A   0 s ├─ crash
// B        its clock is set back by 10 min        2 min: still waits
func TestBackwardStepOfAWaiterKeepsADeadLockAlive(t *testing.T) {
	fleet.Falls(t, dialect.Jedis(), time.Minute, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b := f.Join(p, fleet.Exact), f.Join(p, fleet.Exact)
		a.Must()
		a.Crash()
		b.Clock.Step(-10 * time.Minute)
		f.Pass(2 * time.Minute)
		return !b.Try()
	})
}

// A   0 s ├── job ─────────────────────────────────── 59 min 59.95 s ┤   lease one hour
// B (gains 30 ppm: 108 ms in an hour)   59 min 59.94 s: takes over
func TestDriftAddsUpOverALongJob(t *testing.T) {
	fleet.Falls(t, dialect.Jedis(), time.Hour, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b := f.Join(p, fleet.Exact), f.Join(p, redistest.Skew{PPM: 30})
		a.Must()
		f.Pass(time.Hour - 60*time.Millisecond)
		b.Try()
		f.Pass(10 * time.Millisecond)
		a.Done()
		return f.Together()
	})
}

// A   0 s ├── job ───────────────── 4.9 s ┤   lease 5 s
// B (slewed at 83,333 ppm, chrony's default)   4.7 s: its clock gained 390 ms, takes over
func TestSlewedClockStealsFromAShortLease(t *testing.T) {
	fleet.Falls(t, dialect.Jedis(), 5*time.Second, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b := f.Join(p, fleet.Exact), f.Join(p, redistest.Skew{PPM: 83333})
		a.Must()
		f.Pass(4700 * time.Millisecond)
		b.Try()
		f.Pass(200 * time.Millisecond)
		a.Done()
		return f.Together()
	})
}

// B (20 s behind)   reads the dead value, and stalls
// A        takes over ├── job ──────────────────── 55 s ┤   writes 60 s
// B        its GETSET loses, and leaves 40 s on the key
// C                                          41 s: takes over
func TestLoserShortensTheWinnersLease(t *testing.T) {
	// The getsetlock client takes over by compare-and-set, so the loser writes
	// nothing.
	fleet.Falls(t, dialect.Jedis(), time.Minute, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b, c := f.Join(p, fleet.Exact), f.Join(p, fleet.Behind(20*time.Second)), f.Join(p, fleet.Exact)
		f.Dead(p)
		resume := b.Stalls()
		a.Must()
		if resume() {
			f.Fatal("the loser won")
		}
		f.Pass(41 * time.Second)
		c.Try()
		return f.Together()
	})
}

// B   reads the dead value, and stalls
// A   takes over, works, deletes the key
// B   its GETSET finds nothing: it does not hold, and leaves a value without a holder
// C                                    5 s: waits for a minute
func TestGhostHoldsTheKeyForAWholeLease(t *testing.T) {
	fleet.Falls(t, dialect.Jedis(), time.Minute, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b, c := f.Join(p, fleet.Exact), f.Join(p, fleet.Exact), f.Join(p, fleet.Exact)
		f.Dead(p)
		resume := b.Stalls()
		a.Must()
		a.Done()
		// A getsetlock client finds the key free, takes it and knows that.
		switch won := resume(); {
		case won && p == fleet.Verbatim:
			f.Fatal("a GETSET that found nothing counted as won")
		case won:
			b.Done()
		}
		f.Pass(5 * time.Second)
		ghost := !c.Try()
		f.Pass(56 * time.Second)
		if ghost && !c.Try() {
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
	fleet.Falls(t, dialect.Jedis(), time.Minute, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b, c, d := f.Join(p, fleet.Exact), f.Join(p, fleet.Exact), f.Join(p, fleet.Exact),
			f.Join(p, fleet.Exact)
		a.Must()
		f.Pause(61 * time.Second)
		b.Try()
		f.Pass(14 * time.Second)
		a.Done()
		f.Pass(time.Second)
		c.Try()
		second := b.Working && c.Working
		f.Pass(24 * time.Second)
		if b.Working {
			b.Done()
		}
		f.Pass(time.Second)
		d.Try()
		third := c.Working && d.Working
		if p == fleet.Verbatim {
			return second && third // a release that compares ends the chain after A and B
		}
		return f.Together()
	})
}

// B   0 s: reads the dead value, and stalls for 50 s with its stamp (60 s) in hand
// A                    49 s ├── job ──────────────── 79 s ┤ writes 109 s
// B                       50 s: its GETSET loses, and leaves 60 s on the key
// C                                  61 s: takes over. No clock is wrong by anything.
func TestStalledLoserLetsTwoHoldAtZeroSkew(t *testing.T) {
	fleet.Falls(t, dialect.Jedis(), time.Minute, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b, c := f.Join(p, fleet.Exact), f.Join(p, fleet.Exact), f.Join(p, fleet.Exact)
		f.Dead(p)
		resume := b.Stalls()
		f.Pass(49 * time.Second)
		a.Must()
		f.Pass(time.Second)
		if resume() {
			f.Fatal("the loser won")
		}
		f.Pass(11 * time.Second)
		c.Try()
		return f.Together()
	})
	for _, p := range []fleet.Protocol{fleet.Hardened, fleet.Bridged} {
		// With a getsetlock client, the stalled old client breaks its own
		// bounds: a pause longer than the gap. The getsetlock client loses its
		// mark, learns of it at its next renewal, and has stopped before any
		// client enters.
		fleet.Run(t, string(p)+" learns of the loss", dialect.Jedis(), time.Minute, func(f *fleet.Fleet) {
			a, b, c := f.Join(p, fleet.Exact), f.Join(fleet.Verbatim, fleet.Exact),
				f.Join(fleet.Verbatim, fleet.Exact)
			f.Dead(p)
			resume := b.Stalls()
			f.Pass(49 * time.Second)
			a.Must()
			resume()
			f.Pass(5 * time.Second)
			if a.AtWork() {
				f.Error("still at work")
			}
			f.Pass(6 * time.Second)
			c.Try()
			if f.Together() {
				f.Error("two at work")
			}
		})
	}
}

// A, B   the same clock to the millisecond, both read the dead value; equal stamps. Only the first
// GETSET returns what both read, so only one of them wins.
func TestLockstepClientsWithEqualStampsAreHarmless(t *testing.T) {
	for _, p := range fleet.All {
		fleet.Run(t, string(p), dialect.Jedis(), time.Minute, func(f *fleet.Fleet) {
			a, b := f.Join(p, fleet.Exact), f.Join(p, fleet.Exact)
			f.Dead(p)
			first, second := a.Stalls(), b.Stalls()
			if one, two := first(), second(); !one || two || f.Together() {
				f.Errorf("first won %v, second won %v", one, two)
			}
		})
	}
}

// A   0 s ├── job, stopped ─────────── 62 s ┤ its DEL answers 1: it deleted B's key
// B                        61 s ├── job ──
// C                                    63 s ├──
func TestDelThatReturnsOneHasLetTwoIn(t *testing.T) {
	fleet.Falls(t, dialect.Jedis(), time.Minute, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b, c := f.Join(p, fleet.Exact), f.Join(p, fleet.Exact), f.Join(p, fleet.Exact)
		a.Must()
		f.Pause(61 * time.Second)
		b.Must()
		f.Pass(time.Second)
		if p != fleet.Verbatim {
			a.Done() // its release compares
		} else {
			conn := f.World.Pool().Get()
			defer conn.Close()
			if n, err := conn.Do("DEL", fleet.Key); err != nil || n != int64(1) {
				f.Fatalf("DEL answered %v, %v", n, err)
			}
			a.Crash() // the client believes that all was well: its DEL returned 1
		}
		f.Pass(time.Second)
		c.Try()
		return f.Together()
	})
}

// A   0 s ├── job ────────── 20 s ┤    another program's EXPIRE gives the key 3 s
// B                   4 s: the key is gone
//
// Getsetlock clients set the TTL anew at each renewal, every 2 s here. If the
// foreign TTL were shorter than that, they would find the key gone and learn of
// the loss.
func TestForeignExpireTakesTheKeyAway(t *testing.T) {
	fleet.Falls(t, dialect.Jedis(), 24*time.Second, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b := f.Join(p, fleet.Exact), f.Join(p, fleet.Exact)
		a.Must()
		f.World.Mini.SetTTL(fleet.Key, 3*time.Second)
		f.Pass(4 * time.Second)
		b.Try()
		return f.Together()
	})
}
