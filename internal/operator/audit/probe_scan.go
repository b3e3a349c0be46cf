package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
)

// probeSlice is how many keys the server goes through in one SCAN, and how many
// are then read together. During either, for some hundred microseconds, the
// server serves no other client.
const probeSlice = 500

// probeBytes is how much of a value is read. No dialect writes more, and a
// value of megabytes must not be sent or stored.
const probeBytes = 1024

// probedKey is one key and what the probe read of it.
type probedKey struct {
	key    string
	kind   string // the type as Redis names it; "string" for keys that were read
	value  string // the first probeBytes of a string
	size   int64  // the length of the whole string, in bytes
	hasTTL bool
	ttl    time.Duration
	now    time.Time // the server's clock just before the key was read
	denied bool      // this user may not read it
}

// whole reports whether value is the whole string.
func (p *probedKey) whole() bool { return p.size == int64(len(p.value)) }

// probeReader reads a server's keys in slices.
type probeReader struct {
	mux     *wire.Mux
	clock   lock.Clock
	elapsed func() time.Duration
	scope   scope.Scope
	looks   int64
	work    time.Duration // total time from sending to the last reply
	slow    time.Duration // the slowest slice
	pace    bool
}

func newProbeReader(mux *wire.Mux, clock lock.Clock, hurry bool) *probeReader {
	if clock == nil {
		clock = lock.Machine
	}
	return &probeReader{mux: mux, clock: clock, elapsed: elapsedOf(clock), pace: !hurry}
}

// each calls visit for every key that the scope covers, and sliced after each
// slice; its error ends the scan. SCAN may return a key twice. visit must not
// keep its argument.
func (r *probeReader) each(ctx context.Context, visit func(*probedKey),
	sliced func(looked int64) error) error {
	cursor := "0"
	for {
		begun := r.elapsed()
		args := []any{"COUNT", probeSlice}
		if pattern := r.scope.Pattern(); pattern != "*" {
			args = append(args, "MATCH", pattern)
		}
		keys, next, err := r.mux.Scan(ctx, cursor, args...)
		if err != nil {
			return fmt.Errorf("listing keys by SCAN: %w", err)
		}
		cursor = next
		keys = slices.DeleteFunc(keys, func(k string) bool { return !r.scope.Covers(r.scope.Database(), k) })
		if err := r.read(ctx, keys, visit); err != nil {
			return err
		}
		took := r.elapsed() - begun
		r.work, r.slow = r.work+took, max(r.slow, took)
		if err := sliced(r.looks); err != nil {
			return err
		}
		if cursor == "0" {
			return nil
		}
		// The server gets a pause as long as the slice took, 50 ms at most: a
		// probe is never urgent.
		if r.pace && !r.rest(ctx, took) {
			return context.Cause(ctx)
		}
	}
}

func (r *probeReader) rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-r.clock.After(min(d, 50*time.Millisecond)):
		return true
	case <-ctx.Done():
		return false
	}
}

// read reads the keys: two commands per key in one message, then further
// questions about keys that are no strings or are long.
func (r *probeReader) read(ctx context.Context, keys []string, visit func(*probedKey)) error {
	if len(keys) == 0 {
		return nil
	}
	cmds := make([]wire.Command, 0, 1+2*len(keys))
	cmds = append(cmds, wire.Cmd("TIME"))
	for _, k := range keys {
		cmds = append(cmds, wire.Cmd("GETRANGE", k, 0, probeBytes-1), wire.Cmd("PTTL", k))
	}
	replies := r.mux.Batch(ctx, cmds)
	now, err := wire.Time(replies[0].Value, replies[0].Err)
	if err != nil {
		return fmt.Errorf("asking the server for its TIME: %w", err)
	}
	found := make([]probedKey, 0, len(keys))
	for i, k := range keys {
		p := probedKey{key: k, kind: "string", now: now}
		gone, err := p.take(replies[1+2*i], replies[2+2*i])
		switch {
		case err != nil:
			return fmt.Errorf("reading keys by GETRANGE and PTTL: %w", err)
		case !gone:
			found = append(found, p)
		}
	}
	if err := r.ask(ctx, found); err != nil {
		return err
	}
	for i := range found {
		r.looks++
		visit(&found[i])
	}
	return nil
}

// take fills p from the two replies. gone is true if the key has vanished
// since.
func (p *probedKey) take(value, ttl wire.Reply) (gone bool, err error) {
	switch {
	case wire.IsWrongType(value.Err):
		p.kind = ""
	case wire.IsNoPerm(value.Err):
		p.denied, p.kind = true, ""
		return false, nil
	case value.Err != nil:
		return false, value.Err
	default:
		p.value, _ = redis.String(value.Value, nil)
		p.size = int64(len(p.value))
	}
	left, err := redis.Int64(ttl.Value, ttl.Err)
	switch {
	case wire.IsNoPerm(err):
		// The value was read but its TTL is unknown: treat it as not read.
		p.denied, p.kind = true, ""
		return false, nil
	case err != nil:
		return false, err
	case left == -2:
		return true, nil
	case left >= 0:
		p.hasTTL, p.ttl = true, time.Duration(left)*time.Millisecond
	}
	return false, nil
}

// ask fills in the types of keys that are no strings, and the sizes of values
// longer than what was read.
func (r *probeReader) ask(ctx context.Context, found []probedKey) error {
	var cmds []wire.Command
	var of []*probedKey
	for i := range found {
		p := &found[i]
		switch {
		case p.denied:
		case p.kind == "":
			cmds, of = append(cmds, wire.Cmd("TYPE", p.key)), append(of, p)
		case p.size == probeBytes:
			cmds, of = append(cmds, wire.Cmd("STRLEN", p.key)), append(of, p)
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	for i, reply := range r.mux.Batch(ctx, cmds) {
		var refused redis.Error
		if errors.As(reply.Err, &refused) {
			of[i].kind = cmp.Or(of[i].kind, "unknown")
			continue // the key changed since, or this user may not ask; the probe goes on
		}
		if reply.Err != nil {
			return fmt.Errorf("asking for the types and sizes of keys: %w", reply.Err)
		}
		if n, ok := reply.Value.(int64); ok {
			of[i].size = n
			continue
		}
		of[i].kind, _ = redis.String(reply.Value, nil)
	}
	return r.lookIntoHashes(ctx, found)
}

// lookIntoHashes tells a Redisson lock, which is a hash with one field per
// holder, from other hashes.
func (r *probeReader) lookIntoHashes(ctx context.Context, found []probedKey) error {
	var cmds []wire.Command
	var of []*probedKey
	for i := range found {
		if p := &found[i]; p.kind == "hash" && len(cmds) < 2*probeHashes {
			cmds, of = append(cmds, wire.Cmd("HLEN", p.key), wire.Cmd("HSCAN", p.key, 0, "COUNT", 1)),
				append(of, p)
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	replies := r.mux.Batch(ctx, cmds)
	for i, p := range of {
		fields, err := redis.Int64(replies[2*i].Value, replies[2*i].Err)
		scan, err2 := redis.Values(replies[2*i+1].Value, replies[2*i+1].Err)
		if err != nil || err2 != nil || fields > 8 || len(scan) != 2 {
			continue
		}
		pairs, _ := redis.Strings(scan[1], nil)
		if len(pairs) > 0 && isRedissonField(pairs[0]) {
			p.kind = probeRedisson
		}
	}
	return nil
}

// probeHashes is how many hashes of a slice are examined: the server sends a
// small hash as a whole.
const probeHashes = 50

// probeRedisson is the type that a Redisson lock gets here.
const probeRedisson = "Redisson hash"

// isRedissonField reports whether a field is a Redisson holder: a uuid, a colon
// and a thread number.
func isRedissonField(field string) bool {
	id, thread, ok := strings.Cut(field, ":")
	return ok && len(id) == 36 && strings.Count(id, "-") == 4 && thread != "" &&
		strings.Trim(thread, "0123456789") == ""
}
