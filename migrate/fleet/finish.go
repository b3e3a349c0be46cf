package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/getsetlock/getsetlock/migrate"
)

// finish goes on with what an earlier call left to be done.
func (d *desk) finish(ctx context.Context, f *facts) (*Report, error) {
	r := d.report(f)
	if !d.opts.Go {
		gate := d.remains(f)
		r.Gate = &gate
		taken, _ := f.forget(d.opts.Forget)
		r.wouldForget(taken)
		r.note("the step to %v was taken and is not over: --go goes on with it", f.record.Phase)
		return r, nil
	}
	taken, cannot := f.forget(d.opts.Forget)
	if len(cannot) > 0 {
		r.Gate = &Gate{To: f.record.Phase, Blocks: cannot}
		return r, nil
	}
	if err := d.forget(ctx, taken, r); err != nil {
		return nil, err
	}
	return d.finishAfter(ctx, f, r)
}

// finishAfter does what a step has left, looking again until Options.Wait is over.
func (d *desk) finishAfter(ctx context.Context, f *facts, r *Report) (*Report, error) {
	began := d.clock.Moment()
	for {
		over, err := d.finishOnce(ctx, f, r)
		if err != nil || over {
			return r, err
		}
		if d.clock.Since(began) >= d.opts.Wait {
			return r, nil
		}
		if len(r.Gate.Blocks) > 0 {
			d.progress(r.Gate.Blocks[0].Detail, began)
		}
		select {
		case <-d.clock.After(lookEvery):
		case <-ctx.Done():
			return nil, fmt.Errorf("migrate: the step to %v was taken, and what follows upon it is not over; the same verb goes on with it: %w", f.record.Phase, context.Cause(ctx))
		}
		was := f.record
		if f, err = d.gather(ctx); err != nil {
			return nil, err
		}
		if !f.record.sameStep(was) {
			return d.raced(ctx, was.Phase, r.Notes)
		}
	}
}

// finishOnce does what can be done now. The gate in the report says what is left.
func (d *desk) finishOnce(ctx context.Context, f *facts, r *Report) (bool, error) {
	gate := d.remains(f)
	if err := d.tidy(ctx, f, &gate, r); err != nil {
		return false, err
	}
	gate.Open = len(gate.Blocks) == 0
	notes, moved := r.Notes, r.Moved
	if !gate.Open {
		*r = *d.report(f)
		r.Gate, r.Notes, r.Moved = &gate, notes, moved
		return false, nil
	}
	next := f.record.Record
	now, err := d.write(ctx, f, migrate.Record{Phase: next.Phase, Dialect: next.Dialect, Fleet: next.Fleet})
	if errors.Is(err, errRaced) {
		if again, err := d.gather(ctx); err != nil || again.record.sameStep(f.record) {
			return false, err // a member raised what the record keeps of all; the next look goes on
		}
		raced, err := d.raced(ctx, next.Phase, notes)
		if err == nil {
			*r = *raced
		}
		return true, err
	}
	if err != nil {
		return false, err
	}
	d.logStep(ctx, r, f, now, nil, true)
	notes = r.Notes
	was := f.record.Pending
	f.record = now
	*r = *d.report(f)
	r.Gate, r.Notes, r.Moved = &gate, append(notes, over(was)), moved
	return true, nil
}

func over(was migrate.Phase) string {
	switch was {
	case migrate.Sealed:
		return "every member has acknowledged dual and no tombstone is left: old clients may work again"
	case migrate.Modern:
		return "every member has acknowledged clean and no lease of modern runs any more: the migration is over"
	}
	return "every member has acknowledged observe, no lease of clean runs any more and no tombstone is left: old clients may start"
}

// remains says who has not followed a step that was taken.
func (d *desk) remains(f *facts) Gate {
	b := &builder{facts: f, gate: Gate{To: f.record.Phase}}
	b.sameDialect()
	b.lost()
	b.cluster()
	b.carvedOut()
	b.acknowledged(f.record.Phase)
	switch f.record.Pending {
	case migrate.Sealed: // a release under sealed may put a tombstone back
		b.leases(migrate.Dual, migrate.Dual)
	case migrate.Modern: // its leases rest on the tombstones, which sweep may delete from then on
		b.leases(migrate.Clean, migrate.Clean)
	case migrate.Clean: // its leases keep no old client out
		b.leases(migrate.Observe, migrate.Observe)
	}
	b.gate.Open = len(b.gate.Blocks) == 0
	return b.gate
}

// tidy does to tombstones what the step has left to be done, as far as that is
// allowed yet, and never on the word of a record that a member knows a later one
// of: that may want them.
//
// On the way back from Sealed they go, each only while nobody of ours holds
// alongside it. At Clean they stay, for what their TTL is from then on: no member
// looks at them, and they shut out the old clients that somebody forgot. At a new
// beginning they go last, before anybody says that old clients may start.
func (d *desk) tidy(ctx context.Context, f *facts, gate *Gate, r *Report) error {
	pending := f.record.Pending
	if pending != migrate.Sealed && len(gate.Blocks) > 0 || f.outdated() || f.dialect.Name != f.record.Dialect {
		return nil
	}
	switch pending {
	case migrate.Modern:
		count, err := d.prolonged(ctx, f)
		if err == nil && count > 0 {
			r.note("%d tombstones stay for %v and keep old clients out of their keys; on every other key nothing does: modern alone keeps old clients out of all keys, and status --watch tells of one that writes; migrate sweep deletes the tombstones",
				count, tombstonesLast(f.idle().Time))
		}
		return err
	case migrate.Clean:
		return d.sweep(ctx, f, r, true)
	}
	s, err := newSurveyor(d.mux, f.namespace, f.dialect, f.now)
	if err != nil {
		return err
	}
	s.goBy(f.record)
	done, err := s.sweep(ctx, false)
	if err != nil {
		return d.refused(fmt.Errorf("deleting tombstones: %w; some may be left, and the same verb deletes them", err))
	}
	if done.Deleted > 0 {
		r.note("%d tombstones deleted", done.Deleted)
	}
	if done.Left > 0 {
		gate.Blocks = append(gate.Blocks, Finding{Rule: "tombstones", Detail: fmt.Sprintf("%d tombstones stand beside locks that are held now; they go when these are given back", done.Left)})
	}
	return nil
}
