// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// verbatim behaves as an old client: its commands, its order, its decisions.
// The dialect decides each step; here is what all dialects share.
type verbatim struct {
	*twokey.Server
	seats seats
}

func newVerbatim(s *twokey.Server) *verbatim {
	v := &verbatim{Server: s}
	v.seats.init(s.Settings.Dialect)
	return v
}

// stamp returns the bytes that the old client writes when its clock shows now.
func (v *verbatim) stamp(now time.Time, lease time.Duration, id string) (string, error) {
	text, err := v.Settings.Dialect.Stamp(now, lease, id)
	if err == nil {
		text, err = v.Settings.Dialect.EncodeValue(text)
	}
	if err != nil {
		return "", fmt.Errorf("legacy: %s: %w", v.Settings.Dialect.Name, err)
	}
	return text, nil
}

// turn is one attempt of the old client.
type turn struct {
	v     *verbatim
	k     twokey.Keys
	lease time.Duration
	id    string
	seat  int

	now   time.Time       // the clock reading that value was made from
	sent  backend.Instant // when that reading was made; trust counts from it, as the stamp does
	value string          // the bytes to write
}

// Try makes one attempt of the old client: at most SETNX, GET and GETSET, and
// what its dialect sends besides. Where the old client would throw an
// exception, the error is a [*ThrownError].
func (v *verbatim) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	k, err := v.Keys(key)
	if err != nil {
		return nil, err
	}
	if _, err := v.setOptions(ttl); err != nil {
		return nil, fmt.Errorf("key %q: %w", key, err)
	}
	t := &turn{v: v, k: k, lease: ttl}
	t.id, t.seat = v.seats.take(k.L)
	g, err := t.run(ctx)
	if err == nil {
		v.Count.Acquired.Add(1)
		return g, nil
	}
	var unsure *backend.UnsureError
	if errors.As(err, &unsure) {
		v.Count.Unsure.Add(1)
	} else {
		v.seats.leave(k.L, t.seat)
	}
	return nil, err
}

// read reads the clock and makes the value, before the command that writes it,
// as the old client does.
func (t *turn) read(ctx context.Context) (err error) {
	t.sent, t.now = backend.ReadClock(ctx), t.v.Clock.Now()
	t.value, err = t.v.stamp(t.now, t.lease, t.id)
	return err
}

func (t *turn) run(ctx context.Context) (*oldGrant, error) {
	d := &t.v.Settings.Dialect
	for {
		if err := t.read(ctx); err != nil {
			return nil, err
		}
		if g, err := t.setnx(ctx); g != nil || err != nil {
			return g, err
		}
		if !d.HasTakeover() {
			return nil, t.held(dialect.Nil())
		}
		seen, err := t.get(ctx)
		if err != nil {
			return nil, err
		}
		switch d.LegacyNext(seen, t.id, t.judging()) {
		case dialect.StepGetset:
			return t.getset(ctx, seen)
		case dialect.StepSetnxOnce:
			if g, err := t.setnx(ctx); g != nil || err != nil {
				return g, err
			}
			return nil, t.held(seen)
		case dialect.StepAgain:
			if seen.Nil {
				continue // at once, as the old client does: another client has just released the key
			}
			// A value that the client's language takes for nil makes the old
			// client retry without a pause, for ever. Copying that would help
			// no program, so here the attempt ends and the pause of a held key
			// follows.
			return nil, t.held(seen)
		case dialect.StepGiveUp:
			return nil, fmt.Errorf("%w: %w", t.held(seen), backend.ErrNoRetry)
		case dialect.StepFail:
			return nil, t.thrown("GET", seen)
		default:
			return nil, t.held(seen)
		}
	}
}

// judging returns the clock reading that this client judges by.
func (t *turn) judging() time.Time {
	if t.v.Settings.Dialect.JudgesAnew {
		return t.v.Clock.Now()
	}
	return t.now
}

// setnx sends the acquiring command and, in dialects that do so, EXPIRE after
// it, even when another client won.
func (t *turn) setnx(ctx context.Context) (*oldGrant, error) {
	d := &t.v.Settings.Dialect
	won, err := t.first(ctx)
	if err != nil {
		return nil, t.failed("SETNX", err, wroteSetnx, wonSetnx)
	}
	expires := d.KeyTTL == dialect.TTLEverybody ||
		won && (d.KeyTTL == dialect.TTLAfterSetnx || d.KeyTTL == dialect.TTLWinExpire)
	if !won {
		if expires {
			_, err = t.v.Mux.Do(ctx, "EXPIRE", t.k.ArgL, wholeSeconds(t.lease))
		}
		return nil, t.certain("EXPIRE", err)
	}
	return t.won(ctx, expires)
}

func (t *turn) first(ctx context.Context) (won bool, err error) {
	if t.v.Settings.Dialect.Acquire == dialect.AcquireSetnx {
		reply, err := t.v.Mux.Do(ctx, "SETNX", t.k.ArgL, t.value)
		return twokey.Number(reply) == 1, err
	}
	options, err := t.v.setOptions(t.lease)
	if err != nil {
		return false, err
	}
	reply, err := t.v.Mux.Do(ctx, "SET", append([]any{t.k.ArgL, t.value}, options...)...)
	return reply != nil, err
}

func (t *turn) get(ctx context.Context) (dialect.Reply, error) {
	reply, err := t.v.Mux.Do(ctx, "GET", t.k.ArgL)
	return asReply(reply), t.certain("GET", err)
}

func asReply(v any) dialect.Reply {
	if v == nil {
		return dialect.Nil()
	}
	return dialect.Text(twokey.Text(v))
}

// getset overwrites a value that counts as expired. The stamp is the SETNX's,
// two round trips old, except where the old client reads its clock again.
func (t *turn) getset(ctx context.Context, seen dialect.Reply) (*oldGrant, error) {
	d := &t.v.Settings.Dialect
	if d.Restamp {
		if err := t.read(ctx); err != nil {
			return nil, err
		}
	}
	reply, err := t.v.Mux.Do(ctx, "GETSET", t.k.ArgL, t.value)
	if err != nil {
		judged := t.judging()
		return nil, t.failed("GETSET", err, wroteGetset, func(late any) bool {
			return d.LegacyWins(asReply(late), seen, judged) == dialect.Won
		})
	}
	old := asReply(reply)
	switch d.LegacyWins(old, seen, t.judging()) {
	case dialect.Won:
		t.v.Count.Takeovers.Add(1)
		return t.won(ctx, d.KeyTTL == dialect.TTLGetsetExpire || d.KeyTTL == dialect.TTLWinExpire ||
			d.KeyTTL == dialect.TTLEverybody)
	case dialect.Threw:
		return nil, t.thrown("GETSET", old)
	}
	// The former value is overwritten all the same: the clobber that Hardened
	// avoids.
	return nil, t.held(old)
}

func (t *turn) won(ctx context.Context, expires bool) (*oldGrant, error) {
	g := t.grant()
	if !expires {
		return g, nil
	}
	if _, err := t.v.Mux.Do(ctx, "EXPIRE", t.k.ArgL, wholeSeconds(t.lease)); err != nil {
		// The key is certainly taken, and has no TTL: it must be released.
		return nil, &backend.UnsureError{Grant: g, Err: t.v.Trouble(t.k, "EXPIRE", err)}
	}
	return g, nil
}

// failed returns the error of a command that may have taken the key.
func (t *turn) failed(what string, err error, w wrote, wins func(late any) bool) error {
	unknown, may := wire.MayBeSent(err)
	err = t.certain(what, err)
	if !may {
		return err
	}
	g := t.grant()
	g.wrote, g.pending, g.wins = w, unknown.Pending, wins
	return &backend.UnsureError{Grant: g, Err: err}
}

// certain returns the error of a command that takes nothing.
func (t *turn) certain(what string, err error) error {
	if err == nil {
		return nil
	}
	return t.v.Trouble(t.k, what+" of", err)
}

func (t *turn) held(seen dialect.Reply) error {
	e := &backend.HeldError{Key: t.k.Name, Protocol: t.v.Settings.Dialect.Name}
	if stamp, err := t.v.Settings.Dialect.Decode(seen.Value, t.now); err == nil && !seen.Nil {
		e.Owner, e.Stamp = stamp.ID, stamp.Expiry
	}
	return e
}
