// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// renewTogether is how many keys one script renews: less than a millisecond of
// the server's time.
const renewTogether = 256

// ExtendAll renews grants with a few messages, on the connection that user
// traffic does not delay.
func (b *engine) ExtendAll(ctx context.Context, grants []backend.Grant, ttl time.Duration) ([]backend.Term,
	[]error) {
	terms, errs := make([]backend.Term, len(grants)), make([]error, len(grants))
	ours := make([]*grant, len(grants))
	for i := range grants {
		g, ok := grants[i].(*grant)
		if !ok {
			return terms, slices.Repeat([]error{errForeignGrant}, len(grants))
		}
		if err := valid(g.key, ttl); err != nil {
			return terms, slices.Repeat([]error{err}, len(grants))
		}
		ours[i] = g
	}
	term := backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl}
	for i, err := range b.extend(ctx, ours, term) {
		terms[i], errs[i] = extended(term, err)
	}
	return terms, errs
}

func extended(t backend.Term, err error) (backend.Term, error) {
	if err != nil {
		return backend.Term{}, err
	}
	return t, nil
}

// extend renews grants by script, many in each.
func (b *engine) extend(ctx context.Context, grants []*grant, term backend.Term) []error {
	parts := slices.Collect(slices.Chunk(grants, b.together()))
	cmds := make([]wire.Command, len(parts))
	for i, part := range parts {
		cmds[i] = renewal(part, term.TTL)
	}
	errs, most := make([]error, 0, len(grants)), mostInspections
	for i, r := range b.own.Repeat(ctx, cmds) {
		if wire.IsCluster(r.Err) && !wire.IsTransient(r.Err) && len(parts[i]) > 1 {
			b.native.single.Store(true)
			errs = append(errs, b.extend(ctx, parts[i], term)...)
			continue
		}
		if len(parts[i]) > 1 && ofOneKey(r.Err) {
			errs = append(errs, b.extendOneByOne(ctx, parts[i], term)...)
			continue
		}
		now := backend.ReadClock(ctx)
		found, err := replies(r, len(parts[i]))
		for j, g := range parts[i] {
			switch {
			case err != nil:
				errs = append(errs, trouble("renew", g.key, err))
			case g.renewed(found[j], term, now):
				errs = append(errs, nil)
			default:
				errs = append(errs, most.gone(ctx, g))
			}
		}
	}
	b.watchOn(ctx, grants, errs)
	return errs
}

// ofOneKey reports that the server refused a script for a reason that may
// concern only one of its keys, such as a missing right.
func ofOneKey(err error) bool {
	var refusal redis.Error
	return errors.As(err, &refusal) && !wire.IsPassing(err)
}

// extendOneByOne renews each grant by a script of its own; the scripts travel
// together. One key without rights must not cost the other leases their
// renewal.
func (b *engine) extendOneByOne(ctx context.Context, grants []*grant, term backend.Term) []error {
	cmds := make([]wire.Command, len(grants))
	for i, g := range grants {
		cmds[i] = renewal([]*grant{g}, term.TTL)
	}
	errs, most := make([]error, len(grants)), mostInspections
	rs := b.own.Batch(ctx, cmds)
	now := backend.ReadClock(ctx)
	for i, g := range grants {
		found, err := replies(rs[i], 1)
		switch {
		case err != nil:
			errs[i] = trouble("renew", g.key, err)
		case !g.renewed(found[0], term, now):
			errs[i] = most.gone(ctx, g)
		}
	}
	return errs
}

// watchOn keeps the keys of renewed grants watched: the renewal's own write has
// made the server forget the watch. The look finds what another client did to a
// key in between.
func (b *engine) watchOn(ctx context.Context, grants []*grant, errs []error) {
	var watched []*grant
	var at []int
	for i, g := range grants {
		if errs[i] == nil && g.isWatched() {
			watched, at = append(watched, g), append(at, i)
		}
	}
	for i, err := range b.look(ctx, watched) {
		if errors.Is(err, backend.ErrLost) {
			// other trouble does not concern the renewal, which has succeeded
			errs[at[i]] = err
		}
	}
}

// look registers the keys of grants with the server, which then reports
// changes, and checks that each key still carries its grant's token.
//
// HAZARD: this is one command of many keys and no script. Up to Redis 7.0 every
// read inside a script registers all keys of the script. With 128 keys that
// takes 10 ms and more of the server's time.
func (b *engine) look(ctx context.Context, grants []*grant) []error {
	errs, most := make([]error, 0, len(grants)), mostInspections
	for part := range slices.Chunk(grants, renewTogether) {
		var values []any
		if b.oneKey() {
			values = b.lookOneByOne(ctx, part)
		} else {
			values = b.lookTogether(ctx, part)
		}
		for i, g := range part {
			switch value := values[i].(type) {
			case error:
				errs = append(errs, value)
			case []byte:
				if string(value) == g.token {
					errs = append(errs, nil)
					continue
				}
				errs = append(errs, most.gone(ctx, g))
			default:
				errs = append(errs, most.gone(ctx, g))
			}
		}
	}
	return errs
}

// lookTogether reads all keys by one command.
func (b *engine) lookTogether(ctx context.Context, grants []*grant) []any {
	args := make([]any, len(grants))
	for i, g := range grants {
		args[i] = g.key
	}
	cmd := wire.Cmd("MGET", args...)
	reply, err := b.own.Tracker().Do(ctx, cmd)
	if wire.IsTransient(err) {
		reply, err = b.own.Tracker().Do(ctx, cmd)
	}
	values, err := replies(wire.Reply{Value: reply, Err: err}, len(grants))
	var refusal redis.Error
	switch {
	case errors.As(err, &refusal) && !wire.IsTransient(err):
		return b.lookOneByOne(ctx, grants)
	case err != nil:
		return slices.Repeat([]any{trouble("watch", grants[0].key, err)}, len(grants))
	}
	return values
}

// lookOneByOne reads each key by a command of its own, for users who may not
// MGET and for keys on different nodes.
func (b *engine) lookOneByOne(ctx context.Context, grants []*grant) []any {
	cmds := make([]wire.Command, len(grants))
	for i, g := range grants {
		cmds[i] = ours(g).Tracked()
	}
	values := make([]any, len(grants))
	for i, r := range b.own.Repeat(ctx, cmds) {
		if values[i] = r.Value; r.Err != nil && !wire.IsWrongType(r.Err) {
			values[i] = trouble("watch", grants[i].key, r.Err)
		}
	}
	return values
}

// oneKey reports that a command may touch only one key: those of a cluster lie
// in different slots.
func (b *engine) oneKey() bool { return b.cluster != nil || b.native.single.Load() }

// together returns how many keys one command may touch.
func (b *engine) together() int {
	if b.oneKey() {
		return 1
	}
	return renewTogether
}

func renewal(grants []*grant, ttl time.Duration) wire.Command {
	args := make([]any, 0, 2*len(grants)+1)
	for _, g := range grants {
		args = append(args, g.key)
	}
	args = append(args, millis(ttl))
	for _, g := range grants {
		args = append(args, g.token)
	}
	return renewScripts.of(len(grants)).Cmd(args...)
}

func replies(r wire.Reply, n int) ([]any, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	found, ok := r.Value.([]any)
	if !ok || len(found) != n {
		return nil, errOddReply
	}
	return found, nil
}

// ours returns the command that reads enough of a key to compare it with g's
// token.
func ours(g *grant) wire.Command { return wire.Cmd("GETRANGE", g.key, 0, len(g.token)) }

// renewed applies what the server said of one key: the PTTL before the renewal,
// or notOurs. It reports whether the grant has the key.
func (g *grant) renewed(found any, term backend.Term, now backend.Instant) (ours bool) {
	left, known := found.(int64)
	if left == notOurs {
		return false
	}
	if known {
		g.touched(left, now)
	}
	g.written(term)
	return true
}

// notOurs is the renew script's answer for a key that does not carry the token.
const notOurs = -3

// touched compares a key's PTTL, read before now, with what it should be. It
// records changes by other clients.
func (g *grant) touched(pttl int64, now backend.Instant) {
	should, ttl := g.left(now)
	left := time.Duration(pttl) * time.Millisecond
	if pttl < 0 || left > ttl+slack(ttl) || g.shortened(pttl, now) {
		g.b.habits.add(g.key, habitTouched(left, should))
	}
}

// shortened reports whether another client made a PTTL, read before now,
// shorter than it should be.
func (g *grant) shortened(pttl int64, now backend.Instant) bool {
	should, ttl := g.left(now)
	return pttl >= 0 && time.Duration(pttl)*time.Millisecond < should-slack(ttl)
}

// touchSlack is how far a PTTL may differ from the expected one before that
// counts as a change: the two clocks run at slightly different rates.
const touchSlack = time.Second

func slack(ttl time.Duration) time.Duration { return min(touchSlack, ttl/8) }
