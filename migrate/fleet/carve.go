package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// carves reports that Init of this namespace carves it out of a shorter one. It
// has no record then, or one that does not count, since an earlier carving
// failed half way.
func (f *facts) carves() bool {
	return f.shorter != nil && f.record.err == nil && (!f.record.exists() || !f.listed())
}

// carve gives the keys of a namespace a record of their own, with the phase of
// the shorter namespace. It first writes the longer record, which counts for
// nobody yet, and then lists the namespace in the shorter one. Each write
// compares both records. Where the second write fails, the next call writes the
// longer record's phase anew.
func (d *desk) carve(ctx context.Context, f *facts) (*Report, error) {
	s := f.shorter
	taken, cannot := f.forget(d.opts.Forget)
	first, gate := f.carving()
	gate.Blocks = append(gate.Blocks, cannot...)
	gate.Open = len(gate.Blocks) == 0
	r := d.report(f)
	r.Gate = &gate
	if !d.opts.Go {
		r.wouldForget(taken)
		if gate.Open {
			r.note("with --go the keys of %q are carved out of namespace %q and begin with its phase, %v",
				f.namespace, s.namespace, s.record.Phase)
		}
		return r, nil
	}
	if err := d.forget(ctx, taken, r); err != nil || !gate.Open {
		return r, err
	}
	if err := d.beginRoster(ctx, f); err != nil {
		return nil, err
	}
	first.Roster, first.Run = f.nonce, f.run()
	made, err := change(ctx, d.mux, f.namespace, f.record, first, s)
	if err == nil && !s.record.Lists(f.namespace) {
		next := s.record.Record
		next.Epoch, next.Except = next.Epoch+1,
			slices.Sorted(slices.Values(append(slices.Clone(next.Except), f.namespace)))
		s.record, err = change(ctx, d.mux, s.namespace, s.record, next,
			&facts{namespace: f.namespace, record: made})
	}
	if errors.Is(err, errRaced) {
		return d.carveAgain(ctx, f, r.Notes)
	}
	if err != nil {
		return nil, forgotten(taken,
			fmt.Errorf(
				"%w; a record of %q that %q does not list has no effect; run the same verb again to go on", d.refused(err), f.namespace, s.namespace))
	}
	f.record = made
	done := d.report(f)
	done.Gate, done.Moved, done.Notes = &gate, true, r.Notes
	d.log(ctx, done, Entry{At: f.now, Epoch: made.Epoch, From: migrate.NoPhase.String(),
		To: made.Phase.String(), CarvedFrom: &s.namespace})
	done.note("%q is carved out of namespace %q: phase %v, epoch %d; it takes its first step when every member of %q has acknowledged epoch %d there",
		f.namespace, s.namespace, made.Phase, made.Epoch, s.namespace, made.From.Epoch)
	return done, nil
}

// carveAgain judges again after one of the records changed meanwhile, unless
// another call carved the namespace out.
func (d *desk) carveAgain(ctx context.Context, before *facts, notes []string) (*Report, error) {
	f, err := d.gather(ctx)
	if err != nil {
		return nil, err
	}
	if !f.carves() || !f.shorter.record.sameStep(before.shorter.record) {
		return d.raced(ctx, before.shorter.record.Phase, notes)
	}
	r, err := d.carve(ctx, f)
	if err == nil {
		r.Notes = append(notes, r.Notes...)
	}
	return r, err
}

// carving is the first record of a carved namespace, and the gate to it.
func (f *facts) carving() (migrate.Record, Gate) {
	s := f.shorter
	first := migrate.Record{
		Phase: s.record.Phase, Since: s.record.Since, Dialect: s.record.Dialect, Fleet: s.record.Fleet,
		Evidence: s.record.Evidence, Target: s.record.Target,
		From: migrate.Origin{Namespace: s.namespace, Epoch: s.record.Epoch + 1},
	}
	b := &builder{facts: f, gate: Gate{To: s.record.Phase}}
	if s.record.err != nil {
		b.block("record", "the record %s cannot be read: %v", record.Key(s.namespace), s.record.err)
		return first, b.gate
	}
	b.noteAt(s.record.Since, "record", "namespace %q: phase %v, epoch %d", s.namespace, s.record.Phase,
		s.record.Epoch)
	if s.record.Dialect != f.dialect.Name {
		b.block("dialect", "namespace %q is recorded for the dialect %s, and a namespace carved out of it keeps that: give --dialect %s or none", s.namespace, s.record.Dialect, s.record.Dialect)
	}
	if s.record.Pending != migrate.NoPhase {
		b.block("pending", "the last step of namespace %q is not over: finish that first", s.namespace)
	}
	above := &builder{facts: s}
	above.carvedOut()
	b.gate.Blocks = append(b.gate.Blocks, above.gate.Blocks...)
	b.follow(s, 0, "")
	b.named(s)
	if longer, ok := f.withLonger(); ok {
		b.block("namespace", "%q has a record already: end that one first (merge --namespace), then carve out %q, then %q out of it", longer, f.namespace, longer)
	}
	again := s.record.Lists(f.namespace)
	acts := b.carvedMembers(&first, again)
	if again { // the record was lost, and perhaps members with leases
		first.From.Epoch, first.Lost = s.record.Epoch, f.reading
		first.TTL = max(first.Fleet.Lease.Time, f.dialect.Lease)
		if acts != migrate.NoPhase {
			first.Phase, first.Target = acts, ""
		}
		if acts == migrate.Clean {
			var differ []Finding
			first.Target, differ = f.actsByTarget()
			b.gate.Blocks = append(b.gate.Blocks, differ...)
		}
		if n := f.survey.Tombstones; n > 0 && first.Phase < migrate.Sealed {
			b.block("tombstones", "there are %d tombstones, so the lost record was of a later phase than %v: wait for the heartbeats of the members of %q", n, first.Phase, f.namespace)
		}
	}
	first.Epoch++
	f.greatest(&first)
	first.TTL, first.Every = max(first.TTL, s.record.TTL), max(first.Every, s.record.Every)
	return first, b.gate
}

// named blocks for members of the shorter namespace that would refuse the
// carved keys, since they do not name the namespace.
func (b *builder) named(s *facts) {
	for _, m := range s.members() {
		if m.err != nil {
			continue
		}
		if _, ok := m.Also[b.namespace]; !ok {
			b.block("also", "member %s of namespace %q does not name %q, and would refuse its keys from then on: start it with MemberConfig.Also (run --also), or, if it is dead, name it by --forget there", m.who(), s.namespace, b.namespace)
		}
		if m.Epoch > s.record.Epoch {
			b.block("epoch", "member %s of namespace %q has seen epoch %d, and its record is of %d: an old record was restored", m.who(), s.namespace, m.Epoch, s.record.Epoch)
		}
	}
}

// carvedMembers looks at the members of the carved namespace before its record
// is written: programs that name it, and programs from an earlier record. It
// returns the lowest phase that one of them acts by. Where again is set the
// record was lost, and the members know its phase.
func (b *builder) carvedMembers(first *migrate.Record, again bool) migrate.Phase {
	acts := migrate.NoPhase
	first.Epoch = max(first.Epoch, b.record.Epoch)
	for _, m := range b.members() {
		if !b.readable(m) {
			continue
		}
		first.Epoch = max(first.Epoch, m.Epoch)
		switch {
		case m.Phase == migrate.NoPhase:
		case m.Phase != first.Phase && !again:
			b.block("phase", "member %s acts by %v in namespace %q, by an earlier record, and the new record begins with %v: stop the member first, or, if it is dead, name it by --forget", m.who(), m.Phase, b.namespace, first.Phase)
		case m.Phase == migrate.Clean && m.Target != first.Target && !again:
			b.block("target", "member %s takes its locks in namespace %q by the target %s, by an earlier record, and the new record begins with %s: stop the member first, or, if it is dead, name it by --forget", m.who(), b.namespace, targetWords(m.Target), targetWords(first.Target))
		case m.Phase != migrate.Clean && m.Leases[migrate.Clean] > 0:
			b.blockFor(m.TTL, "leases", "member %s acts by %v in namespace %q and has leases of clean from before: their jobs have to end first", m.who(), m.Phase, b.namespace)
		case acts != migrate.NoPhase && m.Phase != acts:
			b.block("phase", "members of namespace %q act by %v and by %v, and its record was lost: stop those of one of them first", b.namespace, acts, m.Phase)
		default:
			acts = m.Phase
		}
	}
	return acts
}

// withLonger finds a namespace with a record whose name continues this one's.
func (f *facts) withLonger() (string, bool) {
	for other := range f.survey.records {
		if other != f.namespace && scope.Within(f.namespace, other) {
			return other, true
		}
	}
	return "", false
}

// keepCarved lists in a namespace's first record what an earlier record had
// listed. It finds that in records that say that they were carved out of the
// namespace, and in what its members know. It returns a finding for another
// namespace that owns the same keys.
func (d *desk) keepCarved(ctx context.Context, f *facts, first *migrate.Record) ([]Finding, error) {
	except := map[string]bool{}
	for _, m := range f.members() {
		for _, namespace := range m.Except {
			except[namespace] = true
		}
	}
	for other := range f.survey.records {
		if other == f.namespace || !scope.Within(f.namespace, other) {
			continue
		}
		found, err := readStored(d.mux.Do(ctx, "GET", record.Key(other)))
		if err != nil {
			return nil, d.refused(err)
		}
		if from := found.From; from != (migrate.Origin{}) && from.Namespace == f.namespace {
			except[other] = true
			first.Epoch = max(first.Epoch, from.Epoch)
		}
	}
	for namespace := range except {
		first.Except = append(first.Except, namespace)
	}
	slices.Sort(first.Except)
	there := *f
	there.record.Except = first.Except
	if other, ok := there.overlapping(); ok {
		return []Finding{{Rule: "namespace", Detail: fmt.Sprintf(
			"the namespace %q has a record, and it would own the same keys as %q, since one begins with the other: choose a namespace that neither begins nor continues it", other, f.namespace)}}, nil
	}
	return nil, nil
}
