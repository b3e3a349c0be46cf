// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/getsetlock/getsetlock/migrate"
)

// finish goes on with what an earlier call left unfinished.
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

// finishAfter does what a step left to be done. It looks again until that is
// over or Options.Wait has passed.
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
			return nil, fmt.Errorf("migrate: the step to %v was taken, and what follows it is not over; run the same verb again to go on: %w", f.record.Phase, context.Cause(ctx))
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

// finishOnce does what can be done now. The gate in the report says what is
// left. It returns true where the verb ends: nothing is left, or another call
// took a step.
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
			return false, err // a member raised the greatest TTL or period; the next look goes on
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
	was, target := f.record.Pending, f.record.Target
	f.record = now
	*r = *d.report(f)
	r.Gate, r.Notes, r.Moved = &gate, append(notes, over(was)), moved
	if was == migrate.Clean && target != "" {
		r.note("no gate sees programs that take their locks by the target %q alone (run --target): stop them before an old client starts, or a member without that target",
			target)
	}
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

// remains is the gate of what a step left: members that have not followed, and
// leases of other phases.
func (d *desk) remains(f *facts) Gate {
	b := &builder{facts: f, gate: Gate{To: f.record.Phase}}
	b.sameDialect()
	b.lost()
	b.cluster()
	b.acknowledged(f.record.Phase)
	switch f.record.Pending {
	case migrate.Sealed: // releasing a lease of sealed may write a tombstone again
		b.leases(migrate.Dual, migrate.Dual)
	case migrate.Modern: // leases of modern depend on tombstones, which sweep may delete afterwards
		b.leases(migrate.Clean, migrate.Clean)
	case migrate.Clean: // leases of clean keep no old client out
		b.leases(migrate.Observe, migrate.Observe)
	}
	return b.judged()
}

// tidy deletes or prolongs the tombstones that a step left, as far as that is
// allowed yet. It does nothing where a member has seen a later record, which
// may need the tombstones.
//
//   - On the way back from Sealed it deletes each one that no getsetlock client
//     holds a lock by.
//   - At Clean it gives them their last TTL. Members ignore them then; they
//     shut out forgotten old clients.
//   - At a new beginning it deletes them last, before the verb says that old
//     clients may start.
func (d *desk) tidy(ctx context.Context, f *facts, gate *Gate, r *Report) error {
	pending := f.record.Pending
	if pending != migrate.Sealed && len(gate.Blocks) > 0 ||
		f.outdated() || f.dialect.Name != f.record.Dialect {
		return nil
	}
	if pending == migrate.Modern {
		count, err := d.prolonged(ctx, f)
		if err == nil && count > 0 {
			r.note("%d tombstones stay for %v and keep old clients out of their keys; on every other key nothing does: only modern keeps old clients out of all keys; status --watch reports an old client that writes; migrate sweep deletes the tombstones",
				count, tombstonesLast(f.idle()))
		}
		return err
	}
	done, err := d.sweep(ctx, f, pending == migrate.Clean, "deleting tombstones")
	if err != nil {
		return err
	}
	if done.Deleted > 0 {
		r.note("%d tombstones deleted", done.Deleted)
	}
	if done.Left > 0 && pending != migrate.Clean {
		gate.Blocks = append(gate.Blocks,
			Finding{Rule: "tombstones",
				Detail: fmt.Sprintf("%d tombstones belong to locks that are held now; they are deleted when these are released", done.Left)})
	}
	return nil
}
