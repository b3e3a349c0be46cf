// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/migrate"
)

// Advance shows the gate to the next phase, and passes it if it is open and
// Options.Go is set. It takes one step or none, and never the step to Clean,
// which is [CleanUp]. A closed gate is no error; an error says what could not
// be done.
func Advance(ctx context.Context, pool *redis.Pool, o Options) (*Report, error) {
	return run(ctx, pool, o, func(d *desk, f *facts) (*Report, error) {
		next, _ := following(f.record.Phase)
		if r := d.named(f, next); r != nil {
			return r, nil
		}
		if f.record.Phase >= migrate.Modern {
			return d.closed(f, migrate.Clean, "final", "the phase is %v: the only step left is to clean, by migrate clean, and there is no way back from it", f.record.Phase), nil
		}
		return d.step(ctx, f, next, migrate.NoPhase)
	})
}

// Back shows the gate to the phase before, and passes it as Advance does. From
// Sealed it also deletes the tombstones that shut old clients out. That is over
// when no tombstone is left and every member has acknowledged. A call that
// finds it unfinished finishes it and takes no step.
func Back(ctx context.Context, pool *redis.Pool, o Options) (*Report, error) {
	return run(ctx, pool, o, func(d *desk, f *facts) (*Report, error) {
		unfinished := f.record.Phase == migrate.Dual && f.record.Pending == migrate.Sealed
		next := f.record.Phase - 1
		if unfinished {
			next = migrate.Dual
		}
		if unfinished && d.opts.To == migrate.Observe {
			return d.closed(f, migrate.Observe, "pending", "the way back from sealed is not over: run back --go until it says that no tombstone is left, then look again"), nil
		}
		if r := d.named(f, next); r != nil {
			return r, nil
		}
		switch p := f.record.Phase; {
		case unfinished:
			return d.finish(ctx, f)
		case p == migrate.Clean:
			return d.closed(f, migrate.Clean, "final",
				"there is no way back from clean; a new beginning is possible by migrate init"), nil
		case p == migrate.Observe:
			return d.closed(f, migrate.Observe, "first", "the phase is observe, which is the first one"), nil
		case p == migrate.Sealed:
			return d.step(ctx, f, migrate.Dual, migrate.Sealed)
		default:
			return d.step(ctx, f, next, migrate.NoPhase)
		}
	})
}

// named answers a call that names its step by Options.To. It returns nil where
// next is that step, or where no step is named.
func (d *desk) named(f *facts, next migrate.Phase) *Report {
	to, at := d.opts.To, f.record.Phase
	if to == migrate.NoPhase || to == next || !f.record.readable() {
		return nil
	}
	if to != at {
		return d.closed(f, to, "order",
			"the phase is %v, and no step leads from there to %v by this verb: look again before you go on", at, to)
	}
	r := d.report(f)
	if r.Gate = d.outdated(f); r.Gate == nil {
		r.note("the phase is %v already; nothing was done", at)
	}
	return r
}

// CleanUp shows the gate to the last phase, and passes it as Advance does.
// Tombstones get their last TTL when every member has acknowledged and no lease
// of Modern runs any more: 30 days, or twice [Claims.Idle] where that is
// longer. From then on they alone shut out a forgotten old client. Sweep
// deletes them earlier. A call that finds this unfinished finishes it.
func CleanUp(ctx context.Context, pool *redis.Pool, o Options) (*Report, error) {
	return run(ctx, pool, o, func(d *desk, f *facts) (*Report, error) {
		switch {
		case f.record.Phase == migrate.Clean && f.record.Pending == migrate.NoPhase:
			r := d.report(f)
			if r.Gate = d.outdated(f); r.Gate == nil {
				r.note("the fleet is clean; nothing is left to do")
				r.forgives(f)
			}
			return r, nil
		case f.record.Phase == migrate.Clean:
			return d.finish(ctx, f)
		case f.record.Phase != migrate.Modern:
			return d.closed(f, migrate.Clean, "order",
					"the phase is %v, and the step to clean begins in modern: advance first",
					orNone(f.record)),
				nil
		}
		return d.step(ctx, f, migrate.Clean, migrate.Modern)
	})
}

func orNone(s stored) string {
	if !s.exists() {
		return "not recorded"
	}
	return s.Phase.String()
}

// run opens a desk, gathers the facts and calls verb with them. With Options.Go
// it first does what every step needs: it notes lost members and deletes stray
// tombstones.
func run[Answer any](ctx context.Context, pool *redis.Pool, o Options,
	verb func(*desk, *facts) (*Answer, error)) (*Answer, error) {
	d, err := open(pool, o)
	if err != nil {
		return nil, err
	}
	defer d.close()
	f, err := d.gather(ctx)
	if err != nil {
		return nil, err
	}
	if o.Go {
		if f, err = d.awaitAhead(ctx, f); err != nil {
			return nil, err
		}
		if f, err = d.noteLost(ctx, f); err != nil {
			return nil, err
		}
		if err := d.sweepStray(ctx, f); err != nil {
			return nil, err
		}
	}
	return verb(d, f)
}

// closed is a report whose gate is closed for one reason.
func (d *desk) closed(f *facts, to migrate.Phase, rule, format string, args ...any) *Report {
	r := d.report(f)
	b := &builder{facts: f, gate: Gate{To: to}}
	if !f.record.readable() {
		b.recordStands()
	} else {
		b.block(rule, format, args...)
	}
	r.Gate = &b.gate
	return r
}

// awaitGate looks again until the gate is open, for at most Options.Wait, and
// only where Options.ForGate asks for it. It returns the facts of the last
// look. Another operator's step ends it.
func (d *desk) awaitGate(ctx context.Context, f *facts, to migrate.Phase) (*facts, error) {
	began := d.clock.Moment()
	for d.opts.ForGate && d.clock.Since(began) < d.opts.Wait {
		there := *f // forget takes members out
		_, cannot := there.forget(d.opts.Forget)
		blocks := append(judge(&there, to).Blocks, cannot...)
		if len(blocks) == 0 {
			break
		}
		d.progress(blocks[0].Detail, began)
		select {
		case <-d.clock.After(lookEvery):
		case <-ctx.Done():
			return nil, fmt.Errorf("migrate: waiting for the gate to %v: %w", to, context.Cause(ctx))
		}
		again, err := d.gather(ctx)
		if err != nil {
			return nil, err
		}
		if !again.record.sameStep(f.record) {
			break // step finds that out by its compare, and says so
		}
		f = again
	}
	return f, nil
}

// step judges the gate and passes it by one compare-and-set, if it is open and
// Options.Go is set. Pending is the phase that the step leaves unfinished.
func (d *desk) step(ctx context.Context, f *facts, to, pending migrate.Phase) (*Report, error) {
	if !f.record.readable() {
		return d.closed(f, to, "", ""), nil
	}
	f, err := d.awaitGate(ctx, f, to)
	if err != nil {
		return nil, err
	}
	taken, cannot := f.forget(d.opts.Forget)
	gate := judge(f, to)
	gate.Blocks = append(gate.Blocks, cannot...)
	gate.Open = len(gate.Blocks) == 0
	r := d.report(f)
	r.Gate = &gate
	if !d.opts.Go {
		r.wouldForget(taken)
		return r, nil
	}
	// Members are forgotten whether or not the gate is open.
	if err := d.forget(ctx, taken, r); err != nil || !gate.Open {
		return r, err
	}
	next := migrate.Record{Phase: to, Pending: pending, Dialect: f.dialect.Name}
	next.Fleet = f.fleet()
	if to == migrate.Clean {
		next.Target, _ = f.target()
		if err := d.departed(ctx, f); err != nil {
			return nil, forgotten(taken, err)
		}
	}
	now, err := d.write(ctx, f, next)
	switch {
	case errors.Is(err, errRaced):
		return d.stepAgain(ctx, f, to, pending, r.Notes)
	case errors.Is(err, errJoined):
		return d.joined(ctx, f, to, r.Notes)
	case err != nil:
		return nil, forgotten(taken, err)
	}
	d.logStep(ctx, r, f, now, &gate, pending == migrate.NoPhase)
	f.record = now
	done := d.report(f)
	done.Gate, done.Moved = &gate, true
	done.Notes = append(r.Notes, fmt.Sprintf("the phase is %v now, epoch %d", to, now.Epoch))
	if pending != migrate.NoPhase {
		return d.finishAfter(ctx, f, done)
	}
	return done, nil
}

// write replaces the judged record by next. It fills in the epoch, the time,
// and what is carried over. It returns errRaced where the record changed
// meanwhile.
func (d *desk) write(ctx context.Context, f *facts, next migrate.Record) (stored, error) {
	now, err := d.serverNow(ctx)
	if err != nil {
		return stored{}, d.refused(err)
	}
	next.Epoch, next.Since = f.record.Epoch+1, now
	next.Roster, next.Run, next.Evidence = f.nonce, f.run(), f.record.Evidence
	next.SawBehind, next.SawAhead = f.record.SawBehind, f.record.SawAhead
	f.greatest(&next)
	if f.record.Phase == migrate.Clean {
		next.Target = f.record.Target // until leases of Clean are over
	}
	made, err := change(ctx, d.mux, d.opts.Namespace, f.record, next)
	if err != nil && !errors.Is(err, errRaced) {
		return made, d.refused(err)
	}
	return made, err
}

// stepAgain judges the gate again after the record changed meanwhile. Where the
// change was a step of another operator's call, it reports that step. Done are
// notes of what this call did before.
func (d *desk) stepAgain(ctx context.Context, f *facts, to, pending migrate.Phase, done []string) (*Report,
	error) {
	again, err := d.gather(ctx)
	if err != nil {
		return nil, err
	}
	if !again.record.sameStep(f.record) {
		return d.raced(ctx, to, done)
	}
	d.notes = nil // done has them
	r, err := d.step(ctx, again, to, pending)
	if err == nil {
		r.Notes = append(done, r.Notes...)
	}
	return r, err
}

// raced reports a step that another call took, with notes of what this call had
// done before.
func (d *desk) raced(ctx context.Context, to migrate.Phase, done []string) (*Report, error) {
	f, err := d.gather(ctx)
	if err != nil {
		return nil, err
	}
	r := d.closed(f, to, "raced", "another operator changed the record while this gate was judged: it now says %v, epoch %d; look again before you go on", orNone(f.record), f.record.Epoch)
	r.Notes = done
	return r, nil
}

// forget deletes dead members from the roster, each only if it has sent no
// heartbeat since it was judged. An error names the members that were already
// deleted.
func (d *desk) forget(ctx context.Context, dead []seat, r *Report) error {
	var said []string
	defer func() {
		if len(said) > 0 {
			d.log(ctx, r, Entry{At: r.ServerNow, Epoch: r.Epoch, Forgotten: said})
		}
	}()
	for i, m := range dead {
		n, err := redis.Int(d.mux.Eval(ctx, record.Forget, record.RosterKey(d.opts.Namespace), m.ID, m.bytes))
		if err != nil {
			return forgotten(dead[:i], d.refused(fmt.Errorf("forgetting member %s: %w", m.ID, err)))
		}
		if n != 1 {
			gone, err := d.unseated(ctx, m.ID)
			if err != nil {
				return forgotten(dead[:i],
					d.refused(fmt.Errorf("looking whether member %s is gone: %w", m.ID, err)))
			}
			if gone {
				r.note("member %s is gone already: another operator forgot it, or it said goodbye", m.who())
				continue
			}
			return forgotten(dead[:i], fmt.Errorf("migrate: member %s is alive: it sent a heartbeat just before it would have been forgotten; the record was not changed", m.ID))
		}
		r.note("member %s is forgotten", m.who())
		said = append(said, m.who())
	}
	return nil
}

// unseated reports that the roster has no field of a member any more.
func (d *desk) unseated(ctx context.Context, id string) (bool, error) {
	_, err := redis.String(d.mux.Do(ctx, "HGET", record.RosterKey(d.opts.Namespace), id))
	if errors.Is(err, redis.ErrNil) {
		return true, nil
	}
	return false, err
}

// wouldForget notes the members that the same call would forget with
// Options.Go.
func (r *Report) wouldForget(taken []seat) {
	for _, m := range taken {
		r.note("member %s would be forgotten", m.who())
	}
}

// forgotten adds to an error the members that are already deleted, since no
// report will name them.
func forgotten(gone []seat, err error) error {
	if len(gone) == 0 {
		return err
	}
	var who []string
	for _, m := range gone {
		who = append(who, m.who())
	}
	return fmt.Errorf("%w; already forgotten: %s", err, strings.Join(who, ", "))
}

// lookEvery is the time between two looks of a verb that waits.
const lookEvery = time.Second
