package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// shorterOf reads the namespace out of which this one was carved: its record
// first, its roster afterwards. Where this one has no record yet it reads the
// longest shorter namespace with a record. It returns nil where there is none.
func (d *desk) shorterOf(ctx context.Context, f *facts) (*facts, error) {
	s := &facts{server: f.server, dialect: f.dialect}
	var err error
	switch from := f.record.From; {
	case f.record.err != nil:
		return nil, nil
	case from != (migrate.Origin{}):
		s.namespace = from.Namespace
		s.record, err = readStored(d.mux.Do(ctx, "GET", record.Key(s.namespace)))
	case f.record.exists():
		return nil, nil
	default:
		if s.namespace, s.record, err = d.nearest(ctx, f.namespace); err == nil && !s.record.exists() {
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	s.reading.Boot, s.reading.Up = d.clock.Boot()
	replies := d.mux.Batch(ctx, []wire.Command{
		wire.Cmd("HGETALL", record.RosterKey(s.namespace)), wire.Cmd("TIME")})
	fields, err := redis.StringMap(replies[0].Value, replies[0].Err)
	if err != nil {
		return nil, err
	}
	if s.now, err = timeOf(replies[1].Value, replies[1].Err); err != nil {
		return nil, err
	}
	s.reading.Server, s.reading.Run = s.now.Sub(time.Unix(0, 0)), s.server.runID
	s.enroll(fields)
	if s.record.exists() {
		s.shorter, err = d.shorterOf(ctx, s)
	}
	return s, err
}

// nearest is the longest namespace with a record that a given name continues.
func (d *desk) nearest(ctx context.Context, namespace string) (string, stored, error) {
	var shorter []string
	var cmds []wire.Command
	for at := range namespace {
		shorter = append(shorter, namespace[:at])
		cmds = append(cmds, wire.Cmd("GET", record.Key(namespace[:at])))
	}
	if len(cmds) == 0 {
		return "", stored{}, nil
	}
	replies := d.mux.Batch(ctx, cmds)
	for i := len(replies) - 1; i >= 0; i-- {
		found, err := readStored(replies[i].Value, replies[i].Err)
		if err != nil || found.exists() {
			return shorter[i], found, err
		}
	}
	return "", stored{}, nil
}

// described is the record that says what the old clients write: the namespace's
// own, else that of the namespace out of which it would be carved.
func (f *facts) described() stored {
	if !f.record.exists() && f.shorter != nil {
		return f.shorter.record
	}
	return f.record
}

// listed reports that the record counts: it belongs to no carved namespace, or
// the shorter namespace lists it.
func (f *facts) listed() bool {
	return f.record.From == (migrate.Origin{}) || f.shorter != nil && f.shorter.record.Lists(f.namespace)
}

// overlap blocks where another namespace owns the same keys, since the members
// of both would not know of each other.
func (b *builder) overlap() {
	other, ok := b.overlapping()
	switch {
	case !ok:
	case scope.Within(b.namespace, other):
		b.block("namespace", "the record of %q does not list %q, which has one too, and both own the same keys: carve it out (init --namespace) or end it (merge --namespace)",
			b.namespace, other)
	default:
		b.block("namespace", "the namespaces %q and %q own the same keys, since one begins with the other, and their members do not know of each other: end one of them (DEL %s, after its programs have moved)",
			b.namespace, other, record.Key(other))
	}
}

// overlapping finds another namespace that owns keys of this one, the first by
// name. It is a shorter namespace out of which this one was not carved, or a
// longer one that is not carved out of this one.
func (f *facts) overlapping() (string, bool) {
	carvedFrom := map[string]bool{}
	for at := f; at.shorter != nil; at = at.shorter {
		carvedFrom[at.shorter.namespace] = true // carvedOut asks whether they list it
	}
	for _, other := range slices.Sorted(maps.Keys(f.survey.records)) {
		shorter := scope.Within(other, f.namespace) && !carvedFrom[other]
		longer := scope.Within(f.namespace, other) && scope.Carved(other, f.record.Except) == ""
		if other != f.namespace && (shorter || longer) {
			return other, true
		}
	}
	return "", false
}

// carvedOut blocks each step of a carved namespace until its keys are its own.
// Each member of the shorter namespace must act by a record that lists it, and
// no lease from before the carving may run. Vanished members count, since they
// may return.
func (b *builder) carvedOut() {
	for f := b.facts; f.record.err == nil && f.record.From != (migrate.Origin{}); f = f.shorter {
		from, s := f.record.From, f.shorter
		switch {
		case s == nil || !s.record.exists():
			b.block("carved",
				"%q was carved out of %q, and there is no record %s: write that one first (init)",
				f.namespace, from.Namespace, record.Key(from.Namespace))
			return
		case s.record.err != nil:
			b.block("carved", "%q was carved out of %q, and the record %s cannot be read: %v", f.namespace,
				s.namespace, record.Key(s.namespace), s.record.err)
			return
		case !f.listed():
			b.block("carved", "the record of %q does not list %q, so no member acts by the record of %[2]q: carve it out by init --go, or end it by merge --go", s.namespace, f.namespace)
			return
		}
		b.follow(s, from.Epoch, "has not acknowledged yet that "+
			fmt.Sprintf("%q was carved out", f.namespace))
		for _, m := range s.members() {
			if m.err == nil && m.Oldest > 0 && m.Oldest < from.Epoch {
				b.blockFor(m.TTL, "carved",
					"member %s of %q has leases from before %q was carved out: their jobs have to end first", m.who(), s.namespace, f.namespace)
			}
		}
	}
}

// follow blocks while members of another namespace act by an earlier epoch of
// its record, vanished ones too, or may be missing from its roster.
func (b *builder) follow(s *facts, epoch int64, hasNot string) {
	above := &builder{facts: s}
	above.lost()
	for _, m := range s.members() {
		if above.readable(m) && m.Epoch < epoch {
			above.block("carved",
				"member %s %s: its next heartbeat does (every %v); if it is dead, name it by --forget there", m.who(), hasNot, m.Every)
		}
	}
	above.longGone()
	for _, block := range above.gate.Blocks {
		block.Detail = fmt.Sprintf("of namespace %q: %s", s.namespace, block.Detail)
		b.gate.Blocks = append(b.gate.Blocks, block)
	}
	b.gate.Wait = max(b.gate.Wait, above.gate.Wait)
}
