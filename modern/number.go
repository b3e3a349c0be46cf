package modern

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/fencing"
	"github.com/getsetlock/getsetlock/lock"
)

// fenceBlock is how many fencing numbers one command draws.
const fenceBlock = fencing.Block

// serverClock is what the server's clock said of late. A fifth of the server's work for a number is to
// read that clock, and hardly anything to be told it.
type serverClock struct{ last atomic.Pointer[reading] }

// reading is one look at the server's clock, which was read somewhere between two instants of ours. What
// has passed since the later has passed on the server too; how old the reading is, the earlier tells. One
// without micros says that what was known was forgotten.
type reading struct {
	micros     int64
	sent, came lock.Instant
}

// readingGood is for how long a reading is told instead of the clock, from before it was asked for until
// the reply to whom it was told. Numbers are to be greater than those which a promoted replica has never
// heard of: by this they lag behind the clock at the most, and must not run ahead of it for longer than a
// fail-over takes. Within this time the fastest slewing moves the two clocks some 8 ms apart, and a step
// backwards no further than this.
const readingGood = 100 * time.Millisecond

// good reports whether a reading is young enough at an instant. Of two clocks that disagree about its age
// the one that ran furthest decides: a machine that slept, or was stepped, shows on one of them.
func (r *reading) good(now lock.Instant) bool {
	wall, elapsed := now.Wall.Sub(r.sent.Wall), now.Elapsed-r.sent.Elapsed
	return min(wall, elapsed) >= 0 && max(wall, elapsed) < readingGood
}

// at is the server's clock at an instant, or less, and the reading that says so; nil where there is no good
// one. Of two clocks the one that ran least says what has passed.
func (c *serverClock) at(now lock.Instant) (micros int64, from *reading) {
	r := c.last.Load()
	if r == nil || r.micros == 0 || !r.good(now) {
		return 0, nil
	}
	passed := min(now.Wall.Sub(r.came.Wall), now.Elapsed-r.came.Elapsed)
	if passed < 0 {
		return 0, nil
	}
	return r.micros + passed.Microseconds(), r
}

// note keeps a reading if it is good when it comes, and if nothing was kept or forgotten since it was asked
// for: was is what stood there then. Behind a connection that was lost meanwhile there is another server.
func (c *serverClock) note(was, r *reading) {
	if r.good(r.came) {
		c.last.CompareAndSwap(was, r)
	}
}

func (c *serverClock) forget() { c.last.Store(new(reading)) }

// acquire takes the key of g together with a block of numbers; false where somebody holds it.
func (b *Backend) acquire(ctx context.Context, g *grant, ttl time.Duration) (bool, error) {
	was, sent := b.clock.last.Load(), g.Term().Sent
	clock, from := b.clock.at(sent)
	if from == nil && !b.native.oldTime.Load() {
		v, err := b.user.Eval(ctx, acquireScript, g.key, b.fence, g.token, millis(ttl))
		if err == nil || !refusesTime(err) {
			f, _ := v.([]any)
			if len(f) != timedFields {
				return false, err
			}
			clock, _ = redis.Int64(f[1], nil)
			b.clock.note(was, &reading{clock, sent, lock.Mark(ctx)})
			return g.acquired(f[0], clock), err
		}
		b.native.oldTime.Store(true)
	}
	if from == nil {
		var err error
		if from, err = b.readClock(ctx); err != nil {
			return false, err
		}
		clock = from.micros
	}
	v, err := b.user.Eval(ctx, acquireScript, g.key, b.fence, g.token, millis(ttl), clock)
	if taken := g.acquired(v, clock); !taken || from.good(lock.Mark(ctx)) {
		return taken, err
	}
	return b.redraw(ctx, g, ttl)
}

// redraw draws numbers for a key that was taken with numbers of a clock that may have been old by then:
// whoever stands still between reading it and sending it may find a promoted replica that has given
// greater ones meanwhile. The script reads the clock itself, and passes the key on to the token that it
// carries already: executed or not, now or later, there is nothing to undo but that token. False where
// the key was lost meanwhile. Trust still counts from before the first command, since it is not known
// of the second whether it set the TTL.
func (b *Backend) redraw(ctx context.Context, g *grant, ttl time.Duration) (bool, error) {
	passed, err := b.pass(ctx, g, g, ttl)
	if err != nil {
		b.stats.unsure.Add(1)
		return false, &lock.UnsureError{Grant: g, Err: trouble("draw numbers for", g.key, err)}
	}
	return passed, nil
}

// timedFields is the length of the acquire script's reply where it read the clock.
const timedFields = 2

// acquired takes the number into account that the acquire script drew by a clock, and reports whether the
// key was taken.
func (g *grant) acquired(number any, clock int64) bool {
	first, _ := number.(int64)
	if first <= 0 {
		return false
	}
	g.fence, g.spare = first, int8(max(clock-first, 0))
	return true
}

// readClock asks the server for its time.
func (b *Backend) readClock(ctx context.Context) (*reading, error) {
	was, sent := b.clock.last.Load(), lock.Mark(ctx)
	sec, usec, err := b.readTime(ctx)
	if err != nil {
		return nil, err
	}
	s, err1 := redis.Int64(sec, nil)
	us, err2 := redis.Int64(usec, nil)
	if errors.Join(err1, err2) != nil {
		return nil, notTaken(errOddReply)
	}
	r := &reading{s*1e6 + us, sent, lock.Mark(ctx)}
	b.clock.note(was, r)
	return r, nil
}

// numbered gives the grant the first of a whole block of fencing numbers; the rest is for whom it is
// shared with.
func (g *grant) numbered(first int64) { g.fence, g.spare = first, fenceBlock-1 }
