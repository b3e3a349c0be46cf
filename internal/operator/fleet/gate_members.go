// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/migrate"
)

// registry is what every gate asks of the members. They must be known and
// alive, and act by a phase at most this step away. No lease of any other phase
// may run.
func (b *builder) registry(from, to migrate.Phase) {
	b.somebody()
	for _, m := range b.members() {
		if !b.readable(m) {
			continue
		}
		// The last words of a member that is gone count too: its leases may
		// still run.
		b.noteAt(m.Seen, "member", "%s: phase %v, %s, scripts %s", m.who(), m.Phase, leasesWords(m.Leases),
			cmp.Or(m.Probe, "not run"))
		if b.alive(m) {
			b.follows(m, from, to)
		}
	}
	b.longGone()
	b.leases(from, to)
}

// somebody blocks where nobody is registered: an empty roster and a lost one
// look the same.
func (b *builder) somebody() {
	if len(b.members()) == 0 && b.gone.bytes == "" {
		b.block("members", "no program is registered, so none can acknowledge a step: start a program that joins the namespace %q", b.namespace)
	}
}

// longGone blocks for members that vanished long ago, as for one vanished
// member.
func (b *builder) longGone() {
	switch g := b.gone; {
	case g.bytes == "":
	case g.err != nil:
		b.block("members", "the field %s of %s cannot be read: %v", record.GoneField,
			record.RosterKey(b.namespace), g.err)
	default:
		b.block("vanished", "%d members vanished more than a week ago and never returned (the last: %s): if they are dead, name them by --forget %s",
			g.Count, strings.Join(g.Names, ", "), allDead)
	}
}

// readable blocks for a member whose field cannot be read.
func (b *builder) readable(m seat) bool {
	if m.err != nil {
		b.block("members", "member %s: its field of %s cannot be read: %v", m.ID,
			record.RosterKey(b.namespace), m.err)
	}
	return m.err == nil
}

// alive blocks for a member that has vanished, or whose heartbeat lies ahead of
// the server's clock. A member that is leaving is neither: it takes no lock any
// more, so only the phases of the leases that it left to their TTL count. One
// that does not say which these are blocks.
func (b *builder) alive(m seat) bool {
	switch {
	case !m.Leaving.IsZero():
		until := dated(m.Leaving)
		switch {
		case m.Epoch > b.record.Epoch:
			b.outdated(m)
		case len(m.Leases) == 0:
			b.blockFor(m.left(b.now), "leaving", "member %s is leaving until %v: it left a lock to its TTL",
				m.who(), until)
		default:
			b.noteAt(m.Seen, "leaving", "member %s takes no lock any more, and what it holds ends by %v: %s",
				m.who(), until, leasesWords(m.Leases))
		}
	case m.ahead(b.now) && !m.vanished(b.now):
		b.block("clock", "member %s: its heartbeat lies %v ahead of the server's clock, which was set back: wait for the next heartbeat, then look again; a call with --go --wait %v or more finds out whether one comes", m.who(), m.Seen.Sub(b.now).Round(time.Millisecond), record.BeatsMissed*m.Every+2*lookEvery)
	case m.vanished(b.now):
		b.block("vanished", "member %s vanished: no heartbeat for %v; let it return or say goodbye, or, if it is dead, name it by --forget %s", m.who(), max(b.now.Sub(m.Seen), m.still).Round(time.Millisecond), m.ID)
	default:
		return true
	}
	return false
}

// follows blocks for a member that acts by a phase more than this step away, or
// by another dialect.
func (b *builder) follows(m seat, from, to migrate.Phase) {
	switch {
	case m.Epoch > b.record.Epoch:
		b.outdated(m)
	case b.apart(m):
	case m.Phase == migrate.NoPhase:
		b.block("phase", "member %s has no phase and takes no lock: it could not read the record, or writes another dialect (%s)", m.who(), m.Dialect)
	case m.Dialect != b.dialect.Name:
		b.block("dialect", "member %s writes the dialect %s, and the namespace is recorded for %s: give its keys a namespace of their own", m.who(), m.Dialect, b.dialect.Name)
	case m.Phase != from && m.Phase != to:
		b.block("phase", "member %s still acts by %v, and the record says %v: the member changes with its next heartbeat (every %v)", m.who(), m.Phase, from, m.Every)
	case m.Phase != from && m.Epoch < b.record.Epoch:
		b.block("phase",
			"member %s still acts by %v of epoch %d: it changes to %v with its next heartbeat (every %v)",
			m.who(), m.Phase, m.Epoch, from, m.Every)
	}
}

// outdated blocks where a member has seen a later record. No step may be taken
// from the older record, and none that it calls unfinished may be finished.
func (b *builder) outdated(m seat) {
	b.block("epoch", "member %s has seen epoch %d, and the record is of %d: an old record was restored; if its members act by %v, write it anew (DEL %s, then init, which writes the record by what the members do)",
		m.who(), m.Epoch, b.record.Epoch, m.Phase, record.Key(b.namespace))
}

// outdated reports that a member has seen a later record.
func (f *facts) outdated() bool {
	return slices.ContainsFunc(f.members(), func(m seat) bool { return m.Epoch > f.record.Epoch })
}

// leasesWords are the leases of a member by phase, in words.
func leasesWords(leases map[migrate.Phase]int) string {
	var parts []string
	for _, p := range migrate.Phases() {
		if n := leases[p]; n > 0 {
			parts = append(parts, fmt.Sprintf("%v %d", p, n))
		}
	}
	if len(parts) == 0 {
		return "no leases"
	}
	return "leases " + strings.Join(parts, ", ")
}

// leases blocks while leases run that were taken in any phase but from and to.
func (b *builder) leases(from, to migrate.Phase) {
	count, who, longest := map[migrate.Phase]int{}, map[migrate.Phase][]string{},
		map[migrate.Phase]time.Duration{}
	for _, m := range b.members() {
		for p, n := range m.Leases {
			if p != from && p != to {
				count[p] += n
				who[p] = append(who[p], m.ID)
				longest[p] = max(longest[p], m.TTL)
			}
		}
	}
	for _, p := range migrate.Phases() {
		if n := count[p]; n > 0 {
			sort.Strings(who[p])
			b.blockFor(longest[p], "leases",
				"leases of phase %v still run (%d, of %s): their jobs have to end first", p, n,
				someOf(who[p]))
		}
	}
}

// probes blocks until every member has run the scripts that dual needs.
func (b *builder) probes() {
	for _, m := range b.members() {
		if m.err != nil || !m.Leaving.IsZero() {
			continue
		}
		switch m.Probe {
		case record.ProbeOK:
		case "":
			b.block("probe",
				"member %s has not run its scripts on %s: it has joined, and has made no bridge yet", m.who(),
				record.ProbeKey(b.namespace, m.ID))
		default:
			b.block("probe", "member %s could not run its scripts on %s: %s", m.who(),
				record.ProbeKey(b.namespace, m.ID), m.Probe)
		}
	}
}

// acknowledged blocks while a member has not followed a step that was taken.
func (b *builder) acknowledged(phase migrate.Phase) {
	b.somebody()
	for _, m := range b.members() {
		if !b.readable(m) || !b.alive(m) {
			continue
		}
		switch {
		case m.Epoch > b.record.Epoch:
			b.outdated(m)
		case b.apart(m):
		case m.Phase != phase || m.Epoch < b.record.Epoch:
			b.block("phase", "member %s has not acknowledged %v yet: its next heartbeat does (every %v)",
				m.who(), phase, m.Every)
		}
	}
	b.longGone()
}

// allDead in Options.Forget stands for all members that have vanished and whose
// leases are over.
const allDead = "dead"

// forget takes the members out of the facts that the operator named, and
// returns them. Blocks say why a named member cannot be forgotten.
func (f *facts) forget(ids []string) (taken []seat, blocks []Finding) {
	var left []seat
	for _, m := range f.survey.members {
		named, dead := slices.Contains(ids, m.ID), m.err == nil && m.vanished(f.now) && m.outlived(f.now)
		switch {
		case named && m.foreign():
			blocks = append(blocks, Finding{Rule: "forget", Detail: fmt.Sprintf(
				"member %s: another version of getsetlock wrote its field, and this one cannot read whether the member lives or a lease of it runs: if it is dead, forget it by that version", m.ID)})
		case dead && (named || slices.Contains(ids, allDead)), named && m.err != nil:
			taken = append(taken, m)
			continue
		case named && !m.vanished(f.now):
			blocks = append(blocks, Finding{
				Rule: "forget", Detail: fmt.Sprintf(
					"member %s is alive: stop it, and it leaves the roster itself", m.who())})
		case named:
			blocks = append(blocks, Finding{
				Rule: "forget", Detail: fmt.Sprintf("member %s: leases of it may run for another %v", m.who(),
					m.left(f.now).Round(time.Millisecond))})
		}
		left = append(left, m)
	}
	f.survey.members = left
	// The order in which they were named, so that an error shows which are
	// left.
	slices.SortStableFunc(taken, func(a, b seat) int {
		return slices.Index(ids, a.ID) - slices.Index(ids, b.ID)
	})
	return append(taken, f.forgetGone(ids)...), blocks
}

// forgetGone is forget for the members that vanished long ago.
func (f *facts) forgetGone(ids []string) []seat {
	if f.gone.bytes == "" || f.gone.err != nil || !slices.Contains(ids, allDead) {
		return nil
	}
	folded := seat{MemberState: migrate.MemberState{
		ID: record.GoneField, Name: fmt.Sprintf("%d members, the last: %s", f.gone.Count,
			strings.Join(f.gone.Names, ", "))}, bytes: f.gone.bytes}
	f.gone = gone{}
	return []seat{folded}
}
