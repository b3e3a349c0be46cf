// Package tally takes keys together with fencing numbers.
//
// The rule is: a number is the greater of the last one plus one and the server's clock in microseconds, and a
// script draws it. A script costs a server about three times what a transaction costs that does the same. So
// [Counted] stands in front of [Scripts]: for a tenth of a second after a script, a transaction draws the last
// number plus one. Whoever does without it uses Scripts alone.
package tally

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/fencing"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
)

// Taker takes a key together with fencing numbers.
type Taker interface {
	// Take makes one attempt. Trouble is as package wire says it.
	Take(ctx context.Context, a Attempt) (Drawn, error)

	// Forget drops what is known of the server: behind the next connection there may be another.
	Forget()
}

// Attempt is what is to be taken: a key, if it is free, under a token for so many milliseconds.
type Attempt struct {
	Key, Token string
	Millis     int64
	Sent       lock.Instant // read before the attempt
}

// Drawn is what an attempt brought.
type Drawn struct {
	First  int64 // the fencing number; 0: somebody holds the key
	Spare  int8  // how many numbers after it are reserved too
	Redraw bool  // the key is taken, and a script must draw its number
}

// Scripts draws every number by a script, which is what the func runs: it returns the first of
// [fencing.Block] numbers, or 0 where the key is held.
type Scripts func(context.Context, Attempt) (first int64, err error)

// Take runs the script.
func (run Scripts) Take(ctx context.Context, a Attempt) (Drawn, error) {
	first, err := run(ctx, a)
	if err != nil || first == 0 {
		return Drawn{}, err
	}
	return Drawn{First: first, Spare: fencing.Block - 1}, nil
}

// Forget has nothing to drop.
func (Scripts) Forget() {}

// Counted counts on from what the last script brought the counter to.
type Counted struct {
	mux     *wire.Mux
	counter any
	scripts Scripts
	refuses func(error) bool // the server will not have a command
	last    atomic.Pointer[reading]
	loose   atomic.Bool // no transactions; not forgotten, since trying may cost a connection

	works atomic.Bool  // a transaction was executed
	hung  atomic.Int32 // transactions at which the connection ended, before one was executed
	again atomic.Int64 // elapsed time before which no other is tried after that
}

// A proxy may hang up on MULTI, as twemproxy does. All that is in flight on the connection ends with it. So after
// one transaction at which it ended scripts draw for a while, and after as many as hangUps for good: a server that
// ended by chance costs no more than slower numbers.
const (
	hangUps    = 2
	afterHangs = 10 * time.Minute
)

// transacts reports whether a transaction may be tried now.
func (c *Counted) transacts(now lock.Instant) bool {
	return !c.loose.Load() && c.rested(now)
}

func (c *Counted) rested(now lock.Instant) bool {
	return c.hung.Load() == 0 || int64(now.Elapsed) >= c.again.Load()
}

// tried notes what came of a transaction.
func (c *Counted) tried(t transaction, now lock.Instant) {
	switch {
	case c.works.Load():
	case t.err == nil:
		c.works.Store(true)
		c.hung.Store(0)
	case errors.Is(t.err, wire.ErrLost) && c.rested(now): // the first of its connection
		c.again.Store(int64(now.Elapsed + afterHangs))
		if c.hung.Add(1) >= hangUps {
			c.loose.Store(true)
		}
	}
}

// NewCounted returns a Taker that counts on counter in between the scripts.
func NewCounted(m *wire.Mux, counter any, s Scripts, refuses func(error) bool) *Counted {
	return &Counted{mux: m, counter: counter, scripts: s, refuses: refuses}
}

// Take counts on from a reading that is good, and runs the script without one, or where a proxy hangs up on
// transactions.
func (c *Counted) Take(ctx context.Context, a Attempt) (Drawn, error) {
	was := c.last.Load()
	if r := c.at(a.Sent); r != nil && c.transacts(a.Sent) {
		t := transactionOf(c.mux.Counted(ctx, c.counter, "SET", a.Key, a.Token, "NX", "PX", a.Millis))
		c.tried(t, a.Sent)
		refused := c.refuses(t.err)
		if refused {
			c.loose.Store(true)
		}
		if t.taken || !refused {
			return c.accept(ctx, r, t)
		}
	}
	d, err := c.scripts.Take(ctx, a)
	if d.First > 0 {
		c.note(was, &reading{d.First + int64(d.Spare), a.Sent})
	}
	return d, err
}

// highest is the greatest counter that scripts accept; see internal/fencing.
const highest = 9e15

// accept takes a number that was counted on from a reading, or asks for another: whoever stands still after a
// reading may find a promoted replica, and others have been given greater numbers meanwhile. A refusal has
// used up a number, so that the next attempt is made by the script, which writes nothing then.
func (c *Counted) accept(ctx context.Context, r *reading, t transaction) (Drawn, error) {
	switch {
	case !t.taken && t.err != nil:
		return Drawn{}, t.err
	case !t.taken:
		c.Forget()
		return Drawn{}, nil
	case t.err != nil:
	case t.number <= r.counter: // it is gone, or no number, or another server is there
	case t.number > highest:
	case !r.good(lock.Mark(ctx)): // this process stood still, and may find another server
	default:
		return Drawn{First: t.number}, nil
	}
	return Drawn{Redraw: true}, nil
}

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
func (c *Counted) at(now lock.Instant) *reading {
	if r := c.last.Load(); r != nil && r.good(now) {
		return r
	}
	return nil
}

// note keeps a reading if nothing was kept or forgotten since it was asked for: was is what stood there then.
// After a connection that was lost meanwhile there is another server.
func (c *Counted) note(was, r *reading) { c.last.CompareAndSwap(was, r) }

// Forget makes the next number come from a script.
func (c *Counted) Forget() { c.last.Store(new(reading)) }

// transaction is the reply to a transaction that takes and counts. An error beside a key that was taken says
// that nothing kept the two together.
type transaction struct {
	taken  bool
	number int64 // 0: the counter holds none
	err    error
}

var errOddReply = errors.New("the server's reply has another shape than the transaction's")

// transactionFields is the length of its reply.
const transactionFields = 2

func transactionOf(v any, err error) transaction {
	t := transaction{err: err}
	f, _ := v.([]any)
	if len(f) != transactionFields {
		if err == nil {
			t.err = errOddReply
		}
		return t
	}
	refusal, refused := f[0].(redis.Error)
	if refused && err == nil {
		t.err = refusal
	}
	t.taken = f[0] != nil && !refused
	t.number, _ = f[1].(int64)
	return t
}

// Took reports whether the late reply to a transaction says that the key was taken.
func Took(reply []any) bool { return transactionOf(reply, nil).taken }
