package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// olderVersion is the version whose records are raised to this one. Its members
// have keys of their own.
const olderVersion = 2

// olderMember is what counts of a member of that version.
type olderMember struct {
	key, bytes string
	every, ttl time.Duration
	beats      bool // heartbeats may still come
}

// raise turns a record of the version before into one of this version, if no
// member of that version may still send heartbeats. Otherwise it returns a
// finding for each such member. The new record notes that members may be
// missing.
func (d *desk) raise(ctx context.Context, f *facts) (*facts, []Finding, error) {
	if !errors.Is(f.record.err, record.ErrOlder) || record.VersionOf(f.record.bytes) != olderVersion {
		return f, nil, nil
	}
	_, rest, _ := strings.Cut(f.record.bytes, " ")
	next, err := migrate.ParseRecord(record.Version + " " + rest +
		" roster= run= every=0 ttl=0 lost=- evidence=- except= from=-")
	if err != nil {
		return f, nil, nil // not that version's form either: the gate says so
	}
	old, err := d.olderMembers(ctx, f)
	if err != nil {
		return nil, nil, d.refused(err)
	}
	var blocks []Finding
	f.greatest(&next)
	for _, m := range old {
		next.Every, next.TTL = max(next.Every, m.every), max(next.TTL, m.ttl)
		if m.beats {
			blocks = append(blocks, Finding{Rule: "record", Detail: fmt.Sprintf("%s is fresh: a program with an older version of getsetlock runs, which cannot read the new record: stop it first", m.key)})
		}
	}
	if len(blocks) > 0 {
		return f, blocks, nil
	}
	if err := d.beginRoster(ctx, f); err != nil {
		return nil, nil, err
	}
	next.Roster, next.Run, next.Lost = f.nonce, f.run(), f.reading
	next.TTL = max(next.TTL, next.Fleet.Lease.Time, f.dialect.Lease)
	if _, err := change(ctx, d.mux, d.opts.Namespace, f.record, next, nil); err != nil &&
		!errors.Is(err, errRaced) {
		return nil, nil, d.refused(err)
	}
	for _, m := range old {
		if _, err := d.mux.Eval(ctx, record.Drop, m.key, m.bytes); err != nil {
			return nil, nil, d.refused(fmt.Errorf("migrate: deleting %s: %w", m.key, err))
		}
	}
	again, err := d.gather(ctx)
	return again, nil, err
}

// olderMembers finds the members of the version before by one SCAN.
func (d *desk) olderMembers(ctx context.Context, f *facts) ([]olderMember, error) {
	var out []olderMember
	cursor := "0"
	for {
		reply, err := redis.Values(d.mux.Do(ctx, "SCAN", cursor, "MATCH",
			scope.Literal(record.OldMemberKey(d.opts.Namespace, ""))+"*", "COUNT", scanSlice))
		if err != nil {
			return nil, err
		}
		var keys []string
		if _, err := redis.Scan(reply, &cursor, &keys); err != nil {
			return nil, err
		}
		cmds := make([]wire.Command, 0, len(keys))
		for _, key := range keys {
			cmds = append(cmds, wire.Cmd("GET", key))
		}
		for i, r := range d.mux.Batch(ctx, cmds) {
			text, err := record.TextOf(r.Value, r.Err)
			if err != nil && !wire.IsWrongType(err) {
				return nil, err
			}
			if err == nil && text != "" {
				out = append(out, readOlder(keys[i], text, f.now))
			}
		}
		if cursor == "0" {
			return out, nil
		}
	}
}

// readOlder reads the words that count, in any order. A member that it cannot
// read counts as alive.
func readOlder(key, text string, now time.Time) olderMember {
	m := olderMember{key: key, bytes: text}
	var in record.Reader
	words := map[string]string{}
	for _, w := range strings.Split(text, " ") {
		name, value, _ := strings.Cut(w, "=")
		words[name] = value
	}
	m.every, m.ttl = in.Millis(words["every"]), in.Millis(words["ttl"])
	seen := in.Instant(words["seen"])
	m.beats = in.Err != nil || now.Sub(seen) <= record.BeatsMissed*m.every+time.Second
	return m
}
