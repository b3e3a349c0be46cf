package fleet

import (
	"context"
	_ "embed" // the script
	"fmt"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// swept is what a sweep did.
type swept struct{ Deleted, Left int64 }

// sweep deletes tombstones by compare, in slices. beside says whether also those beside which one of
// ours holds.
func (s *surveyor) sweep(ctx context.Context, beside bool) (swept, error) {
	var out swept
	absent := "1"
	if beside {
		absent = "0"
	}
	err := s.scan(ctx, func(ctx context.Context, keys []string) error {
		found, err := s.tombs(ctx, keys)
		if err != nil || len(found) == 0 {
			return err
		}
		cmds := make([]wire.Command, len(found))
		for i, key := range found {
			cmds[i] = record.Sweep.Cmd(key, legacy.MarkKey(key), s.tombstone, absent)
		}
		for _, r := range s.mux.Batch(ctx, cmds) {
			n, err := redis.Int64(r.Value, r.Err)
			if err != nil {
				return err
			}
			out.Deleted += n
			out.Left += 1 - n
		}
		return nil
	})
	return out, err
}

// sweepStray deletes tombstones in a phase that has none: a fail-over may have brought them back, or a release
// of a lease that nobody knew of. Nobody may hold by one any more.
func (d *desk) sweepStray(ctx context.Context, f *facts) error {
	if !f.strayTombstones() {
		return nil
	}
	s, err := newSurveyor(d.mux, f.namespace, f.dialect, f.now)
	if err != nil {
		return err
	}
	done, err := s.sweep(ctx, false)
	if err != nil {
		return d.refused(fmt.Errorf("deleting tombstones that phase %v does not have: %w; some may be left, and the same verb deletes them", f.record.Phase, err))
	}
	if f.survey.Tombstones -= done.Deleted; done.Deleted > 0 {
		d.notes = append(d.notes, fmt.Sprintf("%d tombstones deleted, which phase %v does not have", done.Deleted, f.record.Phase))
	}
	return nil
}

// strayTombstones reports that tombstones stand that keep old clients out of a fleet in which they work, and
// that no member can hold by one or put one back.
func (f *facts) strayTombstones() bool {
	if f.survey.Tombstones == 0 || f.record.err != nil || !f.record.exists() || f.record.Phase > migrate.Dual || f.record.Pending != migrate.NoPhase {
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

// tombs are those keys that carry a tombstone.
func (s *surveyor) tombs(ctx context.Context, keys []string) ([]string, error) {
	keys = slices.DeleteFunc(keys, func(k string) bool {
		_, mark := guarded(k)
		return mark || strings.HasPrefix(k, "gsl:") || !s.covers(k)
	})
	if len(keys) == 0 {
		return nil, nil
	}
	cmds := make([]wire.Command, len(keys))
	for i, key := range keys {
		cmds[i] = wire.Cmd("GETRANGE", key, 0, longestLook)
	}
	var found []string
	for i, r := range s.mux.Batch(ctx, cmds) {
		value, err := redis.String(r.Value, r.Err)
		switch {
		case wire.IsWrongType(err):
		case err != nil:
			return nil, err
		case value == s.tombstone:
			found = append(found, keys[i])
		}
	}
	return found, nil
}
