// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// defaultTimeout is long compared with any healthy reply and short compared
// with any useful lease.
const defaultTimeout = 2 * time.Second

// Options configures a Mux. Zero is right for every field.
type Options struct {
	// Timeout bounds dialing, and then the wait for each reply. Defaults to
	// 2 s.
	Timeout time.Duration

	// Setup is called on each new connection before anything else is sent on
	// it. Its error ends the connection and counts as an error of dialing.
	Setup func(redis.Conn) error

	// Lost is called once for each connection that ended, with the reason, on
	// the goroutine that noticed the end. It must not block.
	Lost func(error)
}

// Mux is a connection shared by any number of goroutines. It dials when first
// used, and again after the connection was lost.
type Mux struct {
	dial  func(context.Context) (redis.Conn, error)
	opts  Options
	reply atomic.Int64         // longest wait for a reply, in ns
	calls sync.Pool            // for this Mux only: channels must not move between synctest bubbles
	link  atomic.Pointer[link] // the connection; nil before the first dial and after a loss
	sub   subscriber

	mu      sync.Mutex
	closed  bool
	dialing *dialing // nil when no dial is under way
	dials   hooks    // dial hooks for the connection of the commands
	asides  hooks    // dial hooks for the subscriber

	life   context.Context // ends with ErrClosed
	finish context.CancelCauseFunc

	wg sync.WaitGroup // every goroutine and armed timer, except those in a dial hook
}

// New returns a Mux on the server that pool dials. It uses only the pool's
// hooks. Nothing is sent until the first call.
func New(pool *redis.Pool, o Options) (*Mux, error) {
	if pool == nil {
		return nil, errors.New("the pool is nil: give New a *redis.Pool with a DialContext function")
	}
	if pool.Dial == nil && pool.DialContext == nil {
		return nil, errors.New("the pool cannot open connections: set DialContext of the redis.Pool")
	}
	if o.Timeout < 0 {
		return nil, errors.New("wire: Options.Timeout is negative")
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	m := &Mux{dial: pool.DialContext, opts: o}
	m.reply.Store(int64(o.Timeout))
	if m.dial == nil {
		hook := pool.Dial
		m.dial = func(context.Context) (redis.Conn, error) { return hook() }
	}
	m.life, m.finish = context.WithCancelCause(context.Background())
	m.calls.New = func() any { return newCall() }
	m.sub.init(m)
	return m, nil
}

// Timeout returns the longest wait for a reply.
func (m *Mux) Timeout() time.Duration { return time.Duration(m.reply.Load()) }

// Shorten lowers the wait for replies to d, if it is longer. Dialing may still
// take [Options.Timeout].
func (m *Mux) Shorten(d time.Duration) {
	for {
		now := m.reply.Load()
		if int64(d) >= now || m.reply.CompareAndSwap(now, int64(d)) {
			return
		}
	}
}

// Tracker returns the Tracker of this Mux, which is closed with it.
func (m *Mux) Tracker() *Tracker { return &m.sub.tracker }

// Close fails every call in flight and joins all goroutines. It waits at most
// one Timeout for two things. One is the last replies of a connection that was
// left because its server became a replica. The other is a dial hook that does
// not return; its goroutine ends when the hook does.
func (m *Mux) Close() error {
	m.mu.Lock()
	m.closed = true
	d := m.dialing
	m.mu.Unlock()
	m.finish(ErrClosed)
	if d != nil {
		d.cancel(ErrClosed)
	}
	m.sub.close()
	if l := m.link.Load(); l != nil {
		l.fail(ErrClosed)
	}
	m.wg.Wait()
	return nil
}

// Do sends one command and waits for its reply. Byte slices in args must not be
// changed afterwards.
func (m *Mux) Do(ctx context.Context, name string, args ...any) (any, error) {
	c := m.calls.Get().(*call)
	c.single(name, nil, args)
	return m.one(ctx, c)
}

// Eval runs s with its keys and arguments. If the server does not know the
// script, and so has executed nothing, Eval sends the whole script.
func (m *Mux) Eval(ctx context.Context, s *Script, keysAndArgs ...any) (any, error) {
	c := m.calls.Get().(*call)
	c.single("", s, keysAndArgs)
	return m.one(ctx, c)
}

// one runs a call of a single command, and a second time with the whole script
// if the server did not know the script. Then it returns the call to its pool,
// unless another goroutine may still use the call.
func (m *Mux) one(ctx context.Context, c *call) (any, error) {
	r := m.run(ctx, c)
	if c.cmds[0].Script != nil && IsNoScript(r.Err) {
		m.again(c)
		r = m.run(ctx, c)
	}
	switch r.Err.(type) {
	case *NotSentError, *UnknownError: // another goroutine may still use c
	default:
		c.reset()
		m.calls.Put(c)
	}
	return r.Value, r.Err
}

// again prepares a call whose script the server did not know to be sent whole.
func (*Mux) again(c *call) {
	c.full, c.taken = true, false
	c.replies = c.replies[:0]
}

// Batch sends several commands next to each other and waits for all their
// replies, which it returns in the same order. If the server did not know some
// of the scripts, Batch then sends these whole, together. Neither cmds nor
// anything in it may be changed afterwards.
func (m *Mux) Batch(ctx context.Context, cmds []Command) []Reply {
	if len(cmds) == 0 {
		return nil
	}
	replies := make([]Reply, len(cmds))
	m.batch(ctx, cmds, false, func(i int, r Reply) { replies[i] = r })
	var unknown []Command
	var where []int
	for i, r := range replies {
		if cmds[i].Script != nil && IsNoScript(r.Err) {
			unknown, where = append(unknown, cmds[i]), append(where, i)
		}
	}
	if len(unknown) > 0 {
		m.batch(ctx, unknown, true, func(i int, r Reply) { replies[where[i]] = r })
	}
	return replies
}

// batch sends the commands once, and gives put the outcome of each. full makes
// scripts travel whole.
func (m *Mux) batch(ctx context.Context, cmds []Command, full bool, put func(int, Reply)) {
	c := newCall()
	c.cmds, c.full, c.replies = cmds, full, make([]Reply, 0, len(cmds))
	fate, err := m.send(ctx, c)
	for i := range cmds {
		put(i, c.outcome(i, fate, err))
	}
	if fate == decided && c.untracked != nil {
		m.sub.untrack(c.link)
	}
}

// run sends a call of a single command and returns its outcome.
func (m *Mux) run(ctx context.Context, c *call) Reply {
	fate, err := m.send(ctx, c)
	return c.outcome(0, fate, err)
}

// fate is the state of a call when its goroutine stops waiting.
type fate int

const (
	decided fate = iota // the call has the outcome
	unsent              // nothing of the call was sent
	left                // the call is in flight, and its goroutine stopped waiting
)

// send hands c to the connection, dialing if there is none, and waits. It
// returns:
//
//   - decided: c has the outcome of each command, which may be an error.
//   - unsent: nothing of c was sent; the error says why.
//   - left: ctx ended while c was in flight, and the error is its cause. The
//     server may execute c.
func (m *Mux) send(ctx context.Context, c *call) (fate, error) {
	// If the context has ended, nothing may be sent: the caller has given the
	// command up.
	if ctx.Err() != nil {
		return unsent, context.Cause(ctx)
	}
	// A connection may die after it was dialed and before it is used. If that
	// happens three times in a row, the server is the cause and the caller gets
	// the error.
	for range 3 {
		l := c.only
		if l == nil {
			l = m.link.Load()
		}
		if l == nil {
			var err error
			if l, err = m.connect(ctx); err != nil {
				return unsent, err
			}
		}
		if !l.submit(c) {
			continue
		}
		f, err := l.await(ctx, c)
		if f != decided || !c.stranded {
			return f, err
		}
		c.stranded, c.err = false, nil
	}
	return unsent, ErrLost
}
