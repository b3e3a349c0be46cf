// SPDX-License-Identifier: Apache-2.0

// Package keys reads the keys of a server, for everything that examines locks:
// probes, doctor, the surveys of a migration. It goes through the keyspace in
// slices and reads the keys of a slice in one message, with SCAN and reads
// alone: it changes nothing.
//
// It does not say what a value means; package reading does.
package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// slice is how many keys the server goes through in one SCAN, and how many are
// then read together. During either, for some hundred microseconds, the server
// serves no other client.
const slice = 500

// Longest is how much of a value is read, in bytes. No client of a lock writes
// more, and a value of megabytes must not be sent or stored.
const Longest = 1024

// Key is one key and what was read of it.
type Key struct {
	Name string
	// Type is the type as Redis names it: "string" for keys that were read, and
	// empty for others where [Reader].Types is not set.
	Type   string
	Value  string // the first bytes of a string, at most Longest
	Size   int64  // the length of the whole string, in bytes
	HasTTL bool
	TTL    time.Duration
	Now    time.Time // the server's clock just before the key was read
	Denied error     // why this user may not read the key; nil: it was read
}

// Whole reports whether Value is the whole string.
func (k *Key) Whole() bool { return k.Size == int64(len(k.Value)) }

// Reader reads the keys of a scope.
type Reader struct {
	Mux   *wire.Mux
	Scope scope.Scope
	// Want, if not nil, says which keys of the scope are read, by their names.
	Want func(name string) bool
	// Types asks for the types of keys that are no strings, and for the sizes
	// of values that are longer than Longest.
	Types bool
	// Clock measures the work. With Pauses, the server gets a pause after each
	// slice.
	Clock  clocks.Clock
	Pauses bool
	// Node says that the server is a node of a cluster. A key whose slot is
	// moving counts as gone.
	Node bool

	Looks   int64         // keys read so far
	Work    time.Duration // total time from sending to the last reply
	Slowest time.Duration // the slowest slice
}

// Names calls visit with the names that match a pattern of SCAN, slice by
// slice. SCAN may return a name twice. more says that this is not the last
// slice. With kind, servers since Redis 6 leave out keys of another type.
func Names(ctx context.Context, mux *wire.Mux, pattern, kind string,
	visit func(names []string, more bool) error) error {
	args := []any{"MATCH", pattern, "COUNT", slice}
	if pattern == "*" {
		args = args[2:]
	}
	for cursor := "0"; ; {
		asked := args
		if kind != "" {
			asked = append(slices.Clip(args), "TYPE", kind)
		}
		names, next, err := mux.Scan(ctx, cursor, asked...)
		var refused redis.Error
		if kind != "" && errors.As(err, &refused) && strings.Contains(string(refused), "syntax") {
			kind = ""
			continue
		}
		if err != nil {
			return fmt.Errorf("listing keys by SCAN: %w", err)
		}
		cursor = next
		if err := visit(names, cursor != "0"); err != nil || cursor == "0" {
			return err
		}
	}
}

// Each calls visit for every key that the scope covers, and sliced after each
// slice; its error ends the scan. It may visit a key twice. visit must not keep
// its argument.
func (r *Reader) Each(ctx context.Context, visit func(*Key), sliced func() error) error {
	begun := r.Clock.Elapsed()
	return Names(ctx, r.Mux, r.Scope.Pattern(), "", func(names []string, more bool) error {
		names = slices.DeleteFunc(names, func(name string) bool {
			return !r.Scope.Covers(r.Scope.Database(), name) || r.Want != nil && !r.Want(name)
		})
		if err := r.read(ctx, names, visit); err != nil {
			return err
		}
		took := r.Clock.Elapsed() - begun
		r.Work, r.Slowest = r.Work+took, max(r.Slowest, took)
		if err := sliced(); err != nil {
			return err
		}
		// The server gets a pause as long as the slice took, 50 ms at most:
		// reading all keys is never urgent.
		if more && r.Pauses {
			select {
			case <-r.Clock.After(min(took, 50*time.Millisecond)):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		begun = r.Clock.Elapsed()
		return nil
	})
}

// read reads the keys: two commands per key in one message, then further
// questions about keys that are no strings or are long.
func (r *Reader) read(ctx context.Context, names []string, visit func(*Key)) error {
	if len(names) == 0 {
		return nil
	}
	cmds := make([]wire.Command, 0, 1+2*len(names))
	cmds = append(cmds, wire.Cmd("TIME"))
	for _, name := range names {
		cmds = append(cmds, wire.Cmd("GETRANGE", name, 0, Longest-1), wire.Cmd("PTTL", name))
	}
	replies := r.Mux.Batch(ctx, cmds)
	now, err := wire.Time(replies[0].Value, replies[0].Err)
	if err != nil {
		return fmt.Errorf("asking the server for its TIME: %w", err)
	}
	found := make([]Key, 0, len(names))
	for i, name := range names {
		k := Key{Name: name, Type: "string", Now: now}
		gone, err := k.take(replies[1+2*i], replies[2+2*i])
		switch {
		case r.Node && wire.IsRedirect(err):
		case err != nil:
			return fmt.Errorf("reading keys by GETRANGE and PTTL: %w", err)
		case !gone:
			found = append(found, k)
		}
	}
	if r.Types {
		if err := r.ask(ctx, found); err != nil {
			return err
		}
	}
	for i := range found {
		r.Looks++
		visit(&found[i])
	}
	return nil
}

// take fills k from the two replies. gone is true if the key has vanished
// since.
func (k *Key) take(value, ttl wire.Reply) (gone bool, err error) {
	switch {
	case wire.IsWrongType(value.Err):
		k.Type = ""
	case wire.IsNoPerm(value.Err):
		k.Denied, k.Type = value.Err, ""
		return false, nil
	case value.Err != nil:
		return false, value.Err
	default:
		k.Value, _ = redis.String(value.Value, nil)
		k.Size = int64(len(k.Value))
	}
	left, err := redis.Int64(ttl.Value, ttl.Err)
	switch {
	case wire.IsNoPerm(err):
		// The value was read but its TTL is unknown: treat it as not read.
		k.Denied, k.Type = err, ""
		return false, nil
	case err != nil:
		return false, err
	case left == -2:
		return true, nil
	case left >= 0:
		k.HasTTL, k.TTL = true, time.Duration(left)*time.Millisecond
	}
	return false, nil
}

// ask fills in the types of keys that are no strings, and the sizes of values
// longer than what was read.
func (r *Reader) ask(ctx context.Context, found []Key) error {
	var cmds []wire.Command
	var of []*Key
	for i := range found {
		k := &found[i]
		switch {
		case k.Denied != nil:
		case k.Type == "":
			cmds, of = append(cmds, wire.Cmd("TYPE", k.Name)), append(of, k)
		case k.Size == Longest:
			cmds, of = append(cmds, wire.Cmd("STRLEN", k.Name)), append(of, k)
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	for i, reply := range r.Mux.Batch(ctx, cmds) {
		var refused redis.Error
		if errors.As(reply.Err, &refused) {
			of[i].Type = cmp.Or(of[i].Type, "unknown")
			continue // the key changed since, or this user may not ask; the scan goes on
		}
		if reply.Err != nil {
			return fmt.Errorf("asking for the types and sizes of keys: %w", reply.Err)
		}
		if n, ok := reply.Value.(int64); ok {
			of[i].Size = n
			continue
		}
		of[i].Type, _ = redis.String(reply.Value, nil)
	}
	r.lookIntoHashes(ctx, found)
	return nil
}

// lookIntoHashes tells a Redisson lock, which is a hash with one field per
// holder, from other hashes.
func (r *Reader) lookIntoHashes(ctx context.Context, found []Key) {
	var cmds []wire.Command
	var of []*Key
	for i := range found {
		if k := &found[i]; k.Type == "hash" && len(of) < mostHashes {
			cmds, of = append(cmds, wire.Cmd("HLEN", k.Name), wire.Cmd("HSCAN", k.Name, 0, "COUNT", 1)),
				append(of, k)
		}
	}
	if len(cmds) == 0 {
		return
	}
	replies := r.Mux.Batch(ctx, cmds)
	for i, k := range of {
		fields, err := redis.Int64(replies[2*i].Value, replies[2*i].Err)
		scan, err2 := redis.Values(replies[2*i+1].Value, replies[2*i+1].Err)
		if err != nil || err2 != nil || fields > 8 || len(scan) != 2 {
			continue
		}
		pairs, _ := redis.Strings(scan[1], nil)
		if len(pairs) > 0 && isRedissonField(pairs[0]) {
			k.Type = Redisson
		}
	}
}

// mostHashes is how many hashes of a slice are examined: the server sends a
// small hash as a whole.
const mostHashes = 50

// Redisson is the type that a Redisson lock gets here.
const Redisson = "Redisson hash"

// isRedissonField reports whether a field is a Redisson holder: a uuid, a colon
// and a thread number.
func isRedissonField(field string) bool {
	id, thread, ok := strings.Cut(field, ":")
	return ok && len(id) == 36 && strings.Count(id, "-") == 4 && thread != "" &&
		strings.Trim(thread, "0123456789") == ""
}
