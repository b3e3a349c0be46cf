// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/migrate"
)

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
	"seen, and claimed by nobody": {func(f *facts, b bounded) { b.saw(f, second) }, migrate.Known{}, nil},

	"a refuted claim": {func(f *facts, b bounded) {
		*b.claim(f) = second
		b.saw(f, 2*second)
	}, migrate.Known{Time: second, Source: migrate.Claimed}, []string{"claim"}},
	"a claim that the record refutes": {func(f *facts, b bounded) {
		*b.claim(f) = second
		*b.recorded(f) = 2 * second
	}, migrate.Known{Time: second, Source: migrate.Claimed}, []string{"claim"}},
	"a refuted claim of zero": {func(f *facts, b bounded) {
		*b.claim(f) = dialect.Zero
		b.saw(f, second)
	}, migrate.Known{Time: 0, Source: migrate.Claimed}, []string{"claim"}},
	"a refuted recorded claim": {func(f *facts, b bounded) {
		*b.known(&f.record.Fleet) = migrate.Known{Time: second, Source: migrate.Claimed}
		b.saw(f, 2*second)
	}, migrate.Known{Time: second, Source: migrate.Claimed}, []string{"claim"}},
	"a claim that reaches": {func(f *facts, b bounded) {
		*b.claim(f) = 2 * second
		b.saw(f, 2*second)
	}, migrate.Known{Time: 2 * second, Source: migrate.Claimed}, nil},

	"a member acts by less": {func(f *facts, b bounded) {
		*b.acted(f) = second
		b.saw(f, 2*second)
	}, migrate.Known{}, []string{"own"}},
	"a member acts by less than the record": {func(f *facts, b bounded) {
		*b.acted(f) = second
		*b.recorded(f) = 2 * second
	}, migrate.Known{}, []string{"own"}},
	"a member acts by zero": {func(f *facts, b bounded) {
		*b.acted(f) = dialect.Zero
		b.saw(f, time.Millisecond)
	}, migrate.Known{}, []string{"own"}},
	"a member acts by enough": {func(f *facts, b bounded) {
		*b.acted(f) = 2 * second
		b.saw(f, 2*second)
	}, migrate.Known{}, nil},
	"a member knows none": {func(f *facts, b bounded) { b.saw(f, 2*second) }, migrate.Known{}, nil},
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
					f := orderly(p)
					c.change(f, b)
					rules := slices.Clone(c.rules)
					for i, r := range rules {
						rules[i] = strings.ReplaceAll(r, "own", own)
					}
					g := judge(f, p+1)
					closed(t, &g, rules...)
					if slices.Contains(rules, "claim") &&
						!strings.Contains(g.Blocks[0].Detail, "--forget-evidence") {
						t.Error("it does not say how to forget what was seen by a wrong lease:", g.Blocks[0])
					}
					fleet := f.fleet()
					if got := *b.known(&fleet); got != c.want {
						t.Errorf("to %v: %v is known, want %v", p+1, got, c.want)
					}
				}
			})
		}
	}
}

// bounded is one place where Behind or Ahead is set.
type bounded struct {
	claim, recorded func(*facts) *time.Duration
	known           func(*migrate.Fleet) *migrate.Known
	proved          func(*facts) *Fact
	acted           func(*facts) *time.Duration
}

func (b bounded) saw(f *facts, least time.Duration) {
	*b.proved(f) = Fact{Time: least, Basis: "measured", At: judged}
}

var bounds = map[string]bounded{
	"behind": {
		claim:    func(f *facts) *time.Duration { return &f.claims.Behind },
		recorded: func(f *facts) *time.Duration { return &f.record.SawBehind },
		known:    func(fl *migrate.Fleet) *migrate.Known { return &fl.Behind },
		proved:   func(f *facts) *Fact { return &f.sighting.BehindProved },
		acted:    func(f *facts) *time.Duration { return &f.survey.members[1].Behind },
	},
	"ahead": {
		claim:    func(f *facts) *time.Duration { return &f.claims.Ahead },
		recorded: func(f *facts) *time.Duration { return &f.record.SawAhead },
		known:    func(fl *migrate.Fleet) *migrate.Known { return &fl.Ahead },
		proved:   func(f *facts) *Fact { return &f.sighting.AheadProved },
		acted:    func(f *facts) *time.Duration { return &f.survey.members[1].Ahead },
	},
}

// TestClaimIsComparedWithWhatWasSeenBefore: a watch that began before anybody
// claimed a lease has seen the stamps all the same.
func TestClaimIsComparedWithWhatWasSeenBefore(t *testing.T) {
	fact := func(n time.Duration) Fact { return Fact{Time: n * second, Basis: "measured"} }
	least, most, apart := fact(-60), fact(70), fact(8)
	for name, c := range map[string]struct {
		claims   Claims
		unsaid   bool // the lease and the gap
		sighting Sighting
		rules    []string
		says     string
	}{
		"behind": {Claims{Behind: second}, false, Sighting{Facts: Facts{LeastLead: least}}, []string{"claim"},
			"at least 1m59s behind"},
		"behind, a shorter lease": {Claims{Behind: second, Lease: 30 * second}, false,
			Sighting{Facts: Facts{LeastLead: least}}, []string{"claim"}, "at least 1m29s behind"},
		"behind by as much": {Claims{Behind: 2 * minute}, false, Sighting{Facts: Facts{LeastLead: least}}, nil, ""},
		"no lease": {Claims{Behind: second}, true, Sighting{Facts: Facts{LeastLead: least}},
			[]string{"gap", "lease"}, ""},
		"ahead": {Claims{Ahead: second}, false, Sighting{Facts: Facts{MostLead: most}}, []string{"claim"},
			"at least 10s ahead"},
		"ahead, a greater lease": {Claims{Ahead: second, Greatest: 70 * second}, false,
			Sighting{Facts: Facts{MostLead: most}}, nil, ""},
		"apart": {Claims{}, false, Sighting{Facts: Facts{Leads: apart}}, []string{"claim"}, "at least 7s apart"},
		"apart, leases too": {Claims{Greatest: minute + 7*second}, false,
			Sighting{Facts: Facts{Leads: apart}}, nil,
			""},
		"nothing": {Claims{Behind: second, Ahead: second}, false, Sighting{}, nil, ""},
	} {
		f := orderly(migrate.Observe)
		f.claims, f.sighting = c.claims, c.sighting
		if c.unsaid {
			fleet := &f.record.Fleet
			fleet.Lease, fleet.Greatest, fleet.Gap = migrate.Known{}, migrate.Known{}, migrate.Known{}
		}
		g := judge(f, migrate.Dual)
		closed(t, &g, c.rules...)
		if text := fmt.Sprint(g.Blocks); !strings.Contains(text, c.says) {
			t.Errorf("%s: %s", name, text)
		}
	}
	seen := Sighting{Format: sightingFormat,
		Facts: Facts{LeastLead: fact(2), MostLead: fact(2), Leads: fact(2)}}
	got := seen.with(
		Sighting{Format: sightingFormat, Facts: Facts{LeastLead: fact(1), MostLead: fact(1), Leads: fact(3)}})
	if got.LeastLead != fact(1) || got.MostLead != fact(2) || got.Leads != fact(3) {
		t.Errorf("joined: %+v", got)
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
			"a lock that a crashed old client left is taken over only after its bytes were seen for a greatest lease, and never where that is unknown",
		"ahead: how far the fastest old client's clock is ahead of the server's at most is unknown, which closes no gate: " +
			"a stamp of a getsetlock client lies a day beyond the end of its lease",
	}
	if got := shown(unknown); !slices.Equal(got, want) {
		t.Errorf("where nobody knows: %q", got)
	}
	known := orderly(migrate.Observe)
	known.sighting.BehindProved = Fact{Time: second, Basis: "measured", At: judged, Who: "10.0.0.7:1 till"}
	known.claims.Behind, known.claims.Ahead = 2*second, dialect.Zero
	want = []string{
		"behind: how far the slowest old client's clock is behind the server's at most: 2s",
		"behind: seen so far: the clock of an old client was at least 1s behind the server's (measured) at 10.0.0.7:1 till",
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
				Ahead:  migrate.Known{Time: 0, Source: migrate.Claimed}},
			dialect.Terms{Spread: dialect.Zero, Gap: dialect.Zero, Behind: dialect.Zero, Ahead: dialect.Zero},
		},
		"times": {
			migrate.Fleet{Lease: migrate.Known{Time: 1, Source: migrate.Claimed},
				Greatest: migrate.Known{Time: 2, Source: migrate.Claimed},
				Spread:   migrate.Known{Time: 3, Source: migrate.Claimed},
				Gap:      migrate.Known{Time: 4, Source: migrate.Claimed},
				Behind:   migrate.Known{Time: 5, Source: migrate.Claimed},
				Ahead:    migrate.Known{Time: 6, Source: migrate.Claimed}},
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
			o := Options{Claims: c.claims, Dialect: dialect.Jedis()}
			if _, err := Status(bg, f.w.Pool(), o); (err != nil) != c.fails {
				t.Errorf("%s: %v", name, err)
			}
		}
		o := Options{Claims: Claims{Behind: time.Second}, Go: true}
		if _, err := Advance(bg, f.w.Pool(), o); !errors.Is(err, errBehindAlone) {
			t.Errorf("a Behind in a dialect that nobody stated: %v", err)
		}
	})
}

// contradictions are, for each claim, a sighting that contradicts it and one
// that does not.
var contradictions = map[string]struct {
	claim        func(*Claims)
	saw          func(*Sighting, Fact)
	against, not time.Duration
}{
	"lease": {func(c *Claims) { c.Lease = time.Minute },
		func(s *Sighting, f Fact) { s.Lease = f }, 59 * second, 61 * second},
	"greatest": {func(c *Claims) { c.Greatest = time.Minute },
		func(s *Sighting, f Fact) { s.Greatest = f }, 61 * second, 59 * second},
	"spread": {func(c *Claims) { c.Spread = second },
		func(s *Sighting, f Fact) { s.Proved = f }, 2 * second, second},
	"gap": {func(c *Claims) { c.Gap = second },
		func(s *Sighting, f Fact) { s.Gap = f }, 2 * second, second},
	"job": {func(c *Claims) { c.Job = second },
		func(s *Sighting, f Fact) { s.Job = f }, 2 * second, second},
	"idle": {func(c *Claims) { c.Idle = time.Hour },
		func(s *Sighting, f Fact) { s.Pause = f }, 2 * time.Hour, time.Hour},
	"behind": {func(c *Claims) { c.Behind = second },
		func(s *Sighting, f Fact) { s.BehindProved = f }, 2 * second, second},
	"ahead": {func(c *Claims) { c.Ahead = second },
		func(s *Sighting, f Fact) { s.AheadProved = f }, 2 * second, second},
}

// TestWhatWasSeenContradictsAClaimAndReplacesNone at every gate, forwards and
// back: the claim stays as it was, and one sentence says what contradicts it.
// Only two gates go by idle: after sealed, a pause may end at a tombstone.
func TestWhatWasSeenContradictsAClaimAndReplacesNone(t *testing.T) {
	for rule, c := range contradictions {
		for p := migrate.Observe; p <= migrate.Clean; p++ {
			for to := migrate.Observe; to <= migrate.Clean; to++ {
				if !adjacent(p, to) || p == migrate.Clean {
					continue
				}
				f := orderly(p)
				f.claims.Gone = true
				c.claim(&f.claims)
				before := f.fleet()
				for _, seen := range []time.Duration{c.not, c.against} {
					c.saw(&f.sighting, Fact{Time: seen, Basis: "measured", At: judged, Who: "10.0.0.7:1"})
					g := judge(f, to)
					var want []string
					if seen == c.against && (rule != "idle" || asksIdle(to)) {
						want = []string{"claim"}
					}
					closed(t, &g, want...)
					if after := f.fleet(); after != before {
						t.Errorf("%s: %+v became %+v", rule, before, after)
					}
					i := slices.IndexFunc(f.claimed(), func(c Claim) bool { return c.Rule == rule })
					if against := f.claimed()[i].Against; (against == "") != (seen == c.not) {
						t.Errorf("%s: status says %q", rule, against)
					}
				}
			}
		}
	}
}

// What was seen claims nothing, however long it was watched.
func TestNothingSeenIsAClaim(t *testing.T) {
	f := orderly(migrate.Observe)
	f.record.Fleet, f.claims = migrate.Fleet{}, Claims{}
	for _, c := range contradictions {
		c.saw(&f.sighting, Fact{Time: c.against, Basis: "measured", At: judged})
	}
	fleet := f.fleet()
	want := migrate.Fleet{Lease: migrate.Known{Time: f.dialect.Lease, Source: migrate.Default}}
	if fleet != want {
		t.Errorf("%+v", fleet)
	}
}

// TestStepKeepsWhatWasSeenOfClocks: a claim that was contradicted stays void
// after a step, although no watcher runs.
func TestStepKeepsWhatWasSeenOfClocks(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.to(migrate.Observe)
		r := f.at(migrate.Observe)
		r.SawBehind, r.SawAhead = 2*time.Minute, time.Minute
		f.writes(r)
		if r := f.advance(Options{Go: true, Wait: time.Minute}); !r.Moved {
			t.Fatalf("%+v", r.Gate)
		}
		if got := f.at(migrate.Dual); got.SawBehind != r.SawBehind || got.SawAhead != r.SawAhead {
			t.Errorf("after the step the record has %v and %v", got.SawBehind, got.SawAhead)
		}
	})
}

// Polls saw a killed client's stamp for 11 s, which may be no job. A job of 5 s
// whose release was seen refutes a claim of 2 s all the same.
func TestGuessReplacesNoProof(t *testing.T) {
	guess := Fact{Time: 11 * time.Second, Basis: string(census.Inferred)}
	proof := Fact{Time: 5 * time.Second, Basis: string(census.Measured)}
	more := Fact{Time: 7 * time.Second, Basis: string(census.Measured)}
	for _, c := range []struct{ a, b, want Fact }{
		{guess, proof, proof}, {proof, guess, proof}, {proof, more, more}, {more, proof, more},
		{Fact{}, guess, guess}, {guess, Fact{}, guess}, {Fact{}, proof, proof}, {proof, Fact{}, proof},
	} {
		if got := (Facts{Job: c.a}).with(Facts{Job: c.b}).Job; got != c.want {
			t.Errorf("%+v and %+v: %+v", c.a, c.b, got)
		}
	}
}
