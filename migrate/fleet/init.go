package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// Init writes the record of a namespace, at once, and begins with Observe. It refuses where there is one.
//
// Where a shorter namespace has a record, Init carves this one out of that: it begins with that one's phase
// and dialect, and its keys go by its own record from then on. That moves a running fleet: without Options.Go
// it shows the gate. Every member of the shorter namespace must name this one.
//
// Where the record was lost and members are left, it is written as they act: what they do is the truth,
// and a record that moved them by more than a step would break it. After Clean it begins anew, which is a
// step like any other: without Options.Go it shows the gate. Old clients may start only when it says so,
// after every member has acknowledged and the leases of Clean have ended, and a call that finds this
// unfinished goes on with it, by Options.Go again.
func Init(ctx context.Context, pool *redis.Pool, o Options) (*Report, error) {
	return run(ctx, pool, o, func(d *desk, f *facts) (*Report, error) {
		switch {
		case f.record.exists() && f.record.err != nil:
			return d.closed(f, migrate.Observe, "", ""), nil
		case f.carves():
			return d.carve(ctx, f)
		case f.record.exists() && f.record.Pending == migrate.Clean:
			return d.finish(ctx, f)
		case f.record.exists() && f.record.Phase == migrate.Clean && f.record.Pending == migrate.NoPhase:
			return d.anew(ctx, f)
		case f.record.exists():
			return d.closed(f, migrate.Observe, "record", "there is a record already: phase %v, epoch %d; see status", f.record.Phase, f.record.Epoch), nil
		}
		return d.begin(ctx, f)
	})
}

// begin writes the first record.
func (d *desk) begin(ctx context.Context, f *facts) (*Report, error) {
	taken, cannot := f.forget(d.opts.Forget)
	first, blocks := f.firstRecord()
	blocks = append(blocks, cannot...)
	for _, m := range taken {
		first.Epoch = max(first.Epoch, m.Epoch) // should it live after all, it follows
	}
	overlap, err := d.keepCarved(ctx, f, &first)
	if err != nil {
		return nil, err
	}
	blocks = append(blocks, overlap...)
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
		// There was a record before: who is not back yet may be lost with it, and may hold leases that nobody
		// knows of, as long as old clients' rule allows.
		first.Lost, first.TTL = f.reading, max(first.Fleet.Lease.Time, f.dialect.Lease)
	}
	// The epoch goes on from what members have seen, or they would not follow.
	f.record.Epoch, f.record.Except = first.Epoch, first.Except
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
	return done, nil
}

// began notes how a record came to be.
func (r *Report) began(made stored, restored bool, tombstones int64) {
	if !restored {
		r.note("the record is written: phase %v, epoch %d, dialect %s", made.Phase, made.Epoch, made.Dialect)
		return
	}
	r.note("the record is written as the members act: phase %v, epoch %d", made.Phase, made.Epoch)
	if tombstones > 0 && made.Phase == migrate.Observe {
		r.note("%d tombstones stand, and observe takes them for held locks: advance to dual makes them free for ours", tombstones)
	}
}

// firstRecord is Observe, or what the members of a lost record do. Its Epoch is the one before.
func (f *facts) firstRecord() (migrate.Record, []Finding) {
	first := migrate.Record{Phase: migrate.Observe, Dialect: f.dialect.Name}
	var blocks []Finding
	low, high := migrate.NoPhase, migrate.NoPhase
	if p, err := migrate.ParsePhase(f.gone.Phase); err == nil {
		low, high = p, p
	}
	for _, m := range f.members() {
		switch {
		case m.err != nil:
			blocks = append(blocks, Finding{Rule: "members", Detail: fmt.Sprintf("member %s: its field of %s cannot be read: %v", m.ID, record.RosterKey(f.namespace), m.err)})
			continue
		case m.Phase == migrate.NoPhase:
			continue
		case m.Dialect != f.dialect.Name:
			blocks = append(blocks, Finding{Rule: "dialect", Detail: fmt.Sprintf("member %s writes the dialect %s: give --dialect %s", m.who(), m.Dialect, m.Dialect)})
		}
		first.Epoch = max(first.Epoch, m.Epoch)
		if low == migrate.NoPhase || m.Phase < low {
			low = m.Phase
		}
		high = max(high, m.Phase)
	}
	return f.firstBetween(first, low, high, blocks)
}

// firstBetween is the first record where members act by phases from low to high.
func (f *facts) firstBetween(first migrate.Record, low, high migrate.Phase, blocks []Finding) (migrate.Record, []Finding) {
	switch {
	case low == migrate.NoPhase && f.survey.Tombstones > 0:
		// A restart or a fail-over may have forgotten the members, who are back with their next heartbeat.
		return first, append(blocks, Finding{Rule: "tombstones", Detail: fmt.Sprintf(
			"%d tombstones stand, so the namespace had a record before, and nobody is registered who knows its phase: wait for the heartbeats of its members; if none of them is left, getsetlock ls shows the tombstones, and unlock deletes them", f.survey.Tombstones)})
	case low == migrate.NoPhase:
		return first, blocks
	case high-low > 1 && !(low == migrate.Observe && high == migrate.Clean):
		blocks = append(blocks, Finding{Rule: "phase", Detail: fmt.Sprintf("members act by %v (%s) and by %v (%s), which are more than a step apart: stop those of %v first, or name them by --forget if they are dead",
			low, f.whoActsBy(low), high, f.whoActsBy(high), low)})
	}
	// Between two neighbours the earlier one excludes more, but for Clean, from which no step leads back.
	first.Phase = low
	if high == migrate.Clean && low == migrate.Modern {
		first.Phase = migrate.Clean
	}
	first.Pending = unfinished(low, high, f.survey.Tombstones > 0)
	fleet, _ := f.fleet()
	first.Fleet = fleet
	return first, blocks
}

// unfinished is what is pending where members act by these phases.
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

// whoActsBy are the ids of members.
func (f *facts) whoActsBy(p migrate.Phase) string {
	var ids []string
	for _, m := range f.members() {
		if m.err == nil && m.Phase == p {
			ids = append(ids, m.ID)
		}
	}
	return strings.Join(ids, ", ")
}

// overlapSince looks again for namespaces that own the same keys: two may have begun at once. Then the
// record is taken back, if nobody has changed it.
func (d *desk) overlapSince(ctx context.Context, f *facts, made stored) (*Report, error) {
	again, err := d.gather(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: the record is written; whether another namespace began at the same time could not be seen: %w", err)
	}
	other, ok := again.overlapping()
	if !ok {
		return nil, nil
	}
	if _, err := d.mux.Eval(ctx, record.Drop, record.Key(f.namespace), made.bytes); err != nil {
		return nil, d.refused(fmt.Errorf("taking back the record, since the namespace %q began at the same time: %w", other, err))
	}
	again.record = stored{}
	r := d.report(again)
	r.Gate = &Gate{To: migrate.Observe, Blocks: []Finding{{Rule: "namespace", Detail: fmt.Sprintf("the namespace %q began at the same time and would own the same keys; nothing was written", other)}}}
	return r, nil
}

// anew begins again after Clean: a step that moves a running fleet, and so waits for a human's word.
func (d *desk) anew(ctx context.Context, f *facts) (*Report, error) {
	taken, cannot := f.forget(d.opts.Forget)
	b := &builder{facts: f, gate: Gate{To: migrate.Observe, Blocks: cannot}}
	b.sameDialect()
	b.lost()
	b.overlap()
	b.carvedOut()
	b.acknowledged(migrate.Clean)
	b.gate.Open = len(b.gate.Blocks) == 0
	r := d.report(f)
	r.Gate = &b.gate
	if !d.opts.Go {
		r.wouldForget(taken)
		if b.gate.Open {
			r.note("the fleet is clean: with --go it begins anew with observe")
		}
		return r, nil
	}
	if err := d.forget(ctx, taken, r); err != nil || !b.gate.Open {
		return r, err
	}
	made, err := d.write(ctx, f, migrate.Record{Phase: migrate.Observe, Pending: migrate.Clean, Dialect: f.dialect.Name})
	if errors.Is(err, errRaced) {
		return d.raced(ctx, migrate.Observe, r.Notes)
	}
	if err != nil {
		return nil, forgotten(taken, err)
	}
	d.logStep(ctx, r, f, made, &b.gate, false)
	f.record = made
	done := d.report(f)
	done.Moved, done.Notes = true, r.Notes
	done.note("the phase is observe again, epoch %d: no old client may start yet", made.Epoch)
	return d.finishAfter(ctx, f, done)
}
