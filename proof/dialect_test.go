// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/fleet"
)

// Failure modes of single dialects, with all clocks right.

// One overrun starts a chain under SET NX EX with an unconditional DEL, too: a
// lease of 3 s, jobs of 7 s, a new client every 2 s.
func TestSetDelChainsWithoutAnyClockAtFault(t *testing.T) {
	fleet.Falls(t, dialect.SetDel(), 3*time.Second, func(f *fleet.Fleet, p fleet.Protocol) bool {
		var at []*fleet.Member
		for i := range 8 {
			m := f.Join(p, fleet.Exact)
			if m.Try() {
				at = append(at, m)
			}
			f.Pass(2 * time.Second)
			if len(at) > 0 && i%3 == 2 {
				at[0].Done()
				at = at[1:]
			}
		}
		if p == fleet.Verbatim && f.Most < 3 {
			f.Errorf("at most %d at work at once; a chain has three", f.Most)
		}
		return f.Together()
	})
}

// A, B   read the dead value; A's GETSET wins, B's loses and leaves B's own uuid on the key
// B      next poll: "mine" — GETSET returns its own value, and it holds together with A
func TestJedisUUIDGrantsTwiceWithNoSkewAtAll(t *testing.T) {
	fleet.Falls(t, dialect.JedisUUID(), time.Minute, func(f *fleet.Fleet, p fleet.Protocol) bool {
		a, b := f.Join(p, fleet.Exact), f.Join(p, fleet.Exact)
		f.Dead(p)
		first, second := a.Stalls(), b.Stalls()
		if !first() || second() {
			f.Fatal("the race did not go as drawn")
		}
		f.Pass(100 * time.Millisecond)
		b.Try()
		return f.Together()
	})
}

// A (2 min behind) and B read the dead value. A's GETSET returns it: A holds,
// and A's value is expired from the start. B's GETSET returns A's value, which
// is not what B read, but is expired.
//
//	the same string wins (Jedis):    B loses
//	still expired wins (the page):   B holds together with A
func TestSlowWinnerSeparatesTheWinningRules(t *testing.T) {
	for _, c := range []struct {
		d    dialect.Dialect
		wins bool
	}{{dialect.Jedis(), false}, {dialect.JedisAQS(), true}, {dialect.Page(), true}} {
		for _, p := range fleet.All {
			fleet.Run(t, c.d.Name+" "+string(p), c.d, time.Minute, func(f *fleet.Fleet) {
				a, b := f.Join(p, fleet.Behind(2*time.Minute)), f.Join(p, fleet.Exact)
				f.Dead(p)
				first, second := a.Stalls(), b.Stalls()
				if !first() {
					f.Fatal("the slow one did not win")
				}
				wins := c.wins && p == fleet.Verbatim
				if won := second(); won != wins || f.Together() != wins {
					f.Errorf("the second won: %v", won)
				}
			})
		}
	}
}
