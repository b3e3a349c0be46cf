// Package tally takes keys together with fencing numbers.
//
// A number is the greater of the last one plus one and the server's clock in
// microseconds, and a script draws it. A script costs a server about three
// times what an equal transaction costs. So [Counted] wraps [Scripts]: for a
// tenth of a second after a script, a transaction draws the last number plus
// one. Backends that do not need this use Scripts alone.
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
	// Take makes one attempt. Its errors are those of package wire.
	Take(ctx context.Context, a Attempt) (Drawn, error)

	// Forget drops what is known of the server: the next connection may lead to
	// another one.
	Forget()
}

// Attempt describes a key to be taken if it is free: under Token, for Millis
// milliseconds.
type Attempt struct {
	Key, Token string
	Millis     int64
	Sent       lock.Instant // read before the attempt
}

// Drawn is the result of an attempt.
type Drawn struct {
	First  int64 // the fencing number; 0: another client holds the key
	Spare  int8  // count of numbers after it that are reserved too
	Redraw bool  // the key is taken, and a script must draw its number
}

// Scripts draws every number by a script, which the func runs. The func returns
// the first of [fencing.Block] numbers, or 0 if the key is held.
type Scripts func(context.Context, Attempt) (first int64, err error)

// Take runs the script.
func (run Scripts) Take(ctx context.Context, a Attempt) (Drawn, error) {
	first, err := run(ctx, a)
	if err != nil || first == 0 {
		return Drawn{}, err
	}
	return Drawn{First: first, Spare: fencing.Block - 1}, nil
}

// Forget does nothing: Scripts keeps no state.
func (Scripts) Forget() {}

// Counted counts on from the counter that the last script wrote.
type Counted struct {
	mux     *wire.Mux
	counter any
	scripts Scripts
	refuses func(error) bool // reports that the server refuses a command
	last    atomic.Pointer[reading]
	loose   atomic.Bool // no transactions; kept by Forget, since a try may cost a connection

	works atomic.Bool  // a transaction was executed
	hung  atomic.Int32 // transactions that ended the connection, before one was executed
	again atomic.Int64 // elapsed time from which on another transaction is tried after that
}

// A proxy may hang up on MULTI, as twemproxy does. That also ends every command
// under way on the connection. So after one transaction that ended its
// connection scripts draw for a while, and after hangUps of them for good. If a
// server ended by chance, the cost is only slower numbers.
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

// tried records the outcome of a transaction.
func (c *Counted) tried(t transaction, now lock.Instant) {
	switch {
	case c.works.Load():
	case t.err == nil:
		c.works.Store(true)
		c.hung.Store(0)
	case errors.Is(t.err, wire.ErrLost) && c.rested(now): // the first one on its connection
		c.again.Store(int64(now.Elapsed + afterHangs))
		if c.hung.Add(1) >= hangUps {
			c.loose.Store(true)
		}
	}
}

// NewCounted returns a Taker that counts on counter by transactions between
// scripts.
func NewCounted(m *wire.Mux, counter any, s Scripts, refuses func(error) bool) *Counted {
	return &Counted{mux: m, counter: counter, scripts: s, refuses: refuses}
}

// Take counts on from a good reading of the counter. Without one, or if a proxy
// hangs up on transactions, it runs the script.
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

// accept returns a number that was counted on from a reading, or asks for a
// script to draw it. If the process stood still after the reading, a promoted
// replica may have answered while others got greater numbers. If the key was
// held, the transaction has used up a number. So the next attempt runs the
// script, which writes nothing then.
func (c *Counted) accept(ctx context.Context, r *reading, t transaction) (Drawn, error) {
	switch {
	case !t.taken && t.err != nil:
		return Drawn{}, t.err
	case !t.taken:
		c.Forget()
		return Drawn{}, nil
	case t.err != nil:
	case t.number <= r.counter: // the counter is gone or no number, or this is another server
	case t.number > highest:
	case !r.good(lock.Mark(ctx)): // this process stood still, and may have met another server
	default:
		return Drawn{First: t.number}, nil
	}
	return Drawn{Redraw: true}, nil
}

// reading is a value of the counter, no less than the server's clock at the
// instant sent. Zero means that it was forgotten.
type reading struct {
	counter int64
	sent    lock.Instant
}

// readingGood is how long numbers are counted on from a reading, from before
// the reading was requested until the reply to the transaction. Numbers must be
// greater than those that a promoted replica never heard of. They lag behind
// the clock by at most this time. They do not run ahead of it, since no server
// counts to a million within a second.
const readingGood = 100 * time.Millisecond

// good reports whether a reading is young enough at now. If the two clocks
// disagree about its age, the one that ran further decides: a suspension or a
// step shows on one of them.
func (r *reading) good(now lock.Instant) bool {
	wall, elapsed := now.Wall.Sub(r.sent.Wall), now.Elapsed-r.sent.Elapsed
	return r.counter > 0 && min(wall, elapsed) >= 0 && max(wall, elapsed) < readingGood
}

// at returns the reading if it is good at now, else nil.
func (c *Counted) at(now lock.Instant) *reading {
	if r := c.last.Load(); r != nil && r.good(now) {
		return r
	}
	return nil
}

// note keeps r if nothing was kept or forgotten since it was requested. was is
// the reading at that time. A connection that was lost meanwhile may have led
// to another server.
func (c *Counted) note(was, r *reading) { c.last.CompareAndSwap(was, r) }

// Forget makes the next number come from a script.
func (c *Counted) Forget() { c.last.Store(new(reading)) }

// transaction is the reply to a transaction that takes a key and counts. If
// taken is true together with an error, the key may have been taken without the
// number.
type transaction struct {
	taken  bool
	number int64 // 0: the counter holds no number
	err    error
}

var errOddReply = errors.New("the server's reply does not have the shape that the transaction returns")

// transactionFields is the length of the reply.
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

// Took reports whether the late reply to a transaction says that the key was
// taken.
func Took(reply []any) bool { return transactionOf(reply, nil).taken }
