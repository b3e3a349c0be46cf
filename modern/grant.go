package modern

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/internal/tally"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
)

// grant is one acquisition of one key. A process may hold a hundred thousand, so it is kept small.
type grant struct {
	b     *Backend
	key   string
	token string // the whole value of the key
	fence int64
	doubt *doubt // nil where it certainly has the key, or had

	watch wire.Watch // armed by Watch

	mu      sync.Mutex
	sent    time.Duration // elapsed time before the last write of the key's TTL was sent …
	wall    int64         // … and the wall clock then, in nanoseconds since 1970; 0: it does not fit
	ttl     time.Duration // … and that TTL
	spare   int8          // fencing numbers after fence that are reserved for those it is shared with
	lined   bool          // it got the key from the line, or has it for long: its release reserves the key for the next there
	asked   bool          // a release was sent whose outcome is not known: it may have been the one
	over    bool          // the server said for certain that nothing is held
	watched bool          // Watch armed the watch, which renewals must keep
	leaves  bool          // it is being released or passed on: that it is not found any more is our doing
}

// doubt is what is known beside of a grant that may be none.
type doubt struct {
	pending *wire.Pending // of an attempt whose outcome is not known
	place   *place        // where it stands in the line, or may: its release leaves that as well
}

// unsure notes an attempt whose outcome is not known.
func (g *grant) unsure(p *wire.Pending) {
	if g.doubt == nil {
		g.doubt = &doubt{}
	}
	g.doubt.pending = p
}

// place is where it stands in the line, or may; nil: nowhere.
func (g *grant) place() *place {
	if g.doubt == nil {
		return nil
	}
	return g.doubt.place
}

func (g *grant) Token() string { return g.token }
func (g *grant) Fence() int64  { return g.fence }

// Share gives the key to the next holder of this process under the same token, with the next of the
// reserved fencing numbers; without such numbers nothing tells the two apart. A grant that was released
// or may be is never shared.
func (g *grant) Share() (lock.Grant, bool) {
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
		fence: g.fence + 1, spare: g.spare - 1, lined: g.lined,
	}, true
}

// left is what is left of the key's TTL by our own clock, at the least: the server began to count
// after we had sent the write. By now means when now was read.
func (g *grant) left(now lock.Instant) (left, ttl time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ttl - (now.Elapsed - g.sent), g.ttl
}

// written notes that the key's TTL was set, or is about to be.
func (g *grant) written(t lock.Term) {
	g.mu.Lock()
	g.sent, g.ttl = t.Sent.Elapsed, t.TTL
	g.wall = t.Sent.Wall.UnixNano()
	if !time.Unix(0, g.wall).Equal(t.Sent.Wall) {
		g.wall = 0
	}
	g.mu.Unlock()
}

// Term is that of the last write.
func (g *grant) Term() lock.Term {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := lock.Term{Sent: lock.Instant{Elapsed: g.sent}, TTL: g.ttl}
	if g.wall != 0 {
		t.Sent.Wall = time.Unix(0, g.wall)
	}
	return t
}

// LostError says what was found on a key that is not ours any more. It unwraps to [lock.ErrLost].
type LostError struct {
	Key string

	// Seen is what stands on the key now, nil when not looked at or when nothing does.
	Seen *Info
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("%v: key %q", lock.ErrLost, e.Key)
	switch {
	case e.Seen == nil:
		return s + " does not carry our token any more"
	case !e.Seen.Exists:
		return s + " is gone: it expired, or somebody deleted it"
	case e.Seen.Reserved:
		return s + " is not ours any more, and is held by " + e.Seen.who()
	}
	return s + " is held by another: " + e.Seen.who()
}

func (e *LostError) Unwrap() error { return lock.ErrLost }

// gone reports the grant as lost, with what stands on its key now.
func (g *grant) gone(ctx context.Context) error {
	e := g.lost(ctx)
	if info, err := g.b.Inspect(ctx, g.key); err == nil {
		e.Seen = &info
	}
	return e
}

// lost is gone without the look, and to be called before it. Where the grant is on its way to be given back
// or passed on, that may be why: then only who does that can tell.
func (g *grant) lost(ctx context.Context) *LostError {
	if !g.isLeaving() {
		g.stolen(ctx)
	}
	return &LostError{Key: g.key}
}

// stolen notes that the key is not ours any more: if time was left it was taken from us.
func (g *grant) stolen(ctx context.Context) {
	if left, _ := g.left(lock.Mark(ctx)); left > 0 {
		g.b.habits.add(g.key, habitDeleted)
	}
}

// inspections is how many more lost keys of one call are looked at. Each look is a round trip for which the
// renewals behind it wait: a process that has lost ten thousand leases would lose the others by it.
type inspections int

const mostInspections inspections = 8

func (n *inspections) gone(ctx context.Context, g *grant) error {
	if *n == 0 {
		return g.lost(ctx)
	}
	*n--
	return g.gone(ctx)
}

// Extend sets the key's TTL anew if it still carries our token.
func (g *grant) Extend(ctx context.Context, ttl time.Duration) (lock.Term, error) {
	terms, errs := g.b.ExtendAll(ctx, []lock.Grant{g}, ttl)
	return terms[0], errs[0]
}

// Release deletes the key if it still carries our token.
func (g *grant) Release(ctx context.Context) error {
	if g.isOver() {
		return &LostError{Key: g.key}
	}
	g.leave()
	late := g.late(ctx)
	if late == refused && g.place() == nil {
		g.end()
		return nil
	}
	deleted, err := g.delete(ctx)
	switch {
	case err != nil:
		g.ask(err)
		return trouble("release", g.key, err)
	case !deleted && late == open:
		return &LostError{Key: g.key} // perhaps not yet: the late command may still arrive
	}
	if asked := g.end(); deleted || asked || late != none {
		return nil
	}
	g.stolen(ctx)
	return g.gone(ctx)
}

func (g *grant) delete(ctx context.Context) (bool, error) {
	b := g.b
	if p := g.place(); p != nil {
		return b.leaveLine(ctx, g.key, p.member)
	}
	// Where the server tells nobody of a release, we do.
	inLine := !b.native.alone.Load() && (g.isLined() || b.native.wakeless.Load())
	if b.cfg.Fair || inLine {
		given, err := b.giveOn(ctx, g)
		if !spoilt(err) && (b.cfg.Fair || !refusesLine(err) && !refuses(err)) {
			return given, err
		}
		if refusesLine(err) {
			b.native.alone.Store(true)
		}
		// The token still tells whether the key is to be deleted.
	}
	return b.compareAndDelete(ctx, g.key, g.token)
}

func (g *grant) isLined() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lined
}

// late is what is known of an attempt whose reply did not come in time.
type late int

const (
	none    late = iota // the reply came in time
	open                // it has not come yet, or never will: the command may still be under way
	refused             // it came: the key was not taken
	taken               // it came: the key was taken
)

// late waits for the reply if the connection still brings it.
func (g *grant) late(ctx context.Context) late {
	if g.doubt == nil || g.doubt.pending == nil {
		return none
	}
	reply, _, known := g.doubt.pending.Wait(ctx)
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
		if len(f) != takenFields && !tally.Took(f) {
			return refused
		}
	}
	return taken
}

// ask notes a release that may have been executed.
func (g *grant) ask(err error) {
	var unknown *wire.UnknownError
	if !errors.As(err, &unknown) {
		return
	}
	g.mu.Lock()
	g.asked = true
	g.mu.Unlock()
}

// leave is called before the command is sent that ends g.
func (g *grant) leave() {
	g.mu.Lock()
	g.leaves = true
	g.mu.Unlock()
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

// end reports also whether a release may have been executed before.
func (g *grant) end() (asked bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	return g.asked
}

var errForeignGrant = errors.New("modern: a grant of another backend")
