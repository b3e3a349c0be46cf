// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// wrote names the command of an attempt whose reply did not come.
type wrote int

const (
	wroteSetnx wrote = iota
	wroteGetset
)

// oldGrant is what an old client knows of its lock: a local flag and the value
// it wrote.
type oldGrant struct {
	v     *verbatim
	k     twokey.Keys
	value string
	ends  time.Time // when its stamp ends, by its own clock
	term  backend.Term
	seat  int

	// The fields of an attempt whose outcome is unknown.
	wrote   wrote
	pending *wire.Pending
	wins    func(reply any) bool // reports whether a late reply means that the key was taken

	mu    sync.Mutex
	asked *wire.Pending // a DEL whose outcome is unknown
	over  bool          // a release was answered; the old client's flag is down
}

func (t *turn) grant() *oldGrant {
	return &oldGrant{
		v: t.v, k: t.k, value: t.value, ends: t.now.Add(t.lease), seat: t.seat,
		term: backend.Term{Sent: t.sent, TTL: t.lease},
	}
}

// Token returns the value on the key. Two grants may have the same value: old
// clients have nothing else.
func (g *oldGrant) Token() string      { return g.value }
func (g *oldGrant) Term() backend.Term { return g.term }

func (g *oldGrant) Extend(context.Context, time.Duration) (backend.Term, error) {
	return backend.Term{}, fmt.Errorf("%w: a verbatim %s lock ends after its lease", backend.ErrNotRenewable,
		g.v.Settings.Dialect.Name)
}

// Release does what the old client's release does. That includes the late DEL
// by a local flag, which deletes the key of whichever client holds it then; the
// error of such a release wraps backend.ErrLost. In a dialect that never
// releases, nil means that the key was left to run out.
//
// After an attempt of unknown outcome, Release is more careful than the old
// client: it sends GET, and DEL if the value is its own. These are two
// commands, and what another client writes in between is deleted.
func (g *oldGrant) Release(ctx context.Context) error {
	g.mu.Lock()
	over, asked := g.over, g.asked
	g.mu.Unlock()
	switch {
	case over:
		return twokey.Released(g.k)
	case g.pending != nil:
		return g.undo(ctx)
	case asked != nil:
		return g.askAgain(ctx, asked)
	}
	return g.release(ctx)
}

func (g *oldGrant) release(ctx context.Context) error {
	d := &g.v.Settings.Dialect
	seen := dialect.Nil()
	if d.ReleaseGets() {
		reply, err := g.v.Mux.Do(ctx, "GET", g.k.ArgL)
		if err != nil {
			return g.v.Trouble(g.k, "give back", err)
		}
		seen = asReply(reply)
	}
	now := g.v.Clock.Now()
	switch d.LegacyReleases(g.value, seen, now) {
	case dialect.ReleaseDeletes:
		// A client that has found its own value deletes no other client's,
		// however late it is.
		blind := d.Release != dialect.ReleaseValueOwn && (d.HasStamp() || d.ServerExpires())
		return g.del(ctx, blind && now.After(g.ends))
	case dialect.ReleaseCompares:
		reply, err := g.v.Mux.Do(ctx, "EVAL", compareLua, 1, g.k.L, g.value)
		if err != nil {
			return g.unanswered(err)
		}
		return g.deleted(twokey.Number(reply) == 1, false)
	case dialect.ReleaseFails:
		return g.end(g.lost("and an old client's release throws an exception on that", seen))
	}
	switch {
	case d.NeverReleases():
		return g.end(nil)
	case !d.ReleaseGets():
		return g.end(
			fmt.Errorf(
				"%w: key %q: the lease had ended, and after that an old client does not delete the key",
				backend.ErrLost, g.k.Name))
	}
	return g.end(g.lost("so it was left alone, as an old client does", seen))
}

// compareLua is the script of those old clients that release by a script.
const compareLua = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

func (g *oldGrant) del(ctx context.Context, late bool) error {
	reply, err := g.v.Mux.Do(ctx, "DEL", g.k.ArgL)
	if err != nil {
		return g.unanswered(err)
	}
	return g.deleted(twokey.Number(reply) == 1, late)
}

// unanswered notes that a DEL may have been executed.
func (g *oldGrant) unanswered(err error) error {
	if unknown, may := wire.MayBeSent(err); may {
		g.mu.Lock()
		g.asked = unknown.Pending
		g.mu.Unlock()
	}
	return g.v.Trouble(g.k, "give back", err)
}

// askAgain is a release after a DEL whose reply did not come. The old client's
// flag went down when that DEL was sent, so a second DEL by flag would be one
// too many.
func (g *oldGrant) askAgain(ctx context.Context, first *wire.Pending) error {
	reply, err, known := first.Wait(ctx)
	switch {
	case known && err == nil:
		return g.deleted(twokey.Number(reply) == 1, false)
	case !known && ctx.Err() != nil:
		return g.v.Trouble(g.k, "give back", err)
	case !known && g.v.Settings.Dialect.TwoWritersMaySameBytes():
		return g.v.Trouble(g.k, "give back", twokey.ErrUncertain)
	}
	return g.compareAndDel(ctx, true)
}

func (g *oldGrant) deleted(one, late bool) error {
	switch {
	case late:
		return g.end(fmt.Errorf("%w: key %q was deleted %v after its lease ended, as an old client does; another client may have held it",
			backend.ErrLost, g.k.Name, g.v.Clock.Now().Sub(g.ends).Round(time.Millisecond)))
	case !one:
		return g.end(g.lost("when it was to be deleted", dialect.Nil()))
	}
	return g.end(nil)
}

// undo releases what an attempt of unknown outcome may have taken.
func (g *oldGrant) undo(ctx context.Context) error {
	reply, err, known := g.pending.Wait(ctx)
	switch {
	case !known && ctx.Err() != nil:
		return g.v.Trouble(g.k, "give back", err)
	case known && (err != nil || !g.wins(reply)):
		return g.end(nil)
	case !known && g.wrote == wroteGetset:
		// Only its reply tells a client that won from one that overwrote the
		// winner's value. Deleting the winner's value would let a third client
		// in, so the value is left to run out, as an old client leaves it.
		return fmt.Errorf("legacy: key %q may keep this attempt's value until its lease ends: %w", g.k.Name,
			twokey.ErrUncertain)
	case g.v.Settings.Dialect.TwoWritersMaySameBytes() && !known:
		return fmt.Errorf("legacy: key %q may be held by this attempt, and its value does not say which client wrote it: %w", g.k.Name, twokey.ErrUncertain)
	}
	return g.compareAndDel(ctx, known)
}

// wonSetnx reports whether a late reply to SETNX or SET NX means that the key
// was taken.
func wonSetnx(reply any) bool {
	if n, ok := reply.(int64); ok {
		return n == 1
	}
	return reply != nil
}

// compareAndDel deletes the key if it holds this grant's value. certain says
// that no write of this grant is still under way, so that a missing value
// cannot still arrive.
func (g *oldGrant) compareAndDel(ctx context.Context, certain bool) error {
	reply, err := g.v.Mux.Do(ctx, "GET", g.k.ArgL)
	if err != nil {
		return g.v.Trouble(g.k, "give back", err)
	}
	if seen := asReply(reply); seen.Nil || seen.Value != g.value {
		if certain {
			return g.end(nil)
		}
		return g.v.Trouble(g.k, "give back", twokey.ErrUncertain)
	}
	if _, err := g.v.Mux.Do(ctx, "DEL", g.k.ArgL); err != nil {
		return g.unanswered(err)
	}
	return g.end(nil)
}

// lost returns what the release found, as an error.
func (g *oldGrant) lost(then string, seen dialect.Reply) error {
	if seen.Nil {
		return fmt.Errorf("%w: key %q was gone, %s", backend.ErrLost, g.k.Name, then)
	}
	return fmt.Errorf("%w: key %q held %.80q, %s", backend.ErrLost, g.k.Name, seen.Value, then)
}

func (g *oldGrant) end(err error) error {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	g.v.seats.leave(g.k.L, g.seat)
	if errors.Is(err, backend.ErrLost) {
		g.v.Count.Overwritten.Add(1)
	}
	return err
}

// Await watches the key with GET, which registers it; no script is needed.
func (v *verbatim) Await(ctx context.Context, key string, wake func()) (func(), bool, error) {
	k, err := v.Keys(key)
	if err != nil {
		return nil, false, err
	}
	cancel, err := v.Arm(ctx, k, wake, k.L)
	if err != nil {
		return nil, false, err
	}
	reply, err := v.Tracked(ctx, k, cancel, wire.Cmd("GET", k.L))
	if err != nil {
		return nil, false, err
	}
	return cancel, reply == nil, nil
}

// Watch watches the key of each grant. It can only see whether the key still
// has the same bytes.
func (v *verbatim) Watch(ctx context.Context, granted []backend.Grant,
	holders []interface{ Touched() }) []error {
	return v.WatchEach(granted, holders, func(g backend.Grant, touched func()) (func(), error) {
		return v.watchOne(ctx, g, touched)
	})
}

func (v *verbatim) watchOne(ctx context.Context, granted backend.Grant, touched func()) (func(), error) {
	g, ok := granted.(*oldGrant)
	if !ok {
		return nil, fmt.Errorf("legacy: the grant belongs to another backend (%T)", granted)
	}
	cancel, err := v.Arm(ctx, g.k, touched, g.k.L)
	if err != nil {
		return nil, err
	}
	reply, err := v.Tracked(ctx, g.k, cancel, wire.Cmd("GET", g.k.ArgL))
	if err != nil {
		return nil, err
	}
	if seen := asReply(reply); seen.Nil || seen.Value != g.value {
		cancel()
		return nil, g.lost("when this holder's value was to be watched", seen)
	}
	return cancel, nil
}
