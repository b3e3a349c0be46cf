package fleet

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/migrate"
)

// clockBound is Behind or Ahead, with all that was claimed, recorded and seen
// of it.
type clockBound struct {
	rule, what, off, flag string

	claim        time.Duration // as in Claims
	recorded     migrate.Known
	seen, proved Fact
	acted        func(seat) time.Duration // the bound that a member acts by
	known        func(*migrate.Fleet) *migrate.Known
	unknown      string // what follows where it is unknown
}

// under returns what is known of the fleet on the server of that run id. A
// bound that was measured by another server's clock is unknown.
func under(fl migrate.Fleet, runID string) migrate.Fleet {
	if fl.Server != "" && fl.Server == runID {
		return fl
	}
	for _, k := range []*migrate.Known{&fl.Behind, &fl.Ahead} {
		if k.Source == migrate.Measured {
			*k = migrate.Known{}
		}
	}
	fl.Server = ""
	return fl
}

func (f *facts) clockBounds(fleet migrate.Fleet) []clockBound {
	recorded, s := under(f.record.Fleet, f.server.runID), f.sighting
	return []clockBound{
		{
			rule: "behind", what: "how far the slowest old client's clock is behind the server's at most",
			off: "behind", flag: "--behind",
			claim: f.claims.Behind, recorded: recorded.Behind, seen: s.Behind, proved: s.BehindProved,
			acted: func(m seat) time.Duration { return m.Behind },
			known: func(fl *migrate.Fleet) *migrate.Known { return &fl.Behind },
			unknown: "a lock that a crashed old client left is taken over only after its bytes were seen " +
				lookAge(fleet, f.dialect) + " before",
		},
		{
			rule: "ahead", what: "how far the fastest old client's clock is ahead of the server's at most",
			off: "ahead of", flag: "--ahead",
			claim: f.claims.Ahead, recorded: recorded.Ahead, seen: s.Ahead, proved: s.AheadProved,
			acted:   func(m seat) time.Duration { return m.Ahead },
			known:   func(fl *migrate.Fleet) *migrate.Known { return &fl.Ahead },
			unknown: "a stamp of a getsetlock client lies a day beyond the end of its lease",
		},
	}
}

// lookAge says how long ago the same bytes must have been seen.
func lookAge(fleet migrate.Fleet, d dialect.Dialect) string {
	if fleet.Greatest.Source == migrate.Unknown {
		return "a greatest lease"
	}
	return dialectTerms(fleet).LookAge(d).String()
}

// clocks fills in Behind and Ahead, and returns the claims that what was seen
// refutes. What was seen bounds no client that was not seen, so it counts only
// where its basis says measured. A measured bound that is too small becomes
// unknown again.
func (f *facts) clocks(fleet *migrate.Fleet) []Finding {
	var refuted []Finding
	for _, c := range f.clockBounds(*fleet) {
		out := c.recorded
		if claimed, said := dialect.Claimed(c.claim); said {
			out = migrate.Known{Time: claimed, Source: migrate.Claimed}
		}
		measured := proves(c.seen) && f.sighting.Server != "" && f.sighting.Server == f.server.runID
		if measured && (out.Source == migrate.Unknown ||
			out.Source == migrate.Measured && c.seen.Time > out.Time) {
			out = migrate.Known{Time: c.seen.Time, Source: migrate.Measured}
		}
		switch {
		case out.Source == migrate.Unknown || !f.refutes(c.proved, out.Time):
		case out.Source == migrate.Measured:
			out = migrate.Known{}
		default:
			refuted = append(refuted, Finding{Rule: "claim", Seen: c.proved.At, Detail: fmt.Sprintf(
				"%s %v is refuted: the clock of an old client%s was at least %v %s the server's; set the true value by %s",
				c.rule, out, by(c.proved.Who), c.proved.Time, c.off, c.flag)})
		}
		if *c.known(fleet) = out; out.Source == migrate.Measured {
			fleet.Server = f.server.runID
		}
	}
	return refuted
}

// refutes reports that a proved lower bound excludes d. A bound proved by
// another server's clock says nothing of this server's. Where the run id is
// unknown the bound is believed, which closes gates and opens none.
func (f *facts) refutes(proved Fact, d time.Duration) bool {
	another := f.sighting.Server != "" && f.server.runID != "" && f.sighting.Server != f.server.runID
	return proved.Known() && !another && proved.Time > d
}

// clockEvidence notes what is known of Behind and Ahead. An unknown bound
// blocks nothing: a member that knows none waits where another would take over.
// A member that acts by less than what was proved blocks.
func (b *builder) clockEvidence(fleet migrate.Fleet) {
	if !b.dialect.HasTakeover() {
		return
	}
	for _, c := range b.clockBounds(fleet) {
		switch k := *c.known(&fleet); {
		case k.Source == migrate.Claimed:
			b.claim(c.rule, "%s: %v", c.what, k.Time)
		case k.Source != migrate.Unknown:
			b.note(c.rule, "%s: %v", c.what, k)
		default:
			b.note(c.rule, "%s is unknown, which closes no gate: %s", c.what, c.unknown)
		}
		if c.seen.Known() {
			b.noteAt(c.seen.At, c.rule, "seen so far: no more than %v (%s)%s", c.seen.Time, c.seen.Basis,
				by(c.seen.Who))
		}
		if c.proved.Known() {
			b.noteAt(c.proved.At, c.rule, "seen so far: no less than %v%s", c.proved.Time, by(c.proved.Who))
		}
		b.actsByLess(c)
	}
}

// actsByLess blocks for each member whose Behind or Ahead is smaller than what
// was proved: it may take over a lock that an old client still holds.
func (b *builder) actsByLess(c clockBound) {
	for _, m := range b.members() {
		acted, known := dialect.Claimed(c.acted(m))
		if m.err != nil || !known || !b.refutes(c.proved, acted) {
			continue
		}
		b.gate.Blocks = append(b.gate.Blocks, Finding{Rule: c.rule, Seen: c.proved.At, Detail: fmt.Sprintf(
			"member %s assumes that old clients' clocks are at most %v %s the server's, and the clock of an old client%s was at least %v %s it: start the member again with a %s of at least that, or with none",
			m.who(), acted, c.off, by(c.proved.Who), c.proved.Time, c.off, c.flag)})
	}
}
