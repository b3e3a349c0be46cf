// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/migrate"
)

const day, minute, margin = 24 * time.Hour, time.Minute, 30 * time.Second

// stampCases are values that a key holds, and what a survey makes of them.
var stampCases = map[string]struct {
	dialect dialect.Dialect
	terms   dialect.Terms
	ahead   time.Duration // of the server, on L
	px      time.Duration
	mark    bool // M carries the same bytes
	another bool // M carries others

	stamps, ours int64
	noTTL, lone  int64
}{
	"an old client's":                  {ahead: minute, stamps: 1, noTTL: 1},
	"an old client's beside another M": {ahead: minute, another: true, stamps: 1, noTTL: 1},
	"a stamp with a PX":                {ahead: day, px: minute, ours: 1},
	"a near stamp with a PX":           {ahead: minute, px: minute, ours: 1},
	"a stamp beside its M":             {ahead: day, mark: true, ours: 1},
	"a lone stamp a day ahead":         {ahead: day, stamps: 1, lone: 1},
	"a lone stamp a day and a lease":   {ahead: day + minute, stamps: 1, lone: 1},
	"a lone stamp less than a day":     {ahead: day - 61*time.Second, stamps: 1, noTTL: 1},
	"a lone stamp beyond":              {ahead: day + 62*time.Second, stamps: 1, noTTL: 1},
	"a day and Ahead ahead": {
		terms: dialect.Terms{Ahead: time.Hour}, ahead: day + time.Hour, stamps: 1, lone: 1},
	"a day ahead where Ahead is known": {
		terms: dialect.Terms{Ahead: time.Hour}, ahead: day, stamps: 1, lone: 1},
	"a stamp another M stands beside": {ahead: day, another: true, stamps: 1, noTTL: 1},
	"an old client's, which sets a TTL": {
		dialect: dialect.Gorlock(), ahead: minute, px: minute, stamps: 1},
	"ours beside such": {
		dialect: dialect.Gorlock(), ahead: minute, px: minute, mark: true, ours: 1},
	"one that is over":               {ahead: -minute, stamps: 1, noTTL: 1},
	"one that is over by the margin": {ahead: -margin, stamps: 1, noTTL: 1},
	"one that may live":              {ahead: -margin + time.Second, stamps: 1, noTTL: 1},
}

// TestStampOfAGetsetlockClientIsNoEvidence: M carries the same bytes, or it has
// a PX where the dialect sets none. The key of a remembered look is no lock.
func TestStampOfAGetsetlockClientIsNoEvidence(t *testing.T) {
	for name, c := range stampCases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fleet) {
				d := c.dialect
				if d == (dialect.Dialect{}) {
					d = dialect.Jedis()
				}
				c.terms.Greatest = minute
				n := f.w.ServerNow().Add(c.ahead).UnixMilli()
				if d.Name == "Gorlock" {
					n *= 1e6
				}
				stamp := strconv.FormatInt(n, 10)
				f.stands("stock:1", stamp, c.px)
				if c.mark {
					f.stands("{stock:1}:gsl", "46pp_t56wMdRpwZ1BglSEg "+stamp, minute)
				}
				if c.another {
					f.stands("{stock:1}:gsl", "46pp_t56wMdRpwZ1BglSEg 1"+stamp[1:], minute)
				}
				v := f.surveys(facts{namespace: "stock", dialect: d},
					func(s *surveyor) { s.terms, s.margin = c.terms, margin })
				if live := !c.mark && c.ahead > -margin; (v.Live.count == 1) != live ||
					(v.Past.count == 1) != (c.ahead <= -margin) ||
					live && c.ahead+margin-v.LiveFor > time.Second && c.px == 0 {
					t.Errorf("%d live values, for %v", v.Live.count, v.LiveFor)
				}
				if v.Keys != 1 || v.Stamps != c.stamps || v.Ours != c.ours || v.NoTTL.count != c.noTTL ||
					v.Lone.count != c.lone {
					t.Errorf("%d keys: %d stamps, %d of ours, %d without TTL, %d lone", v.Keys, v.Stamps,
						v.Ours, v.NoTTL.count, v.Lone.count)
				}
			})
		})
	}
}

func TestTheSurveyTakesARememberedLookForNoLock(t *testing.T) {
	for _, namespace := range []string{"", "stock"} {
		inBubble(t, func(f *fleet) {
			f.w.Mini.HSet("{stock:1}:gsl:look", "bytes", "1")
			f.w.Mini.HSet("stock:{2}:gsl:look", "bytes", "1")
			f.stands("stock:{3}:gsl:look", "1700000000000", 0) // should it ever be a string
			wire := f.w.Wire()
			_, err := Status(bg, wire.Pool(), Options{Namespace: namespace})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range wire.Sent() {
				if c.Is("GETRANGE") {
					t.Errorf("namespace %q: %v", namespace, c)
				}
			}
		})
	}
}

// An old client may name its lock as M of another lock is named. Its value says
// what it is.
func TestOldClientsKeyThatIsNamedLikeAnMIsALock(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.stands("{stock:1}:gsl", strconv.FormatInt(f.w.ServerNow().Add(minute).UnixMilli(), 10), 0)
		if v := f.surveys(facts{dialect: dialect.Jedis()}, nil); v.Live.count != 1 || v.Stamps != 1 {
			t.Errorf("%d live values, %d stamps", v.Live.count, v.Stamps)
		}
	})
}

// TestAGateNamesALoneStampADayAhead and moves no Ahead by it.
func TestAGateNamesALoneStampADayAhead(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.init(Options{})
		f.stands("stock:1", strconv.FormatInt(f.w.ServerNow().Add(25*time.Hour).UnixMilli(), 10), 0)
		o := f.options(Options{})
		o.Claims.Ahead = time.Hour
		r, err := Advance(bg, f.w.Pool(), o)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, e := range r.Gate.Evidence {
			found = found || e.Detail == `perhaps stamps of getsetlock clients that lost their TTL, since they lie a day ahead: "stock:1"`
		}
		if !found {
			t.Errorf("not named: %v", r.Gate.Evidence)
		}
		if road, err := Plan(bg, f.w.Pool(), f.options(Options{})); err != nil ||
			road.Fleet.Ahead.Source != migrate.Unknown {
			t.Errorf("Ahead %v (%v)", road.Fleet.Ahead, err)
		}
	})
}

// surveys looks at the keys of a fleet.
func (f *fleet) surveys(of facts, change func(*surveyor)) survey {
	f.t.Helper()
	of.now = f.w.ServerNow()
	s, err := newSurveyor(newMux(f), &of)
	if err != nil {
		f.t.Fatal(err)
	}
	if change != nil {
		change(s)
	}
	v, err := s.look(bg)
	if err != nil {
		f.t.Fatal(err)
	}
	return v
}

// stands writes a key, with a TTL if it is not 0.
func (f *fleet) stands(key, value string, ttl time.Duration) {
	f.t.Helper()
	if err := f.w.Mini.Set(key, value); err != nil {
		f.t.Fatal(err)
	}
	if ttl > 0 {
		f.w.Mini.SetTTL(key, ttl)
	}
}
