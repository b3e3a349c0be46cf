package fleet

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

const (
	thisServer = "0123456789abcdef"
	thatServer = "fedcba9876543210"
)

// sawClocks is an orderly fleet on a server that says which it is, whose clocks
// were watched there.
func sawClocks(p migrate.Phase, behind, behindProved, ahead, aheadProved time.Duration) *facts {
	f := orderly(p)
	f.server.runID, f.sighting.Server = thisServer, thisServer
	seen := func(d time.Duration) Fact {
		if d == 0 {
			return Fact{}
		}
		return Fact{Time: d, Basis: "measured", At: judged, Who: "10.0.0.7:1 till"}
	}
	f.sighting.Behind, f.sighting.BehindProved = seen(behind), seen(behindProved)
	f.sighting.Ahead, f.sighting.AheadProved = seen(ahead), seen(aheadProved)
	return f
}

const second = time.Second

// clockCases are what may be known of Behind or Ahead: by the record, a claim,
// a watch and the members.
var clockCases = map[string]struct {
	change func(f *facts, b bounded)
	want   migrate.Known // of the fleet
	rules  []string      // "own" is behind, or ahead
}{
	"nobody knows": {func(*facts, bounded) {}, migrate.Known{}, nil},
	"claimed": {func(f *facts, b bounded) { *b.claim(f) = 2 * second },
		migrate.Known{Time: 2 * second, Source: migrate.Claimed}, nil},
	"claimed as zero": {func(f *facts, b bounded) { *b.claim(f) = dialect.Zero },
		migrate.Known{Time: 0, Source: migrate.Claimed}, nil},
	"recorded as claimed": {func(f *facts, b bounded) {
		*b.known(&f.record.Fleet) = migrate.Known{Time: second, Source: migrate.Claimed}
	}, migrate.Known{Time: second, Source: migrate.Claimed}, nil},
	"measured": {func(f *facts, b bounded) { b.saw(f, 2*second, second) },
		migrate.Known{Time: 2 * second, Source: migrate.Measured}, nil},
	"measured beyond a measure": {func(f *facts, b bounded) {
		b.measured(f, second, thisServer)
		b.saw(f, 2*second, second)
	}, migrate.Known{Time: 2 * second, Source: migrate.Measured}, nil},
	"measured beyond a claim": {func(f *facts, b bounded) {
		*b.claim(f) = second
		b.saw(f, 2*second, second)
	}, migrate.Known{Time: second, Source: migrate.Claimed}, nil},
	"inferred": {func(f *facts, b bounded) {
		b.saw(f, 2*second, second)
		b.seen(f).Basis = "inferred"
	}, migrate.Known{}, nil},
	"measured by another server": {func(f *facts, b bounded) { b.measured(f, second, thatServer) },
		migrate.Known{}, nil},
	"seen by another server": {func(f *facts, b bounded) {
		b.saw(f, 2*second, second)
		f.sighting.Server = thatServer
	}, migrate.Known{}, nil},
	"claimed before another server": {func(f *facts, b bounded) {
		*b.known(&f.record.Fleet) = migrate.Known{Time: second, Source: migrate.Claimed}
		f.server.runID = thatServer
	}, migrate.Known{Time: second, Source: migrate.Claimed}, nil},
	"a server that says not which it is": {func(f *facts, b bounded) {
		b.saw(f, 2*second, second)
		f.server.runID, f.sighting.Server = "", ""
	}, migrate.Known{}, nil},

	"a refuted claim": {func(f *facts, b bounded) {
		*b.claim(f) = second
		b.saw(f, 0, 2*second)
	}, migrate.Known{Time: second, Source: migrate.Claimed}, []string{"claim"}},
	"a refuted claim of zero": {func(f *facts, b bounded) {
		*b.claim(f) = dialect.Zero
		b.saw(f, 0, second)
	}, migrate.Known{Time: 0, Source: migrate.Claimed}, []string{"claim"}},
	"a refuted recorded claim": {func(f *facts, b bounded) {
		*b.known(&f.record.Fleet) = migrate.Known{Time: second, Source: migrate.Claimed}
		b.saw(f, 0, 2*second)
	}, migrate.Known{Time: second, Source: migrate.Claimed}, []string{"claim"}},
	"a claim refuted by another server'second clock": {func(f *facts, b bounded) {
		*b.claim(f) = second
		b.saw(f, 0, 2*second)
		f.sighting.Server = thatServer
	}, migrate.Known{Time: second, Source: migrate.Claimed}, nil},
	"a claim refuted by nobody knows whose clock": {func(f *facts, b bounded) {
		*b.claim(f) = second
		b.saw(f, 0, 2*second)
		f.sighting.Server = ""
	}, migrate.Known{Time: second, Source: migrate.Claimed}, []string{"claim"}},
	"a refuted measurement is unknown": {func(f *facts, b bounded) {
		b.measured(f, second, thisServer)
		b.saw(f, 0, 2*second)
	}, migrate.Known{}, nil},
	"a claim that reaches": {func(f *facts, b bounded) {
		*b.claim(f) = 2 * second
		b.saw(f, 3*second, 2*second)
	}, migrate.Known{Time: 2 * second, Source: migrate.Claimed}, nil},

	"a member acts by less": {func(f *facts, b bounded) {
		*b.acted(f) = second
		b.saw(f, 0, 2*second)
	}, migrate.Known{}, []string{"own"}},
	"a member acts by zero": {func(f *facts, b bounded) {
		*b.acted(f) = dialect.Zero
		b.saw(f, 0, time.Millisecond)
	}, migrate.Known{}, []string{"own"}},
	"a member acts by enough": {func(f *facts, b bounded) {
		*b.acted(f) = 2 * second
		b.saw(f, 3*second, 2*second)
	}, migrate.Known{Time: 3 * second, Source: migrate.Measured}, nil},
	"a member knows none": {func(f *facts, b bounded) { b.saw(f, 3*second, 2*second) },
		migrate.Known{Time: 3 * second, Source: migrate.Measured}, nil},
	"a member acts by less than a claim": {func(f *facts, b bounded) {
		*b.acted(f) = second
		*b.claim(f) = time.Minute
	}, migrate.Known{Time: time.Minute, Source: migrate.Claimed}, nil},
}

func TestOnlyARefutedBehindOrAheadClosesAGate(t *testing.T) {
	for name, c := range clockCases {
		for own, b := range bounds {
			t.Run(name+", "+own, func(t *testing.T) {
				for p := migrate.Observe; p < migrate.Clean; p++ {
					f := sawClocks(p, 0, 0, 0, 0)
					c.change(f, b)
					rules := slices.Clone(c.rules)
					for i, r := range rules {
						rules[i] = strings.ReplaceAll(r, "own", own)
					}
					g := judge(f, p+1)
					closed(t, &g, rules...)
					fleet, _ := f.fleet()
					if got := *b.known(&fleet); got != c.want {
						t.Errorf("to %v: %v is known, want %v", p+1, got, c.want)
					}
					if want := map[bool]string{
						true: thisServer}[c.want.Source == migrate.Measured]; fleet.Server != want {
						t.Errorf("to %v: measured by the clock of %q, want %q", p+1, fleet.Server, want)
					}
				}
			})
		}
	}
}

// bounded is one place where Behind or Ahead is set.
type bounded struct {
	claim        func(*facts) *time.Duration
	known        func(*migrate.Fleet) *migrate.Known
	seen, proved func(*facts) *Fact
	acted        func(*facts) *time.Duration
}

func (b bounded) saw(f *facts, most, least time.Duration) {
	for fact, d := range map[*Fact]time.Duration{b.seen(f): most, b.proved(f): least} {
		if d > 0 {
			*fact = Fact{Time: d, Basis: "measured", At: judged}
		}
	}
}

func (b bounded) measured(f *facts, d time.Duration, server string) {
	*b.known(&f.record.Fleet) = migrate.Known{Time: d, Source: migrate.Measured}
	f.record.Fleet.Server = server
}

var bounds = map[string]bounded{
	"behind": {
		claim:  func(f *facts) *time.Duration { return &f.claims.Behind },
		known:  func(fl *migrate.Fleet) *migrate.Known { return &fl.Behind },
		seen:   func(f *facts) *Fact { return &f.sighting.Behind },
		proved: func(f *facts) *Fact { return &f.sighting.BehindProved },
		acted:  func(f *facts) *time.Duration { return &f.survey.members[1].Behind },
	},
	"ahead": {
		claim:  func(f *facts) *time.Duration { return &f.claims.Ahead },
		known:  func(fl *migrate.Fleet) *migrate.Known { return &fl.Ahead },
		seen:   func(f *facts) *Fact { return &f.sighting.Ahead },
		proved: func(f *facts) *Fact { return &f.sighting.AheadProved },
		acted:  func(f *facts) *time.Duration { return &f.survey.members[1].Ahead },
	},
}

// TestAPlanShowsAMemberThatActsByLess, since no later step mends it.
func TestAPlanShowsAMemberThatActsByLess(t *testing.T) {
	f := sawClocks(migrate.Observe, 0, 2*time.Second, 0, 0)
	f.survey.members[0].Behind = time.Second
	for _, l := range f.road(&Report{}).Legs {
		if !slices.ContainsFunc(l.Refuses, func(b Finding) bool { return b.Rule == "behind" }) {
			t.Errorf("the leg to %v does not say so: %v", l.To, l.Refuses)
		}
	}
}

func TestAGateShowsWhatIsKnownOfClocks(t *testing.T) {
	shown := func(f *facts) []string {
		var all []string
		for _, e := range judge(f, migrate.Dual).Evidence {
			if e.Rule == "behind" || e.Rule == "ahead" {
				all = append(all, e.Rule+": "+e.Detail)
			}
		}
		return all
	}
	unknown := orderly(migrate.Observe)
	want := []string{
		"behind: how far the slowest old client's clock is behind the server's at most is unknown, which closes no gate: " +
			"a lock that a crashed old client left is taken over only after its bytes were seen 1m0.002s before",
		"ahead: how far the fastest old client's clock is ahead of the server's at most is unknown, which closes no gate: " +
			"a stamp of a getsetlock client lies a day beyond the end of its lease",
	}
	if got := shown(unknown); !slices.Equal(got, want) {
		t.Errorf("where nobody knows: %q", got)
	}
	known := sawClocks(migrate.Observe, 2*time.Second, time.Second, 0, 0)
	known.claims.Ahead = dialect.Zero
	want = []string{
		"behind: how far the slowest old client's clock is behind the server's at most: 2s (measured)",
		"behind: seen so far: no more than 2s (measured) at 10.0.0.7:1 till",
		"behind: seen so far: no less than 1s at 10.0.0.7:1 till",
		"ahead: how far the fastest old client's clock is ahead of the server's at most: 0s",
	}
	if got := shown(known); !slices.Equal(got, want) {
		t.Errorf("where it is known: %q", got)
	}
	bare := orderly(migrate.Observe)
	bare.dialect = dialect.Bare()
	if got := shown(bare); len(got) > 0 {
		t.Errorf("where nobody takes over: %q", got)
	}
}

// TestAClaimOfZeroIsNoAbsentClaim: an unset Spread or Gap is unknown to the
// gate, and dialect.Zero is a claim like any other.
func TestAClaimOfZeroIsNoAbsentClaim(t *testing.T) {
	for name, c := range map[string]struct {
		claims Claims
		rules  []string
	}{
		"absent": {Claims{Lease: time.Minute, Job: time.Second}, []string{"spread", "gap"}},
		"zero": {Claims{Lease: time.Minute, Job: time.Second, Spread: dialect.Zero, Gap: dialect.Zero},
			nil},
	} {
		f := orderly(migrate.Observe)
		f.record.Fleet, f.claims = migrate.Fleet{}, c.claims
		g := judge(f, migrate.Dual)
		closed(t, &g, c.rules...)
		fleet, _ := f.fleet()
		if terms := fleet.Terms(); terms.Spread != c.claims.Spread || terms.Gap != c.claims.Gap {
			t.Errorf("%s: the bridge is given spread %d, gap %d", name, terms.Spread, terms.Gap)
		}
	}
}

// TestTheBridgeIsGivenWhatIsKnownAndNoMore: a known zero is not an unknown
// time.
func TestTheBridgeIsGivenWhatIsKnownAndNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		fleet migrate.Fleet
		want  dialect.Terms
	}{
		"nothing": {migrate.Fleet{}, dialect.Terms{}},
		"zeros": {
			migrate.Fleet{Spread: migrate.Known{Time: 0, Source: migrate.Claimed},
				Gap:    migrate.Known{Time: 0, Source: migrate.Claimed},
				Behind: migrate.Known{Time: 0, Source: migrate.Claimed},
				Ahead:  migrate.Known{Time: 0, Source: migrate.Measured}},
			dialect.Terms{Spread: dialect.Zero, Gap: dialect.Zero, Behind: dialect.Zero, Ahead: dialect.Zero},
		},
		"times": {
			migrate.Fleet{Lease: migrate.Known{Time: 1, Source: migrate.Claimed},
				Greatest: migrate.Known{Time: 2, Source: migrate.Claimed},
				Spread:   migrate.Known{Time: 3, Source: migrate.Measured},
				Gap:      migrate.Known{Time: 4, Source: migrate.Claimed},
				Behind:   migrate.Known{Time: 5, Source: migrate.Claimed},
				Ahead:    migrate.Known{Time: 6, Source: migrate.Measured}},
			dialect.Terms{Lease: 1, Greatest: 2, Spread: 3, Gap: 4, Behind: 5, Ahead: 6},
		},
		"defaults": {migrate.Fleet{Lease: migrate.Known{Time: 1, Source: migrate.Default},
			Greatest: migrate.Known{Time: 2, Source: migrate.Default},
			Gap:      migrate.Known{Time: 4, Source: migrate.Default}}, dialect.Terms{}},
	} {
		if got := c.fleet.Terms(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestAnotherServersMeasureIsUnknown(t *testing.T) {
	fleet := migrate.Fleet{Spread: migrate.Known{Time: 1, Source: migrate.Measured},
		Behind: migrate.Known{Time: 2, Source: migrate.Measured},
		Ahead:  migrate.Known{Time: 3, Source: migrate.Claimed}, Server: thisServer}
	if got := under(fleet, thisServer); got != fleet {
		t.Errorf("under the same server: %+v", got)
	}
	want := migrate.Fleet{Spread: migrate.Known{Time: 1, Source: migrate.Measured},
		Ahead: migrate.Known{Time: 3, Source: migrate.Claimed}}
	for _, id := range []string{thatServer, ""} {
		if got := under(fleet, id); got != want {
			t.Errorf("under %q: %+v", id, got)
		}
	}
}

func TestClaimsOfTimeAreChecked(t *testing.T) {
	inBubble(t, func(f *fleet) {
		for name, c := range map[string]struct {
			claims Claims
			fails  bool
		}{
			"zero spread": {Claims{
				Spread: dialect.Zero, Gap: dialect.Zero, Behind: dialect.Zero, Ahead: dialect.Zero}, false},
			"negative spread": {Claims{Spread: -1}, true},
			"negative behind": {Claims{Behind: -1}, true},
			"absurd ahead":    {Claims{Ahead: record.LongestTime + 1}, true},
			"zero lease":      {Claims{Lease: dialect.Zero}, true},
			"zero job":        {Claims{Job: dialect.Zero}, true},
		} {
			if _, err := Status(bg, f.w.Pool(), Options{Claims: c.claims}); (err != nil) != c.fails {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestAMemberPublishesByWhichBoundsItActs with its next heartbeat at the
// latest.
func TestAMemberPublishesByWhichBoundsItActs(t *testing.T) {
	for name, terms := range map[string]dialect.Terms{
		"unknown": {}, "zero": {Behind: dialect.Zero, Ahead: dialect.Zero},
		"times": {Behind: time.Second, Ahead: time.Minute},
	} {
		inBubble(t, func(f *fleet) {
			f.init(Options{})
			m := f.join(migrate.MemberConfig{})
			b, err := migrate.New(f.w.Pool(),
				migrate.Config{Phases: m, Terms: terms, Clock: f.w.Clock(redistest.Skew{})})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			f.beats()
			r := f.advance(Options{})
			if got := r.Members[0]; got.Behind != terms.Behind || got.Ahead != terms.Ahead {
				t.Errorf("%s: published %d, %d", name, got.Behind, got.Ahead)
			}
		})
	}
}

func TestWhatAnOlderVersionWroteIsRefused(t *testing.T) {
	old := "gsl/1 epoch=2 phase=dual pending=none since=1772452800.000042 dialect=Jedis lease=60000c greatest=60000c spread=1000c gap=1000c job=40000c"
	if _, err := migrate.ParseRecord(old); !errors.Is(err, record.ErrOlder) {
		t.Errorf("a record: %v", err)
	}
	if _, err := migrate.ParseMember("gsl/1 id=a name= dialect=Jedis epoch=0 phase=none every=5000 ttl=0 leases=- probe= seen=1772452800.000042"); !errors.Is(err, record.ErrOlder) {
		t.Errorf("a member: %v", err)
	}
	if _, err := parseSighting(`{"format":"gsl-seen/1"}`); !errors.Is(err, record.ErrOlder) {
		t.Errorf("what was seen: %v", err)
	}
	if _, err := migrate.ParseRecord("gsl/4" + old[5:]); !errors.Is(err, record.ErrNewer) {
		t.Errorf("a newer record: %v", err)
	}
	if _, err := parseSighting(`{"format":"gsl-seen/3"}`); !errors.Is(err, record.ErrNewer) {
		t.Errorf("what a newer version saw: %v", err)
	}
}

// TestWatchersJoinClocksOfOneServerOnly: what another server's clock showed is
// void.
func TestWatchersJoinClocksOfOneServerOnly(t *testing.T) {
	fact := func(d time.Duration) Fact { return Fact{Time: d, Basis: "measured"} }
	before := Sighting{Format: sightingFormat, Server: thisServer, Behind: fact(3), BehindProved: fact(2),
		Ahead: fact(1), AheadProved: fact(1)}
	now := Sighting{Format: sightingFormat, Server: thisServer, Behind: fact(2), AheadProved: fact(2)}
	got := now.with(before)
	if got.Behind != fact(3) || got.BehindProved != fact(2) || got.Ahead != fact(1) ||
		got.AheadProved != fact(2) {
		t.Errorf("by one server: %+v", got)
	}
	now.Server = thatServer
	got = now.with(before)
	if got.Behind != fact(2) || got.BehindProved.Known() || got.Ahead.Known() || got.AheadProved != fact(2) {
		t.Errorf("by another one: %+v", got)
	}
}

// What was measured grows with what is seen since.
func TestMeasuredTimeGrowsWithWhatIsSeen(t *testing.T) {
	fact := func(d time.Duration) Fact { return Fact{Time: d, Basis: "measured"} }
	known := func(d time.Duration, s migrate.Source) migrate.Known {
		return migrate.Known{Time: d, Source: s}
	}
	second, two := time.Second, 2*time.Second
	for _, c := range []struct {
		name string
		q    quantity
		want migrate.Known
	}{
		{"a greater guarantee", quantity{recorded: known(second, migrate.Measured), guaranteed: fact(two)},
			known(two, migrate.Measured)},
		{"a smaller guarantee", quantity{recorded: known(two, migrate.Measured), guaranteed: fact(second)},
			known(two, migrate.Measured)},
		{"a guarantee beside a claim",
			quantity{recorded: known(second, migrate.Claimed), guaranteed: fact(two)},
			known(second, migrate.Claimed)},
		{"a first guarantee", quantity{guaranteed: fact(two)}, known(two, migrate.Measured)},
		{"a longer time seen", quantity{recorded: known(second, migrate.Measured), seen: fact(two)},
			known(two, migrate.Measured)},
		{"a shorter least time seen",
			quantity{recorded: known(two, migrate.Measured), seen: fact(second), least: true},
			known(second, migrate.Measured)},
		{"a longer time beside a claim", quantity{recorded: known(second, migrate.Claimed), seen: fact(two)},
			known(second, migrate.Claimed)},
		{"a hint", quantity{seen: fact(two), hint: true}, migrate.Known{}},
	} {
		if got := c.q.known(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
