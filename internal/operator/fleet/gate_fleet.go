// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/migrate"
)

// quantity is one of the times of the old clients: what was claimed of it, and
// what was seen that contradicts a claim.
type quantity struct {
	rule, flag string
	what       string // for people
	into       *migrate.Known
	claimed    time.Duration // as in Claims
	recorded   migrate.Known
	seen       Fact
	least      bool   // a smaller time contradicts the claim, not a greater one
	means      string // what seen says, with a verb for its time
	takeover   bool   // of use only in dialects with takeovers
	optional   bool   // no gate asks for it
}

// quantities are the rows of the table that fleet evaluates.
func (f *facts) quantities(out *migrate.Fleet) []quantity {
	r, s, c := f.record.Record, f.sighting, f.claims
	behind, ahead, apart := s.clocks(*out)
	return []quantity{
		{rule: "lease", flag: "--lease", what: "the old clients' smallest lease",
			into: &out.Lease, claimed: c.Lease, recorded: r.Fleet.Lease,
			seen: s.Lease, least: true, means: "a lease of %v was seen"},
		{rule: "greatest", flag: "--greatest", what: "the old clients' greatest lease",
			into: &out.Greatest, claimed: c.Greatest, recorded: r.Fleet.Greatest,
			seen: s.Greatest, means: "a lease of %v was seen"},
		{rule: "spread", flag: "--spread", takeover: true,
			what: "the clock spread of the old clients (how far their clocks are apart at most)",
			into: &out.Spread, claimed: c.Spread, recorded: r.Fleet.Spread,
			seen: apart, means: "clocks of old clients were at least %v apart"},
		{rule: "gap", flag: "--gap", takeover: true,
			what: "the gap (the longest time from an old client's clock reading to its GETSET, pauses included)",
			into: &out.Gap, claimed: c.Gap, recorded: r.Fleet.Gap,
			seen: s.Gap, means: "an attempt took %v"},
		{rule: "job", flag: "--job", what: "the old clients' longest job",
			into: &out.Job, claimed: c.Job, recorded: r.Fleet.Job,
			seen: s.Job, means: "a lock was held for %v"},
		{rule: "idle", flag: "--idle", what: "the longest pause between two attempts of one old client",
			into: &out.Idle, claimed: c.Idle, recorded: r.Fleet.Idle, optional: true,
			seen: s.Pause, means: "%v passed between two attempts on a key"},
		{rule: "behind", flag: "--behind", takeover: true, optional: true,
			what: "how far the slowest old client's clock is behind the server's at most",
			into: &out.Behind, claimed: c.Behind, recorded: r.Fleet.Behind,
			seen:  greater(behind, lowerBound(r.SawBehind)),
			means: "the clock of an old client was at least %v behind the server's"},
		{rule: "ahead", flag: "--ahead", takeover: true, optional: true,
			what: "how far the fastest old client's clock is ahead of the server's at most",
			into: &out.Ahead, claimed: c.Ahead, recorded: r.Fleet.Ahead,
			seen:  greater(ahead, lowerBound(r.SawAhead)),
			means: "the clock of an old client was at least %v ahead of the server's"},
	}
}

// lowerBound is the fact that a record has of a clock.
func lowerBound(d time.Duration) Fact {
	if d <= 0 {
		return Fact{}
	}
	return Fact{Time: d, Basis: string(census.Measured)}
}

// fleet returns what is claimed of the old clients: by this call, else by the
// record. What was seen is no claim.
//
// The smallest lease has the dialect's own as a default. It limits the leases
// of getsetlock clients, and permits nothing. The greatest lease defaults to
// the smallest where that is claimed, and is unknown otherwise.
func (f *facts) fleet() migrate.Fleet {
	var out migrate.Fleet
	all := f.quantities(&out)
	for _, q := range all {
		*q.into = q.recorded
		if q.claimed != 0 {
			*q.into = migrate.Known{Time: dialect.Bound(q.claimed), Source: migrate.Claimed}
		}
	}
	if out.Lease.Source == migrate.Unknown && f.dialect.Lease > 0 {
		out.Lease = migrate.Known{Time: f.dialect.Lease, Source: migrate.Default}
	}
	if unsaid(out.Greatest) || out.Greatest.Time < out.Lease.Time {
		if out.Greatest = out.Lease; unsaid(out.Lease) {
			out.Greatest = migrate.Known{}
		}
	}
	return out
}

// against says what was seen that contradicts the claim; empty where nothing
// does.
func (q quantity) against() string {
	k := *q.into
	beyond := q.seen.Time > k.Time
	if q.least {
		beyond = q.seen.Time < k.Time
	}
	if k.Source == migrate.Unknown || !proves(q.seen) || !beyond {
		return ""
	}
	return q.saw()
}

// anew is what else mends a contradiction by clocks: they are compared by what
// is claimed of leases and attempts, and what was seen is kept.
func (q quantity) anew() string {
	if q.rule != "spread" && q.rule != "behind" && q.rule != "ahead" {
		return ""
	}
	return ", or, where a claimed lease or gap was wrong, correct that and forget what was seen by it: status --forget-evidence"
}

// saw says what was seen, and what else would explain it.
func (q quantity) saw() string {
	text := fmt.Sprintf(q.means, q.seen.Time) + by(q.seen.Who)
	if q.seen.Note != "" {
		text += " (" + q.seen.Note + ")"
	}
	return text
}

// Claim is a time of the old clients that an operator claimed.
type Claim struct {
	Rule string        `json:"rule"` // one word that scripts may compare
	Flag string        // the flag that claims it
	Time time.Duration `json:"time_ms"` // what was claimed
	// null where nothing that was seen contradicts it
	Against string `json:"contradicted_by" answer:"null"`
}

// claimed lists the claims, each with what contradicts it.
func (f *facts) claimed() []Claim {
	out := f.fleet()
	var list []Claim
	for _, q := range f.quantities(&out) {
		if q.into.Source == migrate.Claimed {
			list = append(list, Claim{q.rule, q.flag, q.into.Time, q.against()})
		}
	}
	return list
}

// proves reports that a fact was measured, and not guessed.
func proves(f Fact) bool { return f.Basis == string(census.Measured) }

// unsaid reports that nobody claimed a time.
func unsaid(k migrate.Known) bool { return k.Source != migrate.Claimed }

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

// terms asks for the claims that the step needs, and blocks for those that what
// was seen contradicts. It checks the leases and bounds of members.
func (b *builder) terms(to migrate.Phase) {
	fleet := b.fleet()
	all := b.quantities(&fleet)
	asks := b.record.Phase == migrate.Observe && to == migrate.Dual
	for _, q := range all {
		if !q.takeover || b.dialect.HasTakeover() {
			b.term(q, asks && !q.optional)
		}
		// A claim that what was seen contradicts closes each gate, but idle
		// only those that go by it: an old client that was shut out may try
		// once more.
		if why := q.against(); why != "" && (q.rule != "idle" || asksIdle(to)) {
			b.blockAt(q.seen.At, "claim", "%s, %v, is contradicted: %s; set the true value by %s%s", q.what,
				*q.into, why, q.flag, q.anew())
		}
	}
	b.actsByLess(all)
	b.askLeaseAgain(fleet.Lease)
	b.leaseRule(fleet, to)
	if n := b.sighting.DoubleGrants; n > 0 && to == migrate.Dual {
		b.note("double-grants", "two old clients held one lock at once, %d times: in this dialect they do not exclude each other, and a getsetlock client may enter alongside such a pair", n)
	}
}

// term notes what is known of one time. Where the time is needed and unknown,
// it blocks.
func (b *builder) term(q quantity, needed bool) {
	guessed := q.seen.Known() && !proves(q.seen)
	switch k := *q.into; {
	case needed && guessed && b.missing(q):
		b.block(q.rule, "%s is unknown: the writes look like %v (%s), which is a guess; look it up where the old clients are configured, and set %s",
			q.what, q.seen.Time, q.seen.Basis, q.flag)
	case needed && b.missing(q):
		b.block(q.rule, "%s is unknown: set %s", q.what, q.flag)
	case k.Source == migrate.Claimed:
		b.claim(q.rule, "%s: %v", q.what, k.Time)
	case k.Source == migrate.Default:
		b.note(q.rule, "%s: %v", q.what, k)
	case q.rule == "behind" && len(b.rights) == 0: // by rights it may close one
		b.note(q.rule, "%s is unknown, which closes no gate: a lock that a crashed old client left is taken over only after its bytes were seen for a greatest lease, and never where that is unknown", q.what)
	case q.rule == "ahead":
		b.note(q.rule, "%s is unknown, which closes no gate: a stamp of a getsetlock client lies a day beyond the end of its lease", q.what)
	}
	if q.seen.Known() {
		b.noteAt(q.seen.At, q.rule, "seen so far: %s (%s)%s", fmt.Sprintf(q.means, q.seen.Time), q.seen.Basis,
			by(q.seen.Who))
	}
}

// missing reports that a time still has to be claimed. Once the smallest lease
// is, the greatest one is the same unless something says otherwise, such as a
// guess that is greater.
func (b *builder) missing(q quantity) bool {
	if q.rule != "greatest" {
		return unsaid(*q.into)
	}
	return !unsaid(*q.into) && q.seen.Known() && !proves(q.seen) && q.seen.Time > q.into.Time &&
		q.claimed == 0 && unsaid(q.recorded)
}

// actsByLess blocks for each member whose Behind or Ahead is smaller than what
// was seen: it may take over a lock that an old client still holds.
func (b *builder) actsByLess(all []quantity) {
	for _, m := range b.members() {
		for _, q := range all {
			acts := map[string]time.Duration{"behind": m.Behind, "ahead": m.Ahead}[q.rule]
			acted, known := dialect.Claimed(acts)
			if m.err != nil || !m.Leaving.IsZero() || !known || !proves(q.seen) || q.seen.Time <= acted {
				continue
			}
			b.blockAt(q.seen.At, q.rule,
				"member %s acts by %s %v, and %s: it takes its bound for unknown with the heartbeat after status --watch has written that into the record; if no watcher runs, start the member again with a greater %s or with none",
				m.who(), q.flag, acted, q.saw(), q.flag)
		}
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
	b.blockAt(looks.At, "lease",
		"the old clients' smallest lease is said to be %v, and what was written%s looks like %v: that client's lease is %[3]v, or its clock is behind the server's by the difference; look the lease up where it is configured, then set the smaller one by --lease, or confirm %[1]v by --lease-checked",
		known.Time, by(looks.Who), looks.Time)
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
		if m.err == nil && m.First > longest {
			b.block("lease-rule", "member %s takes leases of %v before modern; with the old clients' lease of %v, spread of %v and gap of %v a lease must not exceed %v: configure the member for shorter leases",
				m.who(), m.First, fleet.Lease.Time, fleet.Spread.Time, fleet.Gap.Time, longest)
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
