// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/internal/fencing"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// grant is one acquisition of one key. A process may hold a hundred thousand
// grants, so it is kept small.
type grant struct {
	b     *engine
	key   string
	token string // the whole value of the key
	fence int64
	doubt *doubt // nil if the grant certainly has, or had, the key

	watch wire.Watch // armed by Watch

	mu      sync.Mutex
	sent    time.Duration // elapsed time before the last write of the key's TTL
	wall    int64         // wall clock at that time, in ns since 1970; 0: out of range
	ttl     time.Duration // that TTL
	spare   int8          // reserved fencing numbers after fence, for the next holders in this process
	given   bool          // the last write was the release of the holder before
	queued  bool          // the grant came from a place, which waits still has
	asked   bool          // a release of unknown outcome was sent: it may have ended the grant
	over    bool          // this grant holds nothing any more, for certain
	watched bool          // the watch is armed, and renewals must keep it
	leaves  bool          // the grant is being released, which explains a missing token
}

// doubt is extra state of a grant that may not exist.
type doubt struct {
	pending *wire.Pending // attempt whose outcome is unknown
	place   *place        // place that it has or may have in the queue; a release leaves that too
}

// unsure records that the outcome of g's attempt is unknown.
func (g *grant) unsure(p *wire.Pending) {
	if g.doubt == nil {
		g.doubt = &doubt{}
	}
	g.doubt.pending = p
}

// place returns the place that g has or may have in the queue, or nil.
func (g *grant) place() *place {
	if g.doubt == nil {
		return nil
	}
	return g.doubt.place
}

func (g *grant) Token() string { return g.token }
func (g *grant) Fence() int64  { return g.fence }

// Share gives the key to the next holder of this process, under the same token
// and with the next reserved fencing number. Without fencing numbers both
// holders use the same grant. It returns false if the grant was released or may
// have been, or if no number is left.
func (g *grant) Share() (backend.Grant, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over || g.asked || g.doubt != nil && g.doubt.pending != nil || g.b.cfg.Fence && g.spare == 0 {
		return nil, false
	}
	if !g.b.cfg.Fence {
		return g, true
	}
	g.over = true
	return &grant{
		b: g.b, key: g.key, token: g.token, sent: g.sent, wall: g.wall, ttl: g.ttl,
		fence: g.fence + 1, spare: g.spare - 1, given: g.given, queued: g.queued,
	}, true
}

// left returns the TTL that the last write set, and the shortest time that may
// be left of it. Both are by the Backend's clock, and the time left counts from
// when now was read. The server began to count after the write was sent.
func (g *grant) left(now backend.Instant) (left, ttl time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ttl - (now.Elapsed - g.sent), g.ttl
}

// written records that the key's TTL was set, or is about to be.
func (g *grant) written(t backend.Term) {
	g.mu.Lock()
	g.sent, g.ttl, g.given = t.Sent.Elapsed, t.TTL, t.Given
	g.wall = t.Sent.Wall.UnixNano()
	if !time.Unix(0, g.wall).Equal(t.Sent.Wall) {
		g.wall = 0
	}
	g.mu.Unlock()
}

// Term returns the term of the last write.
func (g *grant) Term() backend.Term {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := backend.Term{Sent: backend.Instant{Elapsed: g.sent}, TTL: g.ttl, Given: g.given}
	if g.wall != 0 {
		t.Sent.Wall = time.Unix(0, g.wall)
	}
	return t
}

// LostError says what was found on a key that the grant no longer holds. It
// unwraps to [backend.ErrLost].
type LostError struct {
	Key string

	// Seen describes the key's present value. It is nil if no look was made.
	Seen *Info
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("%v: key %q", backend.ErrLost, e.Key)
	switch {
	case e.Seen == nil:
		return s + " no longer carries the lease's token"
	case !e.Seen.Exists:
		return s + " is gone: it expired, or another client deleted it"
	}
	return s + " is held by another client: " + e.Seen.who()
}

func (e *LostError) Unwrap() error { return backend.ErrLost }

// gone returns the error of a lost grant, with the key's present value if a
// look shows it.
func (g *grant) gone(ctx context.Context) error {
	e := g.lost(ctx)
	if info, err := g.b.Inspect(ctx, g.key); err == nil {
		e.Seen = &info
	}
	return e
}

// lost returns the error of a lost grant, without the look at the key that gone
// makes. It counts the loss as another client's doing. It does not if the grant
// is being released: then that release may be why the token is missing, and
// only its caller knows.
func (g *grant) lost(ctx context.Context) *LostError {
	if !g.isLeaving() {
		g.stolen(ctx)
	}
	g.b.waits.drop(g.token) // a quorum does not release a vote that was lost
	return &LostError{Key: g.key}
}

// stolen notes that another client deleted or replaced the key, if the key's
// TTL had time left.
func (g *grant) stolen(ctx context.Context) {
	if left, _ := g.left(backend.ReadClock(ctx)); left > 0 {
		g.b.habits.add(g.key, habitDeleted)
	}
}

// inspections is how many more lost keys of one call are looked at. Each look
// is a round trip, and the renewals after it wait for that. A process that has
// lost ten thousand leases would lose its other leases too.
type inspections int

const mostInspections inspections = 8

// gone returns the error of a lost grant, and looks at the key if looks are
// left.
func (n *inspections) gone(ctx context.Context, g *grant) error {
	if *n == 0 {
		return g.lost(ctx)
	}
	*n--
	return g.gone(ctx)
}

// Extend sets the key's TTL anew if the key still carries the grant's token.
func (g *grant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	terms, errs := g.b.ExtendAll(ctx, []backend.Grant{g}, ttl)
	return terms[0], errs[0]
}

// Release gives the key to the first waiter in the queue, or deletes it, if it
// still carries the grant's token. It returns:
//
//   - nil: the key was given up, now or by an earlier release, or was never
//     taken.
//   - a [*LostError]: the key does not carry the token. If the grant's own
//     attempt is still under way, that may change.
//   - another error: the release may not have been executed.
//
// If the reply to the attempt has not come, the release follows the attempt on
// the same connection and does not wait for that reply. The server executes the
// two in their order, so the answer to the second is certain.
func (g *grant) Release(ctx context.Context) error { return g.release(ctx, g.b.user, 0) }

// ReleaseIn ends a grant and leaves its token on the key for rest. It gives the
// key to nobody: the first waiter sees the TTL and takes the key after that.
func (b *engine) ReleaseIn(ctx context.Context, granted backend.Grant, rest time.Duration) error {
	g, ok := granted.(*grant)
	if !ok {
		return errForeignGrant
	}
	return g.release(ctx, b.user, rest)
}

// release is Release over the given connection, or ReleaseIn if rest is not 0.
func (g *grant) release(ctx context.Context, on sender, rest time.Duration) error {
	if g.isOver() {
		return &LostError{Key: g.key}
	}
	if g.leave() {
		defer g.b.waits.drop(g.token) // what a late message said meanwhile is done by this release
	}
	late := g.late()
	if late == refused && g.place() == nil {
		g.end()
		return nil
	}
	deleted, err := false, error(nil)
	behind := late == open
	if behind {
		deleted, err = g.delete(ctx, g.doubt.pending.Behind(), rest)
		behind = !wire.IsNotSent(err) // else the attempt's connection has ended
	}
	if !behind {
		deleted, err = g.delete(ctx, on, rest)
	}
	switch {
	case err != nil:
		g.ask(err)
		return trouble("release", g.key, err)
	case !deleted && late == open && !behind:
		return &LostError{Key: g.key} // not certain: the late command may still arrive
	}
	if asked := g.end(); deleted || asked || late != none {
		return nil
	}
	g.stolen(ctx)
	return g.gone(ctx)
}

// delete sends the command that gives the key up, or that leaves it taken for
// rest. A grant with a place in the queue also leaves that. delete returns
// false if the key did not carry the grant's token.
func (g *grant) delete(ctx context.Context, on sender, rest time.Duration) (bool, error) {
	if rest > 0 {
		reply, err := on.Eval(ctx, renewScripts.of(1), g.key, millis(rest), g.token)
		found, err := replies(wire.Reply{Value: reply, Err: err}, 1)
		return err == nil && found[0] != any(int64(notOurs)), err
	}
	if p := g.place(); p != nil {
		given, err := g.b.leaveLine(ctx, on, g.key, p.member)
		if wire.IsMoving(err) {
			// The place lapses. If the key is given to it before that, it goes
			// on to the next waiter.
			if deleted, err := deleteKey(ctx, on, g.key, g.token); deleted || err != nil {
				return deleted, err
			}
		}
		return given, err
	}
	return g.b.giveUp(ctx, on, g.key, g.token)
}

// late is the state of an attempt whose reply did not come in time.
type late int

const (
	none    late = iota // the reply came in time
	open                // no reply yet, or ever: the command may still be under way
	refused             // the reply came: the key was not taken
	taken               // the reply came: the key was taken
)

// late returns what became of an attempt whose reply did not come in time.
func (g *grant) late() late {
	if g.doubt == nil || g.doubt.pending == nil {
		return none
	}
	reply, _, known := g.doubt.pending.Reply()
	switch f := reply.(type) {
	case nil:
		if !known {
			return open
		}
		return refused // by an error, or by SET … NX
	case int64:
		if f <= 0 {
			return refused
		}
	case []any:
		if len(f) != takenFields {
			return refused
		}
	}
	return taken
}

// ask records that a release with this error may have been executed.
func (g *grant) ask(err error) {
	var unknown *wire.UnknownError
	if !errors.As(err, &unknown) {
		return
	}
	g.mu.Lock()
	g.asked = true
	g.mu.Unlock()
}

// leave records that g ends. Called before the command that ends it is sent. It
// reports whether the grant came from a place.
func (g *grant) leave() (queued bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaves = true
	return g.queued
}

func (g *grant) isLeaving() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leaves
}

func (g *grant) isOver() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.over
}

// end marks g as over. It reports whether a release may have been executed
// before.
func (g *grant) end() (asked bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	return g.asked
}

var errForeignGrant = errors.New("modern: this grant belongs to another backend")

// fenceBlock is how many fencing numbers one script draws.
const fenceBlock = fencing.Block

// numbered gives the grant the first of a whole block of fencing numbers. The
// rest is for the holders that the grant is shared with.
func (g *grant) numbered(first int64) { g.fence, g.spare = first, fenceBlock-1 }
