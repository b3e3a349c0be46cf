package getsetlock_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// Failure modes of single dialects, for which no clock needs to be wrong.

// One overrun starts a chain under SET NX EX with an unconditional DEL, too: a lease of 3 s, jobs of 7 s, a client every 2 s.
func TestSetDelChainsWithoutAnyClockAtFault(t *testing.T) {
	falls(t, dialect.SetDel(), 3*time.Second, func(f *fleet, p protocol) bool {
		var at []*member
		for i := range 8 {
			m := f.join(p, exact)
			if m.try() {
				at = append(at, m)
			}
			f.pass(2 * time.Second)
			if len(at) > 0 && i%3 == 2 {
				at[0].done()
				at = at[1:]
			}
		}
		if p == verbatim && f.most < 3 {
			f.Errorf("at most %d at work at once; a chain has three", f.most)
		}
		return f.together()
	})
}

// A, B   read the dead value; A's GETSET wins, B's loses and leaves B's own uuid on the key
// B      next poll: "mine" — GETSET returns its own value, and it holds beside A
func TestJedisUUIDGrantsTwiceWithNoSkewAtAll(t *testing.T) {
	falls(t, dialect.JedisUUID(), time.Minute, func(f *fleet, p protocol) bool {
		a, b := f.join(p, exact), f.join(p, exact)
		f.dead(p)
		first, second := a.stalls(), b.stalls()
		if !first() || second() {
			f.Fatal("the race did not go as drawn")
		}
		f.pass(100 * time.Millisecond)
		b.try()
		return f.together()
	})
}

// A (2 min behind) and B read the dead value. A's GETSET returns it: A holds, its value is born
// expired. B's GETSET returns A's value: not what B read, but expired.
//
//	the same string wins (Jedis):    B loses
//	still expired wins (the page):   B holds beside A
func TestWinningRulesAreToldApartByASlowWinner(t *testing.T) {
	for _, c := range []struct {
		d    dialect.Dialect
		wins bool
	}{{dialect.Jedis(), false}, {dialect.JedisAQS(), true}, {dialect.Page(), true}} {
		for _, p := range all {
			t.Run(c.d.Name+" "+string(p), func(t *testing.T) {
				f := newFleet(t, c.d, time.Minute)
				a, b := f.join(p, behind(2*time.Minute)), f.join(p, exact)
				f.dead(p)
				first, second := a.stalls(), b.stalls()
				if !first() {
					t.Fatal("the slow one did not win")
				}
				wins := c.wins && p == verbatim
				if won := second(); won != wins || f.together() != wins {
					t.Errorf("the second won: %v", won)
				}
			})
		}
	}
}
