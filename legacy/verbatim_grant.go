package legacy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// wrote is the command of an attempt whose reply did not come.
type wrote int

const (
	wroteSetnx wrote = iota
	wroteGetset
)

// oldGrant is what the old client believes to hold: a local flag and the value it wrote.
type oldGrant struct {
	v     *verbatim
	k     keys
	value string
	ends  time.Time // of its own stamp, by its own clock
	term  lock.Term
	seat  int

	// Of an attempt whose outcome is not known.
	wrote   wrote
	pending *wire.Pending
	wins    func(reply any) bool // reads the late reply

	mu    sync.Mutex
	asked *wire.Pending // a DEL whose outcome is not known
	over  bool          // a release was answered; the old client's flag is down
}

func (t *turn) grant() *oldGrant {
	return &oldGrant{
		v: t.v, k: t.k, value: t.value, ends: t.now.Add(t.lease), seat: t.seat,
		term: lock.Term{Sent: t.sent, TTL: t.lease},
	}
}

// Token is the value on the key. Two grants may have the same: it is all that the old clients have.
func (g *oldGrant) Token() string   { return g.value }
func (g *oldGrant) Term() lock.Term { return g.term }

func (g *oldGrant) Extend(context.Context, time.Duration) (lock.Term, error) {
	return lock.Term{}, fmt.Errorf("%w: a verbatim %s lock ends after its lease", lock.ErrNotRenewable, g.v.dialect.Name)
}

// Release does what the old client's release does, the late DEL by a local flag included, which then
// frees whoever holds the key: the error beside it wraps lock.ErrLost. A nil error in a dialect that
// never releases means that the key was left to run out.
//
// An attempt whose outcome is not known is undone with more care than the old client takes: GET, and
// DEL if the value is its own. These are two commands, and what is written in between is deleted.
func (g *oldGrant) Release(ctx context.Context) error {
	g.mu.Lock()
	over, asked := g.over, g.asked
	g.mu.Unlock()
	switch {
	case over:
		return released(g.k)
	case g.pending != nil:
		return g.undo(ctx)
	case asked != nil:
		return g.askAgain(ctx, asked)
	}
	return g.release(ctx)
}

func (g *oldGrant) release(ctx context.Context) error {
	d := &g.v.dialect
	seen := dialect.Nil()
	if d.ReleaseGets() {
		reply, err := g.v.mux.Do(ctx, "GET", g.k.argL)
		if err != nil {
			return trouble(g.k, "give back", err)
		}
		seen = asReply(reply)
	}
	now := g.v.clock.Now()
	switch d.LegacyReleases(g.value, seen, now) {
	case dialect.ReleaseDeletes:
		// A client that found its own value deletes no other's, however late.
		blind := d.Release != dialect.ReleaseValueOwn && (d.HasStamp() || d.ServerExpires())
		return g.del(ctx, blind && now.After(g.ends))
	case dialect.ReleaseCompares:
		reply, err := g.v.mux.Do(ctx, "EVAL", compareLua, 1, g.k.l, g.value)
		if err != nil {
			return g.unanswered(err)
		}
		return g.deleted(number(reply) == 1, false)
	case dialect.ReleaseFails:
		return g.end(g.lost("where the old client's release throws", seen))
	}
	switch {
	case d.NeverReleases():
		return g.end(nil)
	case !d.ReleaseGets():
		return g.end(fmt.Errorf("%w: key %q: the lease was over, so the old client leaves the key alone", lock.ErrLost, g.k.name))
	}
	return g.end(g.lost("so the old client leaves it alone", seen))
}

// compareLua is what the clients send that release by a script.
const compareLua = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

func (g *oldGrant) del(ctx context.Context, late bool) error {
	reply, err := g.v.mux.Do(ctx, "DEL", g.k.argL)
	if err != nil {
		return g.unanswered(err)
	}
	return g.deleted(number(reply) == 1, late)
}

// unanswered notes that a DEL may have been executed.
func (g *oldGrant) unanswered(err error) error {
	if unknown, may := wire.MayBeSent(err); may {
		g.mu.Lock()
		g.asked = unknown.Pending
		g.mu.Unlock()
	}
	return trouble(g.k, "give back", err)
}

// askAgain is a release after a DEL whose reply did not come. The old client's flag was down when
// that DEL was sent; a second one by flag would be one too many.
func (g *oldGrant) askAgain(ctx context.Context, first *wire.Pending) error {
	reply, err, known := first.Wait(ctx)
	switch {
	case known && err == nil:
		return g.deleted(number(reply) == 1, false)
	case !known && ctx.Err() != nil:
		return trouble(g.k, "give back", err)
	case !known && g.v.dialect.TwoWritersMaySameBytes():
		return trouble(g.k, "give back", errUncertain)
	}
	return g.compareAndDel(ctx, true)
}

func (g *oldGrant) deleted(one, late bool) error {
	switch {
	case late:
		return g.end(fmt.Errorf("%w: key %q was deleted %v after the lease was over, as the old client does, whoever held it by then",
			lock.ErrLost, g.k.name, g.v.clock.Now().Sub(g.ends).Round(time.Millisecond)))
	case !one:
		return g.end(g.lost("when it was to be deleted", dialect.Nil()))
	}
	return g.end(nil)
}

// undo gives back what may have been taken.
func (g *oldGrant) undo(ctx context.Context) error {
	reply, err, known := g.pending.Wait(ctx)
	switch {
	case !known && ctx.Err() != nil:
		return trouble(g.k, "give back", err)
	case known && (err != nil || !g.wins(reply)):
		return g.end(nil)
	case !known && g.wrote == wroteGetset:
		// Its reply alone tells a winner from one who overwrote the winner's value. To delete that
		// would let a third in beside the winner, so it is left to run out, as the old client's is.
		return fmt.Errorf("legacy: key %q may hold our value until its lease is over: %w", g.k.name, errUncertain)
	case g.v.dialect.TwoWritersMaySameBytes() && !known:
		return fmt.Errorf("legacy: key %q may be held by us, and its value tells nobody apart: %w", g.k.name, errUncertain)
	}
	return g.compareAndDel(ctx, known)
}

// wonSetnx reads the late reply to SETNX or SET NX.
func wonSetnx(reply any) bool {
	if n, ok := reply.(int64); ok {
		return n == 1
	}
	return reply != nil
}

// compareAndDel deletes the key if it holds our value. certain says that no write of ours is still
// under way, so that what is not there will not come.
func (g *oldGrant) compareAndDel(ctx context.Context, certain bool) error {
	reply, err := g.v.mux.Do(ctx, "GET", g.k.argL)
	if err != nil {
		return trouble(g.k, "give back", err)
	}
	if seen := asReply(reply); seen.Nil || seen.Value != g.value {
		if certain {
			return g.end(nil)
		}
		return trouble(g.k, "give back", errUncertain)
	}
	if _, err := g.v.mux.Do(ctx, "DEL", g.k.argL); err != nil {
		return g.unanswered(err)
	}
	return g.end(nil)
}

// lost is what the release found, as an error.
func (g *oldGrant) lost(then string, seen dialect.Reply) error {
	if seen.Nil {
		return fmt.Errorf("%w: key %q was gone %s", lock.ErrLost, g.k.name, then)
	}
	return fmt.Errorf("%w: key %q held %.80q, %s", lock.ErrLost, g.k.name, seen.Value, then)
}

func (g *oldGrant) end(err error) error {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	g.v.seats.leave(g.k.l, g.seat)
	if errors.Is(err, lock.ErrLost) {
		g.v.count.lost.Add(1)
	}
	return err
}

// Await watches the key of an old client by reading it; no script is needed for that.
func (v *verbatim) Await(ctx context.Context, key string, wake func()) (func(), bool, error) {
	k, err := v.keys(key)
	if err != nil {
		return nil, false, err
	}
	cancel, err := v.arm(ctx, k, false, wake)
	if err != nil {
		return nil, false, err
	}
	reply, err := v.tracked(ctx, k, cancel, wire.Cmd("GET", k.l))
	if err != nil {
		return nil, false, err
	}
	return cancel, reply == nil, nil
}

// Watch watches the key of each grant. That it still carries the same bytes is all that can be seen.
func (v *verbatim) Watch(ctx context.Context, granted []lock.Grant, holders []interface{ Touched() }) []error {
	return v.armed.Watch(granted, holders, func(g lock.Grant, touched func()) (func(), error) {
		return v.watchOne(ctx, g, touched)
	})
}

func (v *verbatim) watchOne(ctx context.Context, granted lock.Grant, touched func()) (func(), error) {
	g, ok := granted.(*oldGrant)
	if !ok {
		return nil, fmt.Errorf("legacy: a grant of another backend (%T)", granted)
	}
	cancel, err := v.arm(ctx, g.k, false, touched)
	if err != nil {
		return nil, err
	}
	reply, err := v.tracked(ctx, g.k, cancel, wire.Cmd("GET", g.k.argL))
	if err != nil {
		return nil, err
	}
	if seen := asReply(reply); seen.Nil || seen.Value != g.value {
		cancel()
		return nil, g.lost("where our value should be", seen)
	}
	return cancel, nil
}
