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

// reading is one look at the server's clock.
type reading struct {
	micros int64
	came   lock.Instant // after the reply: what has passed since then has passed on the server too
}

// readingGood is for how long a reading is told instead of the clock. Numbers are to be greater than those
// which a promoted replica has never heard of, so they must not run ahead of the clock for longer than a
// fail-over takes. Within this time the fastest slewing moves the two clocks some 8 ms apart, and a step
// backwards no further than this.
const readingGood = 100 * time.Millisecond

// at is the server's clock at an instant, or less; false where the last reading is too old. Of two clocks
// that disagree about its age the one that ran furthest decides whether it is good, and the one that
// ran least what has passed.
func (c *serverClock) at(now lock.Instant) (micros int64, ok bool) {
	r := c.last.Load()
	if r == nil {
		return 0, false
	}
	wall, elapsed := now.Wall.Sub(r.came.Wall), now.Elapsed-r.came.Elapsed
	least := min(wall, elapsed)
	return r.micros + least.Microseconds(), least >= 0 && max(wall, elapsed) < readingGood
}

// note keeps a reading that came right now.
func (c *serverClock) note(ctx context.Context, micros int64) {
	c.last.Store(&reading{micros, lock.Mark(ctx)})
}

func (c *serverClock) forget() { c.last.Store(nil) }

// acquire takes the key of g together with a block of numbers; false where somebody holds it.
func (b *Backend) acquire(ctx context.Context, g *grant, ttl time.Duration) (bool, error) {
	clock, known := b.clock.at(g.Term().Sent)
	if !known && !b.native.oldTime.Load() {
		v, err := b.user.Eval(ctx, acquireScript, g.key, b.fence, g.token, millis(ttl))
		if err == nil || !refusesTime(err) {
			return b.acquired(ctx, g, v, 0), err
		}
		b.native.oldTime.Store(true)
	}
	if !known {
		var err error
		if clock, err = b.readClock(ctx); err != nil {
			return false, err
		}
	}
	v, err := b.user.Eval(ctx, acquireScript, g.key, b.fence, g.token, millis(ttl), clock)
	return b.acquired(ctx, g, v, clock), err
}

// timedFields is the length of the acquire script's reply where it read the clock.
const timedFields = 2

// acquired takes the acquire script's reply into account and reports whether the key was taken. clock is
// what the script was told.
func (b *Backend) acquired(ctx context.Context, g *grant, v any, clock int64) bool {
	if f, _ := v.([]any); len(f) == timedFields {
		clock, _ = redis.Int64(f[1], nil)
		b.clock.note(ctx, clock)
		v = f[0]
	}
	first, _ := v.(int64)
	if first <= 0 {
		return false
	}
	g.fence, g.spare = first, int8(max(clock-first, 0))
	return true
}

// readClock asks the server for its time.
func (b *Backend) readClock(ctx context.Context) (int64, error) {
	sec, usec, err := b.readTime(ctx)
	if err != nil {
		return 0, err
	}
	s, err1 := redis.Int64(sec, nil)
	us, err2 := redis.Int64(usec, nil)
	if errors.Join(err1, err2) != nil {
		return 0, notTaken(errOddReply)
	}
	clock := s*1e6 + us
	b.clock.note(ctx, clock)
	return clock, nil
}

// numbered gives the grant the first of a whole block of fencing numbers; the rest is for whom it is
// shared with.
func (g *grant) numbered(first int64) { g.fence, g.spare = first, fenceBlock-1 }
