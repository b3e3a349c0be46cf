package fleet

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/migrate"
)

// quantity is one of the times of the old clients, with all that was claimed,
// recorded and seen of it.
type quantity struct {
	name     string
	into     *migrate.Known
	recorded migrate.Known
	claimed  time.Duration // as in Claims
	seen     Fact
	least    bool // a smaller time that was seen refutes it
	hint     bool // what was seen does not bound what was not seen

	guaranteed Fact // upper bound for every client
	proved     Fact // lower bound
}

// quantities are the rows of the table that fleet evaluates. Clocks compared
// with the server's have a table of their own, see clockBounds.
func (f *facts) quantities(out *migrate.Fleet) []quantity {
	r, s, c := under(f.record.Fleet, f.server.runID), f.sighting, f.claims
	return []quantity{
		{name: "the smallest lease", into: &out.Lease, recorded: r.Lease, seen: s.Lease, claimed: c.Lease,
			least: true},
		{name: "the greatest lease", into: &out.Greatest, recorded: r.Greatest, seen: s.Greatest,
			claimed: c.Greatest},
		{name: "the spread", into: &out.Spread, recorded: r.Spread, claimed: c.Spread, guaranteed: s.Spread,
			proved: s.Proved},
		{name: "the gap", into: &out.Gap, recorded: r.Gap, seen: s.Gap, claimed: c.Gap, hint: true},
		{name: "the longest job", into: &out.Job, recorded: r.Job, seen: s.Job, claimed: c.Job},
	}
}

// fleet joins what is recorded, seen and claimed, and returns the claims that
// what was seen refutes. An inferred time is only a hint. A lease guessed too
// long would allow getsetlock clients longer leases than rule 4 does; one
// guessed too short would end a window too early.
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

// told returns the claim, else what the record has, else what was seen.
func (q quantity) told() migrate.Known {
	said := q.recorded.Source != migrate.Unknown
	switch {
	case q.claimed != 0:
		return migrate.Known{Time: dialect.Bound(q.claimed), Source: migrate.Claimed}
	case said && (q.recorded.Source != migrate.Default || !proves(q.seen)):
		return q.recorded
	case q.seen.Basis == string(census.Given):
		return migrate.Known{Time: q.seen.Time, Source: migrate.Claimed} // the watcher was given it
	case proves(q.seen) && (said || !q.hint):
		return measured(q.seen)
	}
	return migrate.Known{}
}

// known returns what told returns, with two exceptions. A guaranteed bound
// replaces an unknown value or a smaller measured one. A time that was seen
// replaces a measured value that excludes it. A claim is never replaced.
func (q quantity) known() migrate.Known {
	k := q.told()
	if g := q.guaranteed; proves(g) &&
		(k.Source == migrate.Unknown || k.Source == migrate.Measured && g.Time > k.Time) {
		k = measured(g)
	}
	if k.Source == migrate.Measured && q.beyond(k) {
		k = measured(q.seen)
	}
	return k
}

func measured(f Fact) migrate.Known { return migrate.Known{Time: f.Time, Source: migrate.Measured} }

// beyond reports whether a time was seen that k excludes: a smaller one where
// least is set, else a greater one.
func (q quantity) beyond(k migrate.Known) bool {
	if q.least {
		return proves(q.seen) && q.seen.Time < k.Time
	}
	return proves(q.seen) && q.seen.Time > k.Time
}

// refuted says why k cannot be true. It is empty where nothing refutes k.
func (q quantity) refuted(k migrate.Known) []Finding {
	switch {
	case k.Source == migrate.Unknown:
	case q.proved.Time > k.Time:
		return []Finding{{Rule: "claim", Seen: q.proved.At, Detail: fmt.Sprintf(
			"%s %v is refuted: clocks of old clients were at least %v apart; set the true value", q.name, k,
			q.proved.Time)}}
	case k.Source != migrate.Measured && q.beyond(k):
		return []Finding{{Rule: "claim", Seen: q.seen.At, Detail: fmt.Sprintf(
			"%s %v is refuted: %v was seen%s; set the true value", q.name, k, q.seen.Time, by(q.seen.Who))}}
	}
	return nil
}

// proves reports that a fact was measured or given, and not guessed.
func proves(f Fact) bool {
	return f.Basis == string(census.Measured) || f.Basis == string(census.Given)
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " at " + who
}

// dialectTerms are the times in the form that package dialect computes with.
// Defaults of the dialect count as claimed.
func dialectTerms(fl migrate.Fleet) dialect.Terms {
	for _, k := range []*migrate.Known{&fl.Lease, &fl.Greatest, &fl.Spread, &fl.Gap, &fl.Behind, &fl.Ahead} {
		if k.Source == migrate.Default {
			k.Source = migrate.Claimed
		}
	}
	return fl.Terms()
}

// term is one of the times of the old clients, with its names in reports and
// flags.
type term struct {
	name, flag, rule string
	known            migrate.Known
	seen             Fact
	takeover         bool // needed only in dialects with takeovers
}

// terms asks for the times of the old clients, and checks the leases of members
// against them.
func (b *builder) terms(to migrate.Phase) {
	fleet, refuted := b.fleet()
	b.gate.Blocks = append(b.gate.Blocks, refuted...)
	seen := b.sighting
	for _, t := range []term{
		{"the old clients' smallest lease", "--lease", "lease", fleet.Lease, seen.Lease, false},
		{"the old clients' greatest lease", "--greatest", "greatest", fleet.Greatest, seen.Greatest, false},
		{"the clock spread of the old clients (how far their clocks are apart at most)", "--spread", "spread",
			fleet.Spread, seen.Spread, true},
		{"the gap (the longest time from an old client's clock reading to its GETSET, pauses included)",
			"--gap", "gap", fleet.Gap, seen.Gap, true},
		{"the old clients' longest job", "--job", "job", fleet.Job, seen.Job, false},
	} {
		b.term(t, b.record.Phase == migrate.Observe && to == migrate.Dual &&
			(!t.takeover || b.dialect.HasTakeover()))
	}
	if p := seen.Proved; p.Known() {
		b.noteAt(p.At, "spread", "seen so far: no less than %v", p.Time)
	}
	b.clockEvidence(fleet)
	b.askLeaseAgain(fleet.Lease)
	b.leaseRule(fleet, to)
	if n := b.sighting.DoubleGrants; n > 0 && to == migrate.Dual {
		b.note("double-grants", "two old clients held one lock at once, %d times: in this dialect they do not exclude each other, and a getsetlock client may enter alongside such a pair", n)
	}
}

// askLeaseAgain blocks where what an old client writes fits a smaller lease
// better than the known one. Either the client's lease is that, and locks of
// getsetlock clients would outlive its stamps, or its clock is behind. Only the
// operator can look that up.
func (b *builder) askLeaseAgain(known migrate.Known) {
	looks := b.sighting.LeaseLooks
	if l := b.sighting.Lease; !looks.Known() && !proves(l) {
		looks = l
	}
	if unsaid(known) || !looks.Known() || looks.Time >= known.Time {
		return
	}
	if b.claims.LeaseChecked {
		b.claim("lease", "the old clients' smallest lease was looked up again: %v, although what was written%s looks like %v", known.Time, by(looks.Who), looks.Time)
		return
	}
	b.gate.Blocks = append(b.gate.Blocks, Finding{Rule: "lease", Seen: looks.At, Detail: fmt.Sprintf(
		"the old clients' smallest lease is said to be %v, and what was written%s looks like %v: that client's lease is %[3]v, or its clock is behind the server's by the difference; look the lease up where it is configured, then set the smaller one by --lease, or confirm %[1]v by --lease-checked",
		known.Time, by(looks.Who), looks.Time)})
}

// unsaid reports that nobody claimed or measured a time.
func unsaid(k migrate.Known) bool {
	return k.Source == migrate.Unknown || k.Source == migrate.Default
}

// guessed reports that a time was inferred from what was seen.
func (t term) guessed() bool { return t.seen.Known() && !proves(t.seen) }

// missing reports that a time still has to be measured or claimed.
func (b *builder) missing(t term) bool {
	if t.rule != "greatest" {
		return unsaid(t.known)
	}
	// The greatest lease is the smallest one unless something says otherwise,
	// such as a guess that is greater.
	return t.guessed() && t.seen.Time > t.known.Time && b.claims.Greatest == 0 &&
		unsaid(b.record.Fleet.Greatest)
}

// term notes what is known of one time. Where the time is needed and unknown,
// it blocks.
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
		b.noteAt(t.seen.At, t.rule, "seen so far: %v (%s)%s", t.seen.Time, t.seen.Basis, by(t.seen.Who))
	}
}

// ask blocks until a time is measured or claimed.
func (b *builder) ask(t term) {
	switch {
	case t.guessed():
		b.block(t.rule, "%s is unknown: the writes look like %v (%s), which is no measurement; look it up where the old clients are configured, and set %s",
			t.name, t.seen.Time, t.seen.Basis, t.flag)
	case t.rule == "lease":
		b.block(t.rule, "%s is unknown: set %s; what status --watch infers is only a hint", t.name, t.flag)
	default:
		b.block(t.rule, "%s is unknown: measure it (status --watch) or set %s", t.name, t.flag)
	}
}

// leaseRule blocks for members whose leases are longer than the old clients'
// times allow. A stalled loser may leave its stamp over a guard, and the
// member's lease must end before another old client may take that stamp over.
func (b *builder) leaseRule(fleet migrate.Fleet, to migrate.Phase) {
	longest, bound := b.dialect.LongestLease(dialectTerms(fleet))
	if !bound || fleet.Lease.Source == migrate.Unknown || to > migrate.Sealed {
		return
	}
	if fleet.Job.Source != migrate.Unknown && fleet.Job.Time > longest {
		b.note("honest", "the old clients' longest job (%v) exceeds %v (lease + slack - spread - gap): such a job loses its lock to the next client, old or getsetlock, as it does today", fleet.Job.Time, longest)
	}
	for _, m := range b.members() {
		if m.err == nil && m.TTL > longest {
			b.block("lease-rule", "member %s takes leases of %v; with the old clients' lease of %v, spread of %v and gap of %v a lease must not exceed %v: configure the member for shorter leases",
				m.who(), m.TTL, fleet.Lease.Time, fleet.Spread.Time, fleet.Gap.Time, longest)
		}
	}
}

// oneDialect blocks where old clients write in more than one dialect.
func (b *builder) oneDialect() {
	if mixed := b.sighting.Mixed; len(mixed) > 0 {
		b.block("dialect", "old clients write keys in two dialects, which do not exclude each other whatever getsetlock does: %q; move the clients of one of them first", mixed)
	}
	if v := b.survey.UUIDs; v.count > 0 {
		b.block("dialect", "%v hold stamps with a uuid: clients that write them take a guard of %s for no stamp, and the lock for free; give these locks a namespace of their own, or move their clients first, and delete what dead clients left", v, b.dialect.Name)
	}
	if others := b.survey.Others; others > 0 && b.namespace != "" {
		b.note("unreadable", "%d keys of the namespace hold values that %s does not write, which count as held locks: if they are other clients' locks, give them a namespace of their own", others, b.dialect.Name)
	}
}
