package fleet

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/migrate"
)

// quantity is one of the times of the old fleet, with all that was said and seen
// of it.
type quantity struct {
	name     string
	into     *migrate.Known
	recorded migrate.Known
	claimed  time.Duration // as in Claims
	seen     Fact
	least    bool // it is a smallest time, so that a smaller one refutes it
	hint     bool // what was seen is no bound of what was not

	guaranteed Fact // what holds for all, seen or not
	proved     Fact // what it is at least
}

// quantities are the rows of the table by which fleet goes. What is known of the
// clocks against the server's has a table of its own, see clockBounds.
func (f *facts) quantities(out *migrate.Fleet) []quantity {
	r, s, c := under(f.record.Fleet, f.server.runID), f.sighting, f.claims
	return []quantity{
		{name: "the smallest lease", into: &out.Lease, recorded: r.Lease, seen: s.Lease, claimed: c.Lease, least: true},
		{name: "the greatest lease", into: &out.Greatest, recorded: r.Greatest, seen: s.Greatest, claimed: c.Greatest},
		{name: "the spread", into: &out.Spread, recorded: r.Spread, claimed: c.Spread, guaranteed: s.Spread, proved: s.Proved},
		{name: "the gap", into: &out.Gap, recorded: r.Gap, seen: s.Gap, claimed: c.Gap, hint: true},
		{name: "the longest job", into: &out.Job, recorded: r.Job, seen: s.Job, claimed: c.Job},
	}
}

// fleet joins what is recorded, seen and claimed. What was seen refutes a claim that it exceeds. What was only
// inferred is no more than a hint: a lease that was guessed too long would let ours be longer than rule 4
// allows, and one too short a window end too early.
func (f *facts) fleet() (migrate.Fleet, []Finding) {
	var out migrate.Fleet
	var refuted []Finding
	for _, q := range f.quantities(&out) {
		*q.into = q.known()
		refuted = append(refuted, q.refuted(*q.into)...)
	}
	if out.Lease.Source == migrate.Unknown && f.dialect.Lease > 0 {
		out.Lease = migrate.Known{Time: f.dialect.Lease, Source: migrate.Default}
	}
	if out.Greatest.Source == migrate.Unknown || out.Greatest.Time < out.Lease.Time {
		out.Greatest = out.Lease
	}
	return out, append(refuted, f.clocks(&out)...)
}

// told is what a human says or the record has, else what was seen.
func (q quantity) told() migrate.Known {
	said := q.recorded.Source != migrate.Unknown
	switch {
	case q.claimed != 0:
		return migrate.Known{Time: dialect.Bound(q.claimed), Source: migrate.Claimed}
	case said && (q.recorded.Source != migrate.Default || !proves(q.seen)):
		return q.recorded
	case q.seen.Basis == string(census.Given):
		return migrate.Known{Time: q.seen.Time, Source: migrate.Claimed} // by who watches
	case proves(q.seen) && (said || !q.hint):
		return measured(q.seen)
	}
	return migrate.Known{}
}

// known is what is told, unless a measure of it has grown since.
func (q quantity) known() migrate.Known {
	k := q.told()
	if g := q.guaranteed; proves(g) && (k.Source == migrate.Unknown || k.Source == migrate.Measured && g.Time > k.Time) {
		k = measured(g)
	}
	if k.Source == migrate.Measured && q.beyond(k) {
		k = measured(q.seen)
	}
	return k
}

func measured(f Fact) migrate.Known { return migrate.Known{Time: f.Time, Source: migrate.Measured} }

// beyond reports that a time was seen that k excludes.
func (q quantity) beyond(k migrate.Known) bool {
	if q.least {
		return proves(q.seen) && q.seen.Time < k.Time
	}
	return proves(q.seen) && q.seen.Time > k.Time
}

// refuted says why k cannot be.
func (q quantity) refuted(k migrate.Known) []Finding {
	switch {
	case k.Source == migrate.Unknown:
	case q.proved.Time > k.Time:
		return []Finding{{Rule: "claim", Seen: q.proved.At, Detail: fmt.Sprintf(
			"%s %v is refuted: their clocks were at least %v apart; say what is true", q.name, k, q.proved.Time)}}
	case k.Source != migrate.Measured && q.beyond(k):
		return []Finding{{Rule: "claim", Seen: q.seen.At, Detail: fmt.Sprintf(
			"%s %v is refuted: %v was seen%s; say what is true", q.name, k, q.seen.Time, by(q.seen.Who))}}
	}
	return nil
}

// proves reports that a fact rests on what was seen and on no guess.
func proves(f Fact) bool {
	return f.Basis == string(census.Measured) || f.Basis == string(census.Given)
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " at " + who
}

// dialectTerms are the times as package dialect computes with them, those that
// come from the dialect among them.
func dialectTerms(fl migrate.Fleet) dialect.Terms {
	for _, k := range []*migrate.Known{&fl.Lease, &fl.Greatest, &fl.Spread, &fl.Gap, &fl.Behind, &fl.Ahead} {
		if k.Source == migrate.Default {
			k.Source = migrate.Claimed
		}
	}
	return fl.Terms()
}

// term is one of the times of the old fleet, and how people say it.
type term struct {
	name, flag, rule string
	known            migrate.Known
	seen             Fact
	takeover         bool // only old clients that take over have it
}

// terms asks for the times of the old fleet, and checks our leases against them.
func (b *builder) terms(to migrate.Phase) {
	fleet, refuted := b.fleet()
	b.gate.Blocks = append(b.gate.Blocks, refuted...)
	seen := b.sighting
	for _, t := range []term{
		{"their smallest lease", "--lease", "lease", fleet.Lease, seen.Lease, false},
		{"their greatest lease", "--greatest", "greatest", fleet.Greatest, seen.Greatest, false},
		{"how far their clocks are apart at most", "--spread", "spread", fleet.Spread, seen.Spread, true},
		{"the longest time from a clock reading of theirs to its GETSET, the longest pause included", "--gap", "gap", fleet.Gap, seen.Gap, true},
		{"their longest job", "--job", "job", fleet.Job, seen.Job, false},
	} {
		b.term(t, b.record.Phase == migrate.Observe && to == migrate.Dual && (!t.takeover || b.dialect.HasTakeover()))
	}
	if p := seen.Proved; p.Known() {
		b.noteAt(p.At, "spread", "seen of it so far: no less than %v", p.Time)
	}
	b.clockEvidence(fleet)
	b.askLeaseAgain(fleet.Lease)
	b.leaseRule(fleet, to)
	if n := b.sighting.DoubleGrants; n > 0 && to == migrate.Dual {
		b.note("double-grants", "old clients took one lock twice at once, %d times: in this dialect they do not exclude each other, and beside such a pair ours may enter too", n)
	}
}

// askLeaseAgain closes the gate where what an old client writes fits a smaller lease
// better than the known one. Either its lease is that, and ours would outlive its
// stamps, or its clock is behind. Only a human can look that up.
func (b *builder) askLeaseAgain(known migrate.Known) {
	looks := b.sighting.LeaseLooks
	if l := b.sighting.Lease; !looks.Known() && !proves(l) {
		looks = l
	}
	if unsaid(known) || !looks.Known() || looks.Time >= known.Time {
		return
	}
	if b.claims.LeaseChecked {
		b.claim("lease", "their smallest lease was looked up again: %v, although what was written%s looks like %v", known.Time, by(looks.Who), looks.Time)
		return
	}
	b.gate.Blocks = append(b.gate.Blocks, Finding{Rule: "lease", Seen: looks.At, Detail: fmt.Sprintf(
		"their smallest lease is said to be %v, and what was written%s looks like %v: its lease is that, or its clock is behind the server's by the difference; look it up where it is configured, then say the smaller one by --lease, or confirm this one by --lease-checked",
		known.Time, by(looks.Who), looks.Time)})
}

// unsaid reports that nobody claimed or measured a time.
func unsaid(k migrate.Known) bool {
	return k.Source == migrate.Unknown || k.Source == migrate.Default
}

// guessed reports that a time was seen, by a guess.
func (t term) guessed() bool { return t.seen.Known() && !proves(t.seen) }

// missing reports that a time has to be measured or claimed before it is known.
func (b *builder) missing(t term) bool {
	if t.rule != "greatest" {
		return unsaid(t.known)
	}
	// It is the smallest where nobody tells the two apart. A guess that is greater does.
	return t.guessed() && t.seen.Time > t.known.Time && b.claims.Greatest == 0 && unsaid(b.record.Fleet.Greatest)
}

// term says what is known of one time. Where it is needed and nobody measured or claimed it, it blocks.
func (b *builder) term(t term, needed bool) {
	switch {
	case needed && b.missing(t):
		b.ask(t)
	case t.known.Source == migrate.Claimed:
		b.claim(t.rule, "%s: %v", t.name, t.known.Time)
	case t.known.Source != migrate.Unknown:
		b.note(t.rule, "%s: %v", t.name, t.known)
	}
	if t.seen.Known() {
		b.noteAt(t.seen.At, t.rule, "seen of it so far: %v (%s)%s", t.seen.Time, t.seen.Basis, by(t.seen.Who))
	}
}

// ask closes the gate until a time is measured or claimed.
func (b *builder) ask(t term) {
	switch {
	case t.guessed():
		b.block(t.rule, "%s is not known: %v is what their writes look like (%s), which is no measurement; make sure of it where they are configured, and say it by %s",
			t.name, t.seen.Time, t.seen.Basis, t.flag)
	case t.rule == "lease":
		b.block(t.rule, "%s is not known: say it by %s; what status --watch infers of it is a hint", t.name, t.flag)
	default:
		b.block(t.rule, "%s is not known: watch them (status --watch), or say it by %s", t.name, t.flag)
	}
}

// leaseRule holds our leases against the old clients' own: a stalled loser may leave its stamp over our
// mark, and our lease has to end before anybody may take that over.
func (b *builder) leaseRule(fleet migrate.Fleet, to migrate.Phase) {
	longest, bound := b.dialect.LongestLease(dialectTerms(fleet))
	if !bound || fleet.Lease.Source == migrate.Unknown || to > migrate.Sealed {
		return
	}
	if fleet.Job.Source != migrate.Unknown && fleet.Job.Time > longest {
		b.note("honest", "their longest job (%v) exceeds %v (lease + slack - spread - gap): such a job loses its lock to the next client, ours included, as it does today", fleet.Job.Time, longest)
	}
	for _, m := range b.members() {
		if m.err == nil && m.TTL > longest {
			b.block("lease-rule", "member %s takes leases of %v; with a lease of %v, a spread of %v and a gap of %v of the old clients they must not exceed %v: configure it for shorter ones",
				m.who(), m.TTL, fleet.Lease.Time, fleet.Spread.Time, fleet.Gap.Time, longest)
		}
	}
}

// oneDialect asks that all old clients write the same.
func (b *builder) oneDialect() {
	if mixed := b.sighting.Mixed; len(mixed) > 0 {
		b.block("dialect", "old clients write keys in two dialects, which do not exclude each other whatever we do: %q; move the clients of one of them first", mixed)
	}
	if v := b.survey.UUIDs; v.count > 0 {
		b.block("dialect", "stamps with a uuid stand on %v: who writes them takes the guards of %s for no stamp at all and the lock for free; give these locks a namespace of their own, or move their clients first, and delete what dead ones left", v, b.dialect.Name)
	}
	if others := b.survey.Others; others > 0 && b.namespace != "" {
		b.note("unreadable", "%d keys of the namespace hold what %s does not write; they are taken for held: if other clients lock by them, give those a namespace of their own", others, b.dialect.Name)
	}
}
