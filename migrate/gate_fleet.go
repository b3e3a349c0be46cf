package migrate

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/audit"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// fleet joins what is recorded, seen and claimed. What was seen refutes a claim that it exceeds. What was only
// inferred is no more than a hint: a lease that was guessed too long would let ours be longer than rule 4
// allows, and one too short a window end too early.
func (f *facts) fleet() (Fleet, []Finding) {
	var out Fleet
	var refuted []Finding
	r, s := f.record.Fleet.under(f.server.runID), f.sighting
	pick := func(name string, into *Known, recorded Known, seen Fact, claimed time.Duration, least bool) {
		beyond := func(d time.Duration) bool {
			if least {
				return seen.Time < d
			}
			return seen.Time > d
		}
		switch {
		case claimed != 0:
			*into = Known{bound(claimed), Claimed}
		case recorded.known() && (recorded.Source != Default || !proves(seen)):
			*into = recorded
		case seen.Basis == string(audit.Given):
			*into = Known{seen.Time, Claimed} // by who watches
		case proves(seen):
			*into = Known{seen.Time, Measured}
		}
		if into.known() && into.Source != Measured && proves(seen) && beyond(into.Time) {
			refuted = append(refuted, Finding{
				Rule: "claim", Seen: seen.At,
				Detail: name + " " + into.String() + " is refuted: " + seen.Time.String() + " was seen" + by(seen.Who) + "; say what is true",
			})
		}
		if into.known() && into.Source == Measured && proves(seen) && beyond(into.Time) {
			*into = Known{seen.Time, Measured} // it has been seen since
		}
	}
	pick("the smallest lease", &out.Lease, r.Lease, s.Lease, f.claims.Lease, true)
	pick("the greatest lease", &out.Greatest, r.Greatest, s.Greatest, f.claims.Greatest, false)
	pick("the spread", &out.Spread, r.Spread, Fact{}, f.claims.Spread, false)
	if proves(s.Spread) && (!out.Spread.known() || out.Spread.Source == Measured && s.Spread.Time > out.Spread.Time) {
		out.Spread = Known{s.Spread.Time, Measured}
	}
	if out.Spread.known() && s.Proved.Time > out.Spread.Time {
		refuted = append(refuted, Finding{Rule: "claim", Seen: s.Proved.At, Detail: fmt.Sprintf(
			"the spread %v is refuted: their clocks were at least %v apart; say what is true", out.Spread, s.Proved.Time)})
	}
	pick("the gap", &out.Gap, r.Gap, s.Gap, f.claims.Gap, false)
	pick("the longest job", &out.Job, r.Job, s.Job, f.claims.Job, false)
	if out.Gap.Source == Measured && f.claims.Gap == 0 && !r.Gap.known() {
		out.Gap = Known{} // what was seen is no bound of what was not: somebody has to claim the longest pause
	}
	if !out.Lease.known() && f.dialect.Lease > 0 {
		out.Lease = Known{f.dialect.Lease, Default}
	}
	if !out.Greatest.known() && out.Lease.known() {
		out.Greatest = out.Lease
	}
	if out.Greatest.Time < out.Lease.Time {
		out.Greatest = out.Lease
	}
	return out, append(refuted, f.clocks(&out)...)
}

// proves reports that a fact rests on what was seen and on no guess.
func proves(f Fact) bool {
	return f.Basis == string(audit.Measured) || f.Basis == string(audit.Given)
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " at " + who
}

// dialectTerms are the times as package dialect computes with them.
func (fl Fleet) dialectTerms() dialect.Terms {
	return dialect.Terms{
		Lease: fl.Lease.Time, Greatest: fl.Greatest.Time, Spread: fl.Spread.claim(), Gap: fl.Gap.claim(),
		Behind: fl.Behind.claim(), Ahead: fl.Ahead.claim(),
	}
}

// term is one of the times of the old fleet, and how people say it.
type term struct {
	name, flag, rule string
	known            Known
	seen             Fact
	takeover         bool // only old clients that take over have it
}

// terms asks for the times of the old fleet, and checks our leases against them.
func (b *builder) terms(to Phase) {
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
		b.term(t, b.record.Phase == Observe && to == Dual && (!t.takeover || b.dialect.HasTakeover()))
	}
	if p := seen.Proved; p.Known() {
		b.noteAt(p.At, "spread", "seen of it so far: no less than %v", p.Time)
	}
	b.clockEvidence(fleet)
	b.leaseRule(fleet, to)
	if n := b.sighting.DoubleGrants; n > 0 && to == Dual {
		b.note("double-grants", "old clients took one lock twice at once, %d times: in this dialect they do not exclude each other, and beside such a pair ours may enter too", n)
	}
}

// term says what is known of one time. Where it is needed and nobody measured or claimed it, it blocks.
func (b *builder) term(t term, needed bool) {
	unsaid := func(k Known) bool { return !k.known() || k.Source == Default }
	unknown, guessed := unsaid(t.known), t.seen.Known() && !proves(t.seen)
	if t.rule == "greatest" {
		// It is the smallest where nobody tells the two apart. A guess that is greater does.
		unknown = guessed && t.seen.Time > t.known.Time && b.claims.Greatest == 0 && unsaid(b.record.Fleet.Greatest)
	}
	switch {
	case needed && unknown && guessed:
		b.block(t.rule, "%s is not known: %v is what their writes look like (%s), which is no measurement; make sure of it where they are configured, and say it by %s",
			t.name, t.seen.Time, t.seen.Basis, t.flag)
	case needed && unknown && t.rule == "lease":
		b.block(t.rule, "%s is not known: say it by %s; what status --watch infers of it is a hint", t.name, t.flag)
	case needed && unknown:
		b.block(t.rule, "%s is not known: watch them (status --watch), or say it by %s", t.name, t.flag)
	case t.known.Source == Claimed:
		b.claim(t.rule, "%s: %v", t.name, t.known.Time)
	case t.known.known():
		b.note(t.rule, "%s: %v", t.name, t.known)
	}
	if t.seen.Known() {
		b.noteAt(t.seen.At, t.rule, "seen of it so far: %v (%s)%s", t.seen.Time, t.seen.Basis, by(t.seen.Who))
	}
}

// leaseRule holds our leases against the old clients' own: a stalled loser may leave its stamp over our
// mark, and our lease has to end before anybody may take that over.
func (b *builder) leaseRule(fleet Fleet, to Phase) {
	longest, bound := b.dialect.LongestLease(fleet.dialectTerms())
	if !bound || !fleet.Lease.known() || to > Sealed {
		return
	}
	if fleet.Job.known() && fleet.Job.Time > longest {
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
