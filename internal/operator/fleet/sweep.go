// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	_ "embed" // the script
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/migrate"
)

//go:embed prolong.lua
var prolongLua string

var prolong = wire.NewScript(2, prolongLua)

// tombstonesLast is the least TTL of tombstones when a fleet goes to Clean. It
// is the TTL that a release gives them, or twice the longest pause of an old
// client if that is longer. An old client that returns after such a pause still
// finds one.
func tombstonesLast(idle time.Duration) time.Duration { return max(30*24*time.Hour, 2*idle) }

// Sweep shows the tombstones of a fleet in Clean, and deletes them with
// Options.Go. From then on nothing keeps an old client out. Without Sweep they
// stay until their TTL ends.
func Sweep(ctx context.Context, pool *redis.Pool, o Options) (*Report, error) {
	return run(ctx, pool, o, func(d *desk, f *facts) (*Report, error) {
		switch {
		case !f.record.readable() || f.record.Phase != migrate.Clean:
			return d.closed(f, migrate.Clean, "order", "the phase is %v: by their tombstones %v and the phases next to it keep old clients out; sweep is for clean", orNone(f.record), migrate.Sealed), nil
		case f.record.Pending != migrate.NoPhase:
			return d.closed(f, migrate.Clean, "pending", "clean is not over: leases of modern may depend on tombstones; run clean --go until it says that the migration is over"), nil
		}
		b := &builder{facts: f, gate: Gate{To: migrate.Clean}}
		b.acknowledged(migrate.Clean)
		b.leases(migrate.Clean, migrate.Clean)
		r, gate := d.report(f), b.judged()
		r.Gate = &gate
		switch {
		case !gate.Open:
		case !d.opts.Go:
			r.forgives(f)
			r.note("with --go they are deleted, and nothing keeps an old client out any more")
		default:
			done, err := d.sweep(ctx, f, true, "deleting tombstones")
			if err != nil {
				return r, err
			}
			r.note("%d tombstones deleted", done.Deleted)
		}
		return r, nil
	})
}

// sweep deletes tombstones; beside says whether also those of locks that a
// getsetlock client holds. doing says for an error what was being done.
func (d *desk) sweep(ctx context.Context, f *facts, beside bool, doing string) (swept, error) {
	s, err := newSurveyor(d.mux, f)
	if err != nil {
		return swept{}, err
	}
	done, err := s.sweep(ctx, beside)
	if err != nil {
		return done, d.refused(fmt.Errorf("%s: %w; some may be left, and the same verb deletes them", doing, err))
	}
	return done, nil
}

// prolonged gives the tombstones of a fleet that goes to Clean their last TTL,
// and says how many there are.
func (d *desk) prolonged(ctx context.Context, f *facts) (count int64, err error) {
	s, err := newSurveyor(d.mux, f)
	if err != nil {
		return 0, err
	}
	px := tombstonesLast(f.idle()).Milliseconds()
	err = s.eachTombstone(ctx, func(key string) wire.Command {
		return prolong.Cmd(key, legacy.MarkKey(key), s.tombstone, px)
	}, func(left int64) {
		if left > 0 {
			count++
		}
	})
	if err != nil {
		return 0,
			d.refused(fmt.Errorf("giving the tombstones their last TTL: %w; the same verb goes on with it",
				err))
	}
	return count, nil
}

// forgives notes what still keeps a forgotten old client out.
func (r *Report) forgives(f *facts) {
	n, left := f.survey.Tombstones, f.survey.TombsEnd
	if n == 0 {
		r.note("no tombstone is left: nothing keeps an old client out")
		return
	}
	r.note("%d tombstones keep old clients out of their keys, the last one until %s; nothing else does, and migrate sweep deletes them",
		n, dated(f.now.Add(left)))
}

// swept is the result of a sweep: numbers of tombstones.
type swept struct{ Deleted, Left int64 }

// sweep deletes tombstones by compare, in slices. With beside it also deletes
// those of locks that a getsetlock client holds.
func (s *surveyor) sweep(ctx context.Context, beside bool) (swept, error) {
	var out swept
	absent := "1"
	if beside {
		absent = "0"
	}
	err := s.eachTombstone(ctx, func(key string) wire.Command {
		return record.Sweep.Cmd(key, legacy.MarkKey(key), s.tombstone, absent)
	}, func(n int64) {
		out.Deleted += n
		out.Left += 1 - n
	})
	return out, err
}

// eachTombstone sends a command for each tombstone of the namespace, those of a
// slice together, and calls got with each reply. It fails with errRaced where
// the record changed since this was decided: the phase that it leads to may
// need the tombstones as they are.
func (s *surveyor) eachTombstone(ctx context.Context, command func(key string) wire.Command,
	got func(n int64)) error {
	var cmds []wire.Command
	return s.each(ctx, func(k *keys.Key) {
		if k.Value == s.tombstone {
			cmds = append(cmds, command(k.Name))
		}
	}, func() error {
		if len(cmds) == 0 {
			return nil
		}
		now, err := readStored(s.mux.Do(ctx, "GET", record.Key(s.namespace)))
		if err == nil && !now.sameStep(s.record) {
			err = errRaced
		}
		if err != nil {
			return err
		}
		for _, r := range s.mux.Batch(ctx, cmds) {
			n, err := redis.Int64(r.Value, r.Err)
			if err != nil {
				return err
			}
			got(n)
		}
		cmds = nil
		return nil
	})
}

// sweepStray deletes tombstones in a phase that has none. A fail-over may have
// brought them back, or the release of a lease that nobody knew of. It keeps
// those that a lock may depend on.
func (d *desk) sweepStray(ctx context.Context, f *facts) error {
	if !f.strayTombstones() {
		return nil
	}
	done, err := d.sweep(ctx, f, false,
		fmt.Sprintf("deleting tombstones that phase %v does not have", f.record.Phase))
	if err != nil {
		return err
	}
	if f.survey.Tombstones -= done.Deleted; done.Deleted > 0 {
		d.notes = append(d.notes, fmt.Sprintf("%d tombstones deleted, which phase %v does not have",
			done.Deleted, f.record.Phase))
	}
	return nil
}

// strayTombstones reports tombstones in a phase in which old clients work,
// where no member holds a lock by one or can write one again.
func (f *facts) strayTombstones() bool {
	if f.survey.Tombstones == 0 || !f.record.readable() ||
		f.record.Phase > migrate.Dual || f.record.Pending != migrate.NoPhase {
		return false
	}
	gate := (&desk{}).remains(f)
	for _, m := range f.members() {
		for p := range m.Leases {
			if p >= migrate.Sealed {
				return false
			}
		}
	}
	return len(gate.Blocks) == 0
}
