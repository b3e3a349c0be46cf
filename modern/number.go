package modern

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/fencing"
	"github.com/getsetlock/getsetlock/lock"
)

// fenceBlock is how many fencing numbers one script draws.
const fenceBlock = fencing.Block

// tally is what the counter of fencing numbers stood at when this process last drew some of it by the server's
// clock. For a while the next number is simply one more: a transaction counts for a third of what it costs the
// server to run a script.
type tally struct{ last atomic.Pointer[reading] }

// reading is a value of the counter that is no less than the server's clock was at an instant of ours; zero
// where what was known was forgotten.
type reading struct {
	counter int64
	sent    lock.Instant
}

// readingGood is for how long numbers are counted on from a reading: from before it was asked for until the
// reply to whoever counts. They are to be greater than those which a promoted replica has never heard of: by
// this they lag behind the clock at the most. Nor do they run ahead of it, since no server counts to a million
// within a second.
const readingGood = 100 * time.Millisecond

// good reports whether a reading is young enough at an instant. Of two clocks that disagree about its age
// the one that ran furthest decides: a machine that slept, or was stepped, shows on one of them.
func (r *reading) good(now lock.Instant) bool {
	wall, elapsed := now.Wall.Sub(r.sent.Wall), now.Elapsed-r.sent.Elapsed
	return r.counter > 0 && min(wall, elapsed) >= 0 && max(wall, elapsed) < readingGood
}

// at is the reading that is good at an instant, nil if there is none.
func (t *tally) at(now lock.Instant) *reading {
	if r := t.last.Load(); r != nil && r.good(now) {
		return r
	}
	return nil
}

// note keeps a reading if nothing was kept or forgotten since it was asked for: was is what stood there then.
// Behind a connection that was lost meanwhile there is another server.
func (t *tally) note(was, r *reading) { t.last.CompareAndSwap(was, r) }

func (t *tally) forget() { t.last.Store(new(reading)) }

// acquire takes the key of g together with a number, or a block of them; false where somebody holds it.
func (b *Backend) acquire(ctx context.Context, g *grant, ttl time.Duration) (bool, error) {
	was, sent := b.tally.last.Load(), g.Term().Sent
	if r := b.tally.at(sent); r != nil && !b.native.loose.Load() {
		c := b.count(ctx, g, ttl)
		if refuses(c.err) {
			b.native.loose.Store(true)
		}
		if c.taken || !refuses(c.err) {
			return b.accept(ctx, g, ttl, r, c)
		}
	}
	v, err := b.drawn(ctx, acquireScript, g.key, b.fence, g.token, millis(ttl), fenceBlock)
	first, _ := v.(int64)
	if err != nil || first == 0 {
		return false, err
	}
	g.numbered(first)
	b.tally.note(was, &reading{first + fenceBlock - 1, sent})
	return true, nil
}

// count takes the key of g and counts one on in one transaction.
func (b *Backend) count(ctx context.Context, g *grant, ttl time.Duration) counted {
	return countedOf(b.user.Counted(ctx, b.fence, "SET", g.key, g.token, "NX", "PX", millis(ttl)))
}

// counted is the reply to a transaction that takes and counts. An error beside a key that was taken says that
// nothing kept the two together.
type counted struct {
	taken  bool
	number int64 // 0: the counter holds none
	err    error
}

func countedOf(v any, err error) counted {
	c := counted{err: err}
	f, _ := v.([]any)
	if len(f) != countedFields {
		if err == nil {
			c.err = errOddReply
		}
		return c
	}
	refusal, refused := f[0].(redis.Error)
	if refused && err == nil {
		c.err = refusal
	}
	c.taken = f[0] != nil && !refused
	c.number, _ = f[1].(int64)
	return c
}

// countedFields is the length of the reply to a transaction that takes and counts.
const countedFields = 2

// accept takes a number that was counted on from a reading, or draws another. A refusal has used up a number, so
// that the next attempt is made by the script, which writes nothing then.
func (b *Backend) accept(ctx context.Context, g *grant, ttl time.Duration, r *reading, c counted) (bool, error) {
	switch {
	case !c.taken && c.err != nil:
		return false, c.err
	case !c.taken:
		b.tally.forget()
		return false, nil
	case c.err != nil:
	case c.number <= r.counter: // it is gone, or no number, or another server is there
	case c.number > highestFence:
	case !r.good(lock.Mark(ctx)): // who stood still may find another server
	default:
		g.fence = c.number
		return true, nil
	}
	return b.redraw(ctx, g, ttl)
}

// highestFence is the greatest counter that scripts accept; see internal/fencing.
const highestFence = 9e15

// redraw draws numbers for a key that was taken with none, or with one that may be too small: whoever stands
// still behind a reading may find a promoted replica, and others have been given greater ones meanwhile. The
// script reads the clock, and passes the key on to the token that it carries already: executed or not, now or
// later, there is nothing to undo but that token. False where the key was lost meanwhile. Trust still counts
// from before the first command, since it is not known of the second whether it set the TTL.
func (b *Backend) redraw(ctx context.Context, g *grant, ttl time.Duration) (bool, error) {
	passed, err := b.pass(ctx, g, g, ttl)
	if err != nil {
		b.stats.unsure.Add(1)
		return false, &lock.UnsureError{Grant: g, Err: trouble("draw numbers for", g.key, err)}
	}
	return passed, nil
}

// numbered gives the grant the first of a whole block of fencing numbers; the rest is for whom it is
// shared with.
func (g *grant) numbered(first int64) { g.fence, g.spare = first, fenceBlock-1 }
