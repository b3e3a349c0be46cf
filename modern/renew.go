package modern

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
)

// renewTogether is how many keys one script renews: less than a millisecond of
// the server's time.
const renewTogether = 256

// ExtendAll renews grants with a few messages, on the connection that user
// traffic does not delay.
func (b *Backend) ExtendAll(ctx context.Context, grants []lock.Grant, ttl time.Duration) ([]lock.Term,
	[]error) {
	terms, errs := make([]lock.Term, len(grants)), make([]error, len(grants))
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
	term := lock.Term{Sent: lock.Mark(ctx), TTL: ttl}
	if len(ours) == 1 && b.native.sets.Load() == byIfeq {
		if err, done := b.extendNatively(ctx, ours[0], term); done {
			terms[0], errs[0] = extended(term, err)
			return terms, errs
		}
	}
	for i, err := range b.extend(ctx, ours, term) {
		terms[i], errs[i] = extended(term, err)
	}
	if len(ours) == 1 && errs[0] == nil {
		b.probe()
	}
	return terms, errs
}

func extended(t lock.Term, err error) (lock.Term, error) {
	if err != nil {
		return lock.Term{}, err
	}
	return t, nil
}

// extend renews grants by script, many in each.
func (b *Backend) extend(ctx context.Context, grants []*grant, term lock.Term) []error {
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
		now := lock.Mark(ctx)
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
func (b *Backend) extendOneByOne(ctx context.Context, grants []*grant, term lock.Term) []error {
	cmds := make([]wire.Command, len(grants))
	for i, g := range grants {
		cmds[i] = renewal([]*grant{g}, term.TTL)
	}
	errs, most := make([]error, len(grants)), mostInspections
	rs := b.own.Batch(ctx, cmds)
	now := lock.Mark(ctx)
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
func (b *Backend) watchOn(ctx context.Context, grants []*grant, errs []error) {
	var watched []*grant
	var at []int
	for i, g := range grants {
		if errs[i] == nil && g.isWatched() {
			watched, at = append(watched, g), append(at, i)
		}
	}
	for i, err := range b.look(ctx, watched) {
		if errors.Is(err, lock.ErrLost) { // other trouble does not concern the renewal, which has succeeded
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
func (b *Backend) look(ctx context.Context, grants []*grant) []error {
	errs, most := make([]error, 0, len(grants)), mostInspections
	for part := range slices.Chunk(grants, b.together()) {
		args := make([]any, len(part))
		for i, g := range part {
			args[i] = g.key
		}
		cmd := wire.Cmd("MGET", args...)
		reply, err := b.own.Tracker().Do(ctx, cmd)
		if wire.IsTransient(err) {
			reply, err = b.own.Tracker().Do(ctx, cmd)
		}
		values, err := replies(wire.Reply{Value: reply, Err: err}, len(part))
		var refusal redis.Error
		switch {
		case errors.As(err, &refusal) && !wire.IsTransient(err):
			values = b.lookOneByOne(ctx, part)
		case err != nil:
			values = slices.Repeat([]any{trouble("watch", part[0].key, err)}, len(part))
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

// lookOneByOne reads each key by a command of its own, for users who may not
// MGET and for keys on different nodes.
func (b *Backend) lookOneByOne(ctx context.Context, grants []*grant) []any {
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

// together returns how many keys one command may touch.
func (b *Backend) together() int {
	if b.native.single.Load() {
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

// extendNatively renews one key by the server's own command. done is false if
// the server refused that command. The PTTL before the command shows whether
// another client changed the TTL. The look after it keeps the key watched and
// finds a theft between the two.
func (b *Backend) extendNatively(ctx context.Context, g *grant, term lock.Term) (err error, done bool) {
	look := ours(g)
	look.Track = g.isWatched()
	rs := b.own.Repeat(ctx, []wire.Command{
		wire.Cmd("PTTL", g.key), ifeq(g.key, g.token, g.token, millis(term.TTL)), look})
	now := lock.Mark(ctx)
	switch err := rs[1].Err; {
	case distrust(&b.native.sets, byIfeq, err), wire.IsOOM(err):
		// A server without memory refuses SET before it looks at it, which says
		// nothing about IFEQ. The script's PEXPIRE needs no memory: a full
		// server costs no holder its lease.
		return nil, false
	case notAString(err):
		return g.gone(ctx), true
	case err != nil:
		return trouble("renew", g.key, err), true
	}
	seen, _ := rs[2].Value.([]byte)
	if rs[1].Value == nil || rs[2].Err == nil && string(seen) != g.token {
		return g.gone(ctx), true
	}
	g.renewed(rs[0].Value, term, now) // a PTTL is never notOurs
	return nil, true
}

// ours returns the command that reads enough of a key to compare it with g's
// token.
func ours(g *grant) wire.Command { return wire.Cmd("GETRANGE", g.key, 0, len(g.token)) }

// renewed applies what the server said of one key: the PTTL before the renewal,
// or notOurs. It reports whether the grant has the key.
func (g *grant) renewed(found any, term lock.Term, now lock.Instant) (ours bool) {
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
func (g *grant) touched(pttl int64, now lock.Instant) {
	should, ttl := g.left(now)
	left := time.Duration(pttl) * time.Millisecond
	if pttl < 0 || left > ttl+slack(ttl) || g.shortened(pttl, now) {
		g.b.habits.add(g.key, habitTouched(left, should))
	}
}

// shortened reports whether another client made a PTTL, read before now,
// shorter than it should be.
func (g *grant) shortened(pttl int64, now lock.Instant) bool {
	should, ttl := g.left(now)
	return pttl >= 0 && time.Duration(pttl)*time.Millisecond < should-slack(ttl)
}

// touchSlack is how far a PTTL may differ from the expected one before that
// counts as a change: the two clocks run at slightly different rates.
const touchSlack = time.Second

func slack(ttl time.Duration) time.Duration { return min(touchSlack, ttl/8) }
