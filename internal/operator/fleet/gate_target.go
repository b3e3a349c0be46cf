// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/migrate"
)

// oneTarget blocks until all members compose with the same target, or none
// does. In Clean a composed lock is taken in the target alone, and any other
// on M alone, so the two would not exclude each other.
func (b *builder) oneTarget() {
	target, same := b.target()
	switch {
	case !same:
		b.block("target", "members compose their locks with different targets, and would hold together in clean: %s; replace them until all name the same in MemberConfig.Target (those that cannot compose too), or none does",
			strings.Join(b.byTarget(), "; "))
	case target != "":
		b.sights(target)
	}
}

// sights blocks until every member has seen that its target is that of all
// others: it was refused there by what one member holds. The name alone proves
// nothing, since two stores may have one name.
func (b *builder) sights(target string) {
	saw := map[string][]string{}
	for _, m := range b.members() {
		if m.err == nil && m.Leaving.IsZero() {
			saw[m.Sight] = append(saw[m.Sight], m.who())
		}
	}
	if blind := saw[""]; len(blind) > 0 {
		b.block("target", "whether %q is one target for all is not known: %s has not been refused there by what another member holds; see what its scripts say", target, someOf(blind))
		return
	}
	var seen []string
	for id, names := range saw {
		seen = append(seen, fmt.Sprintf("what member %s holds, by %s", id, someOf(names)))
	}
	if slices.Sort(seen); len(seen) > 1 {
		b.block("target", "whether %q is one target for all is not known yet: members were refused there by different members: %s; it is asked again at each heartbeat", target, strings.Join(seen, "; "))
		return
	}
	b.note("target",
		"every member composes its locks with the target that it calls %q, and was refused there by %s",
		target, strings.Join(seen, ""))
}

// target is the target that all members name; empty where none names one. It
// returns false where they differ.
func (f *facts) target() (name string, same bool) {
	first := true
	for _, m := range f.members() {
		switch {
		case m.err != nil:
		case first:
			name, first = m.Target, false
		case m.Target != name:
			return "", false
		}
	}
	return name, true
}

// actsByTarget is the target of members that act by Clean, where the record was
// lost. Those that take no lock do not count.
func (f *facts) actsByTarget() (name string, blocks []Finding) {
	there := facts{}
	for _, m := range f.members() {
		if m.Phase != migrate.NoPhase {
			there.survey.members = append(there.survey.members, m)
		}
	}
	if len(there.survey.members) == 0 {
		there = *f // nobody knows a phase, and all wait for the record
	}
	name, same := there.target()
	if !same {
		blocks = append(blocks, Finding{Rule: "target", Detail: fmt.Sprintf(
			"members act by clean, and compose their locks with different targets: %s; stop those of all but one",
			strings.Join(there.byTarget(), "; "))})
	}
	return name, blocks
}

// byTarget are the members by the target that they name, in words.
func (f *facts) byTarget() []string {
	who := map[string][]string{}
	for _, m := range f.members() {
		if m.err == nil {
			who[m.Target] = append(who[m.Target], m.who())
		}
	}
	var out []string
	for target, names := range who {
		out = append(out, fmt.Sprintf("%s by %s", targetWords(target), someOf(names)))
	}
	slices.Sort(out)
	return out
}

func targetWords(target string) string {
	if target == "" {
		return "none"
	}
	return fmt.Sprintf("%q", target)
}

// apart blocks for a member that takes no lock, since the record names another
// target. It reports whether the member is one.
func (b *builder) apart(m seat) bool {
	if m.Phase != migrate.NoPhase || m.Target == b.record.Target ||
		b.record.Target == "" && b.record.Phase != migrate.Clean {
		return false
	}
	b.block("target", "member %s composes its locks with %s and the namespace with %s, so it takes none: stop it, or start it with the target of the namespace",
		m.who(), targetWords(m.Target), targetWords(b.record.Target))
	return true
}

// joined reports a step that was refused since a member with another target
// joined after the gate had read the roster.
func (d *desk) joined(ctx context.Context, before *facts, to migrate.Phase, done []string) (*Report, error) {
	f, err := d.gather(ctx)
	if err != nil {
		return nil, err
	}
	if !f.record.sameStep(before.record) {
		return d.raced(ctx, to, done)
	}
	b := &builder{facts: f, gate: judge(f, to)}
	if b.gate.Open {
		b.gate.Open = false
		b.block("raced",
			"a member with another target was there while this gate was judged: look again before you go on")
	}
	r := d.report(f)
	r.Gate, r.Notes = &b.gate, done
	return r, nil
}

// departed deletes the fields of members that have left for good, whose target
// does not count any more, so that the step's script does not find them.
func (d *desk) departed(ctx context.Context, f *facts) error {
	for _, m := range f.survey.left {
		_, err := d.mux.Eval(ctx, record.Forget, record.RosterKey(f.namespace), m.ID, m.bytes)
		if err != nil {
			return d.refused(fmt.Errorf("migrate: deleting member %s, which has left: %w", m.who(), err))
		}
	}
	return nil
}
