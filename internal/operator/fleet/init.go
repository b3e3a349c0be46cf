// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/migrate"
)

// Init writes the record of a namespace at once, with phase Observe. It refuses
// where the namespace has a record, but after Clean.
//
// Where another namespace has a record that owns some of the same keys, Init
// refuses: one of the two names begins with the other, and their members would
// not know of each other.
//
// Where the record was lost and members are left, Init writes it by what the
// members do. A record that moved them by more than one step would break the
// locks.
//
// After Clean, Init begins again, which is a step like any other: without
// Options.Go it shows the gate. Old clients may start only when Init says so:
// when every member has acknowledged and the leases of Clean have ended. A call
// with Options.Go that finds this unfinished goes on with it.
func Init(ctx context.Context, pool *redis.Pool, o Options) (*Report, error) {
	return run(ctx, pool, o, func(d *desk, f *facts) (*Report, error) {
		switch {
		case f.record.exists() && f.record.err != nil:
			return d.closed(f, migrate.Observe, "", ""), nil
		case f.record.exists() && f.record.Pending == migrate.Clean:
			return d.finish(ctx, f)
		case f.record.exists() && f.record.Phase == migrate.Clean && f.record.Pending == migrate.NoPhase:
			return d.anew(ctx, f)
		case f.record.exists():
			return d.closed(f, migrate.Observe, "record",
					"there is a record already: phase %v, epoch %d; see status", f.record.Phase,
					f.record.Epoch),
				nil
		}
		return d.begin(ctx, f)
	})
}

// begin writes the first record.
func (d *desk) begin(ctx context.Context, f *facts) (*Report, error) {
	taken, cannot := f.forget(d.opts.Forget)
	first, blocks := f.firstRecord(d.opts.To)
	blocks = append(blocks, cannot...)
	for _, m := range taken {
		first.Epoch = max(first.Epoch, m.Epoch) // if the member lives after all, it follows
	}
	blocks = append(blocks, f.overlap()...)
	r := d.report(f)
	r.Gate = &Gate{To: first.Phase, Open: len(blocks) == 0, Blocks: blocks}
	if len(blocks) > 0 {
		return r, nil
	}
	if err := d.forget(ctx, taken, r); err != nil {
		return nil, err
	}
	if err := d.beginRoster(ctx, f); err != nil {
		return nil, err
	}
	if first.Epoch > 0 {
		// There was a record before. A member that has not returned may hold a
		// lease that nobody knows of, for as long as the old clients' lease
		// allows.
		first.Lost, first.TTL = f.reading, max(first.Fleet.Lease.Time, f.dialect.Lease)
	}
	// Members follow only an epoch above the one they have seen.
	f.record.Epoch = first.Epoch
	made, err := d.write(ctx, f, first)
	if errors.Is(err, errRaced) {
		return d.raced(ctx, first.Phase, r.Notes)
	}
	if err != nil {
		return nil, forgotten(taken, err)
	}
	if other, err := d.overlapSince(ctx, f, made); err != nil || other != nil {
		return other, err
	}
	d.log(ctx, r, begun(made))
	restored := f.record.Epoch > 0
	f.record = made
	done := d.report(f)
	done.Gate, done.Moved, done.Notes = r.Gate, true, r.Notes
	done.began(made, restored, f.survey.Tombstones)
	if on := f.survey.RunOn; on.count > 0 {
		done.note("the namespace %q also owns %v: if that is another service's lock, delete %s before a program joins, and begin with %q instead",
			f.namespace, on, record.Key(f.namespace), f.namespace+":")
	}
	return done, nil
}

// began notes how a record was written.
func (r *Report) began(made stored, restored bool, tombstones int64) {
	if !restored {
		r.note("the record is written: phase %v, epoch %d, dialect %s", made.Phase, made.Epoch, made.Dialect)
		return
	}
	r.note("the record is written as the members act: phase %v, epoch %d", made.Phase, made.Epoch)
	if tombstones > 0 && made.Phase == migrate.Observe {
		r.note("%d tombstones stand, and observe takes them for held locks: after the step to dual getsetlock clients take them for free", tombstones)
	}
}

// firstRecord is a record in Observe, or in the phase by which the members of a
// lost record act. Its Epoch is the one before the first. A member that may
// have been forgotten says no phase, since the fleet may have moved by any
// number of steps meanwhile. Where all members are like that, the operator has
// to state the phase.
func (f *facts) firstRecord(stated migrate.Phase) (migrate.Record, []Finding) {
	first := migrate.Record{Phase: migrate.Observe, Dialect: f.dialect.Name}
	var blocks []Finding
	low, high := migrate.NoPhase, migrate.NoPhase
	if p, err := migrate.ParsePhase(f.gone.Phase); err == nil {
		low, high = p, p
	}
	var unsure []string
	for _, m := range f.members() {
		if m.err == nil {
			first.Epoch = max(first.Epoch, m.Epoch)
		}
		switch b := f.cannotSay(m); {
		case b != nil:
			blocks = append(blocks, *b)
			continue
		case m.Phase == migrate.NoPhase && m.Epoch > 0:
			unsure = append(unsure, m.who())
			continue
		case m.Phase == migrate.NoPhase:
			continue
		}
		if m.Phase == migrate.Observe && m.Leases[migrate.Clean] > 0 {
			high = migrate.Clean // the new beginning that it follows is not over
		}
		low, high = lower(low, m.Phase), max(high, m.Phase)
	}
	needed := low == migrate.NoPhase && len(unsure) > 0
	switch {
	case needed && stated == migrate.NoPhase:
		return first, append(blocks, Finding{Rule: "phase", Detail: fmt.Sprintf("the only members that are back were silent for so long that they may have been forgotten, and the fleet may have moved since: %s; wait for the others, or, if there are none, state by --to the phase by which the fleet acted last",
			someOf(unsure))})
	case needed:
		low, high = stated, stated
	default:
		blocks = append(blocks, needless(stated, low, high)...)
	}
	return f.firstBetween(first, low, high, blocks)
}

func lower(a, b migrate.Phase) migrate.Phase {
	if a == migrate.NoPhase {
		return b
	}
	return min(a, b)
}

// cannotSay is why the phase of a member says nothing of the namespace's; nil
// where it does, or where the member has no phase.
func (f *facts) cannotSay(m seat) *Finding {
	switch {
	case m.err != nil:
		return &Finding{Rule: "members", Detail: fmt.Sprintf("member %s: its field of %s cannot be read: %v",
			m.ID, record.RosterKey(f.namespace), m.err)}
	case m.Phase != migrate.NoPhase && m.Dialect != f.dialect.Name:
		return &Finding{Rule: "dialect", Detail: fmt.Sprintf(
			"member %s writes the dialect %s: give --dialect %s", m.who(), m.Dialect, m.Dialect)}
	}
	return nil
}

// needless blocks for a stated phase where members say another one, or where
// there are no members.
func needless(stated, low, high migrate.Phase) []Finding {
	if stated == migrate.NoPhase || low != migrate.NoPhase && stated >= low && stated <= high {
		return nil
	}
	return []Finding{{Rule: "phase", Detail: fmt.Sprintf(
		"--to %v is for a lost record that no member can say, and contradicts what members do", stated)}}
}

// firstBetween is the first record where members act by phases from low to
// high.
func (f *facts) firstBetween(first migrate.Record, low, high migrate.Phase, blocks []Finding) (migrate.Record,
	[]Finding) {
	switch {
	case low == migrate.NoPhase && f.survey.Tombstones > 0:
		// A restart or a fail-over may have lost the members, which return with
		// their next heartbeats.
		return first, append(blocks, Finding{Rule: "tombstones", Detail: fmt.Sprintf(
			"%d tombstones stand, so the namespace had a record before, and no registered member knows its phase: wait for the heartbeats of its members; if none of them is left, getsetlock ls shows the tombstones, and unlock deletes them", f.survey.Tombstones)})
	case low == migrate.NoPhase:
		return first, blocks
	case high-low > 1 && !(low == migrate.Observe && high == migrate.Clean):
		blocks = append(blocks, Finding{Rule: "phase", Detail: fmt.Sprintf("members act by %v (%s) and by %v (%s), which are more than a step apart: stop those of %v first, or name them by --forget if they are dead",
			low, f.whoActsBy(low), high, f.whoActsBy(high), low)})
	}
	// Of two neighbours the earlier phase excludes more, but for Clean, which
	// no step leads back from.
	first.Phase = low
	if high == migrate.Clean && low == migrate.Modern {
		first.Phase = migrate.Clean
	}
	first.Pending = unfinished(low, high, f.survey.Tombstones > 0)
	if high == migrate.Clean {
		var differ []Finding
		first.Target, differ = f.actsByTarget()
		blocks = append(blocks, differ...)
	}
	fleet := f.fleet()
	first.Fleet = fleet
	return first, blocks
}

// unfinished is the pending phase where members act by phases from low to high.
func unfinished(low, high migrate.Phase, tombstones bool) migrate.Phase {
	switch {
	case low == migrate.Observe && high == migrate.Clean:
		return migrate.Clean
	case tombstones && low == migrate.Dual:
		return migrate.Sealed
	case high == migrate.Clean && low == migrate.Modern:
		return migrate.Modern
	}
	return migrate.NoPhase
}

// whoActsBy are the ids of the members that act by a phase.
func (f *facts) whoActsBy(p migrate.Phase) string {
	var ids []string
	for _, m := range f.members() {
		if m.err == nil && m.Phase == p {
			ids = append(ids, m.ID)
		}
	}
	return someOf(ids)
}

// shares reports that another namespace owns some of the same keys: one of the
// two names begins with the other.
func (f *facts) shares(other string) bool {
	return other != f.namespace && (scope.Within(other, f.namespace) || scope.Within(f.namespace, other))
}

// overlap is a finding that closes a gate where another namespace that owns
// some of the same keys has a record, or members that act without one. The
// members of both would not know of each other.
func (f *facts) overlap() []Finding {
	for _, other := range slices.Sorted(maps.Keys(f.survey.records)) {
		if f.shares(other) {
			return f.overlaps(other, fmt.Sprintf("the namespace %q has a record", other), "")
		}
	}
	others := slices.Sorted(maps.Keys(f.acting))
	if len(others) == 0 {
		return nil
	}
	return f.overlaps(others[0],
		fmt.Sprintf("the namespace %q has no record, and members of it act: %s", others[0], f.acting[others[0]]),
		"; stop these members first")
}

// overlaps says what to do about another namespace: the one with the shorter
// name owns all keys of both.
func (f *facts) overlaps(other, what, first string) []Finding {
	wide, narrow := f.namespace, other
	if len(other) < len(wide) {
		wide, narrow = other, wide
	}
	if f.survey.records[narrow] {
		first += fmt.Sprintf("; end %q first: bring it to observe, stop its programs, then delete %s", narrow,
			record.Key(narrow))
	}
	return []Finding{{Rule: "namespace", Detail: fmt.Sprintf(
		"%s, and every key of %q is a key of %q too: move %q as a whole, by programs that name it%s",
		what, narrow, wide, wide, first)}}
}

// overlapSince looks again for namespaces that own the same keys, since two may
// have begun at once. Then it takes the record back, unless another operator
// has changed it.
func (d *desk) overlapSince(ctx context.Context, f *facts, made stored) (*Report, error) {
	again, err := d.gather(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: the record is written; whether another namespace began at the same time could not be seen: %w", err)
	}
	if len(again.overlap()) == 0 {
		return nil, nil
	}
	if again.record, err = d.takeBack(ctx, made); err != nil {
		return nil, d.refused(fmt.Errorf(
			"taking back the record, since another namespace began at the same time: %w", err))
	}
	if !again.record.exists() {
		delete(again.survey.records, f.namespace)
	}
	r := d.report(again)
	r.Gate = &Gate{To: migrate.Observe, Blocks: again.overlap()}
	if !again.record.exists() {
		r.note("the other one came up at the same time, so the record of %q was taken back", f.namespace)
	}
	return r, nil
}

// takeBack deletes a record that was just written, also where a member has
// raised its times meanwhile. It returns the record that is there afterwards.
func (d *desk) takeBack(ctx context.Context, made stored) (stored, error) {
	for {
		_, err := d.mux.Eval(ctx, record.Drop, record.Key(d.opts.Namespace), made.bytes)
		if err != nil {
			return made, err
		}
		now, err := readStored(d.mux.Do(ctx, "GET", record.Key(d.opts.Namespace)))
		if err != nil || !now.sameStep(made) {
			return now, err
		}
		made = now
	}
}

// anew begins again after Clean. That moves a running fleet, so it needs
// Options.Go.
func (d *desk) anew(ctx context.Context, f *facts) (*Report, error) {
	taken, cannot := f.forget(d.opts.Forget)
	b := &builder{facts: f, gate: Gate{To: migrate.Observe, Blocks: cannot}}
	b.sameDialect()
	b.lost()
	b.gate.Blocks = append(b.gate.Blocks, f.overlap()...)
	b.acknowledged(migrate.Clean)
	r, gate := d.report(f), b.judged()
	r.Gate = &gate
	if !d.opts.Go {
		r.wouldForget(taken)
		if gate.Open {
			r.note("the fleet is clean: with --go it begins anew with observe")
		}
		return r, nil
	}
	if err := d.forget(ctx, taken, r); err != nil || !gate.Open {
		return r, err
	}
	made, err := d.write(ctx, f, migrate.Record{
		Phase: migrate.Observe, Pending: migrate.Clean, Dialect: f.dialect.Name})
	if errors.Is(err, errRaced) {
		return d.raced(ctx, migrate.Observe, r.Notes)
	}
	if err != nil {
		return nil, forgotten(taken, err)
	}
	d.logStep(ctx, r, f, made, &gate, false)
	f.record = made
	done := d.report(f)
	done.Moved, done.Notes = true, r.Notes
	done.note("the phase is observe again, epoch %d: no old client may start yet", made.Epoch)
	return d.finishAfter(ctx, f, done)
}
