package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// Merge gives the keys of a carved namespace back to the shorter namespace,
// with Options.Go. Both must be in the same phase, with no step unfinished.
// Each member of the carved namespace must be registered in the shorter one
// too.
//
// The shorter namespace's record stops listing the carved one at once. Merge
// deletes the carved record and roster when every member has acknowledged that
// and no lease runs under it. Until then the shorter namespace takes no step,
// and a later call goes on.
func Merge(ctx context.Context, pool *redis.Pool, o Options) (*Report, error) {
	return run(ctx, pool, o, func(d *desk, f *facts) (*Report, error) {
		switch {
		case f.record.err != nil || !f.record.exists():
			return d.closed(f, migrate.NoPhase, "", ""), nil
		case f.record.From == (migrate.Origin{}):
			return d.closed(f, f.record.Phase, "carved", "namespace %q was not carved out of another",
				f.namespace), nil
		case f.shorter == nil || !f.shorter.record.exists() || f.shorter.record.err != nil:
			b := &builder{facts: f, gate: Gate{To: f.record.Phase}}
			b.carvedOut()
			r := d.report(f)
			r.Gate = &b.gate
			return r, nil
		}
		return d.merge(ctx, f)
	})
}

// merge takes the namespace out of the shorter one's list, if it is there, and
// goes on with what is left.
func (d *desk) merge(ctx context.Context, f *facts) (*Report, error) {
	s := f.shorter
	taken, cannot := f.forget(d.opts.Forget)
	gate := f.merging()
	gate.Blocks = append(gate.Blocks, cannot...)
	gate.Open = len(gate.Blocks) == 0
	r := d.report(f)
	r.Gate = &gate
	if !d.opts.Go {
		r.wouldForget(taken)
		r.note("with --go the keys of %q are given back to namespace %q", f.namespace, s.namespace)
		return r, nil
	}
	if err := d.forget(ctx, taken, r); err != nil || !gate.Open {
		return r, err
	}
	if f.listed() {
		next := s.record.Record
		next.Epoch++
		next.Except = slices.DeleteFunc(slices.Clone(next.Except),
			func(namespace string) bool { return namespace == f.namespace })
		_, err := change(ctx, d.mux, s.namespace, s.record, next, f)
		if errors.Is(err, errRaced) {
			return d.mergeAgain(ctx, f, r)
		}
		if err != nil {
			return nil, forgotten(taken, d.refused(err))
		}
		r.Moved = true
		d.log(ctx, r, Entry{At: s.now, Epoch: f.record.Epoch, From: f.record.Phase.String(),
			To: migrate.NoPhase.String(), MergedInto: &s.namespace})
		r.note("namespace %q has its keys in %q again, epoch %d; the record of %q goes when every member has acknowledged that", s.namespace, f.namespace, next.Epoch, f.namespace)
	}
	return d.mergeRest(ctx, f, r)
}

// mergeAgain judges again after a record changed meanwhile, unless a step was
// taken.
func (d *desk) mergeAgain(ctx context.Context, before *facts, r *Report) (*Report, error) {
	f, err := d.gather(ctx)
	if err != nil {
		return nil, err
	}
	if f.shorter == nil || !f.record.sameStep(before.record) ||
		!f.shorter.record.sameStep(before.shorter.record) {
		return d.raced(ctx, before.record.Phase, r.Notes)
	}
	again, err := d.merge(ctx, f)
	if err == nil {
		again.Notes = append(r.Notes, again.Notes...)
	}
	return again, err
}

// merging is the gate of a namespace that is to be given back.
func (f *facts) merging() Gate {
	s := f.shorter
	b := &builder{facts: f, gate: Gate{To: s.record.Phase}}
	b.noteAt(s.record.Since, "record", "namespace %q: phase %v, epoch %d", s.namespace, s.record.Phase,
		s.record.Epoch)
	if f.record.Phase != s.record.Phase {
		b.block("phase", "%q is in %v and %q in %v: bring them to the same phase first", f.namespace,
			f.record.Phase, s.namespace, s.record.Phase)
	}
	if f.record.Target != s.record.Target {
		b.block("target", "%q takes its locks by the target %s and %q by %s: their locks are not in one place, so the two cannot be one namespace",
			f.namespace, targetWords(f.record.Target), s.namespace, targetWords(s.record.Target))
	}
	for _, one := range []*facts{f, s} {
		if one.record.Pending != migrate.NoPhase {
			b.block("pending", "the last step of namespace %q is not over: finish that first", one.namespace)
		}
	}
	if len(f.record.Except) > 0 {
		b.block("namespace", "%q was carved out of %q: give that back first (merge --namespace)",
			f.record.Except[0], f.namespace)
	}
	b.lost()
	b.follow(s, 0, "")
	for _, m := range f.members() {
		there := slices.ContainsFunc(s.members(), func(of seat) bool { return of.ID == m.ID })
		switch {
		case !b.readable(m):
		case !there:
			b.block("members", "member %s of %q is not registered in %q, and would not follow: let it join %q and also name %q (run --also), or stop it, or, if it is dead, name it by --forget", m.who(), f.namespace, s.namespace, s.namespace, f.namespace)
		case m.Epoch > f.record.Epoch:
			b.outdated(m)
		}
	}
	return b.gate
}

// mergeRest deletes the record and the roster of a namespace that is no longer
// listed, as soon as no member goes by them. It looks again until Options.Wait
// has passed.
func (d *desk) mergeRest(ctx context.Context, f *facts, r *Report) (*Report, error) {
	began := d.clock.Moment()
	for {
		again, err := d.gather(ctx)
		if err != nil {
			return nil, err
		}
		s := again.shorter
		if !again.record.sameStep(f.record) || s == nil || again.listed() {
			return d.raced(ctx, f.record.Phase, r.Notes)
		}
		b := &builder{facts: again, gate: again.merging()}
		b.follow(s, s.record.Epoch, fmt.Sprintf(
			"has not acknowledged yet that the keys of %q are its own again", f.namespace))
		for _, m := range s.members() {
			if n := m.Also[f.namespace]; m.err == nil && n > 0 {
				b.blockFor(m.TTL, "leases",
					"member %s has leases under %q (%d): their jobs have to end first", m.who(), f.namespace,
					n)
			}
		}
		if len(b.gate.Blocks) == 0 {
			return d.mergeEnd(ctx, again, r)
		}
		notes, moved := r.Notes, r.Moved
		r = d.report(again)
		b.gate.Open, r.Over = false, false
		r.Gate, r.Notes, r.Moved = &b.gate, notes, moved
		if d.clock.Since(began) >= d.opts.Wait {
			return r, nil
		}
		d.progress(b.gate.Blocks[0].Detail, began)
		select {
		case <-d.clock.After(lookEvery):
		case <-ctx.Done():
			return nil, fmt.Errorf("migrate: %q is not listed any more, and its record is not deleted yet; run the same verb again to go on: %w", f.namespace, context.Cause(ctx))
		}
	}
}

// mergeEnd deletes the record while neither record has changed, and then the
// roster. Programs that name the namespace begin a new roster, in case it is
// carved out again.
func (d *desk) mergeEnd(ctx context.Context, f *facts, r *Report) (*Report, error) {
	n, err := redis.Int(d.mux.Eval(ctx, record.DropBeside, record.Key(f.namespace),
		record.Key(f.shorter.namespace), f.record.bytes, f.shorter.record.bytes))
	if err == nil && n == 1 {
		_, err = d.mux.Eval(ctx, record.End, record.RosterKey(f.namespace), f.nonce)
	}
	if err != nil {
		return nil,
			d.refused(fmt.Errorf("deleting the record %s: %w; the same verb goes on", record.Key(f.namespace),
				err))
	}
	if n != 1 {
		return d.mergeRest(ctx, f, r) // a member raised the greatest TTL or period
	}
	notes := r.Notes
	f.record = stored{}
	r = d.report(f)
	r.Gate, r.Moved = &Gate{To: f.shorter.record.Phase, Open: true}, true
	r.Notes = append(notes, fmt.Sprintf("the record of %q is gone: its keys go by that of %q", f.namespace,
		f.shorter.namespace))
	return r, nil
}
