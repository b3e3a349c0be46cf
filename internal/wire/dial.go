package wire

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// mostHung bounds the goroutines that dial hooks without a context can pile up while the network
// swallows their packets; more would tell nobody anything new.
const mostHung = 4

// dialError names what was tried. The address is known to the hook only, whose error has it.
type dialError struct{ err error }

func (e *dialError) Error() string { return "dialing Redis: " + redact(e.err) }
func (e *dialError) Unwrap() error { return e.err }

var (
	errHung   = errors.New("earlier calls of the dial hook have not returned yet")
	errNoConn = errors.New("the dial hook returned neither a connection nor an error")
)

// dialing is one attempt to connect, shared by all who wait for it.
type dialing struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when link or err is set
	link   *link
	err    error
}

// connect returns the connection, dialing if there is none. It waits no longer than ctx lives.
func (m *Mux) connect(ctx context.Context) (*link, error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, ErrClosed
	}
	if l := m.link.Load(); l != nil {
		m.mu.Unlock()
		return l, nil
	}
	if m.dialing == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		m.dialing = &dialing{cancel: cancel, done: make(chan struct{})}
		m.wg.Add(1)
		go m.redial(ctx, m.dialing)
	}
	d := m.dialing
	m.mu.Unlock()
	select {
	case <-d.done:
		return d.link, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// redial is the goroutine of one dialing. It is nobody's in particular, so that the first caller's
// end does not spoil it for the rest.
func (m *Mux) redial(ctx context.Context, d *dialing) {
	defer m.wg.Done()
	defer d.cancel(nil)
	conn, err := m.open(ctx, m.opts.Setup)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		d.err = ErrClosed
		if err == nil {
			_ = conn.Close()
		}
	case err != nil:
		d.err = err
	default:
		d.link = m.start(conn)
		m.link.Store(d.link)
	}
	m.dialing = nil
	close(d.done)
}

// opening is one run of the dial hook, which may outlive those who wait for it.
type opening struct {
	mu    sync.Mutex
	conn  redis.Conn // nil until the hook returned one
	ended bool       // the hook and the setup returned
	given bool       // given up before that: whoever finds conn closes it
}

// open runs the dial hook and then setup, both within one Timeout. A hook that does not return is
// given up and its connection closed when it comes. When ctx ends by [ErrClosed], open stays for
// the hook until the Timeout, so that closing joins every hook that ends at all.
func (m *Mux) open(ctx context.Context, setup func(redis.Conn) error) (redis.Conn, error) {
	m.mu.Lock()
	hung := m.hung
	m.mu.Unlock()
	if hung >= mostHung {
		return nil, &dialError{errHung}
	}
	begun := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, m.opts.Timeout, &silentError{m.opts.Timeout})
	defer cancel()
	o := &opening{}
	came := make(chan error, 1)
	go func() { came <- m.hook(ctx, o, setup) }()
	select {
	case err := <-came:
		if err != nil {
			return nil, &dialError{err}
		}
		return o.conn, nil
	case <-ctx.Done():
	}
	m.giveUp(o)
	if err := context.Cause(ctx); err != ErrClosed {
		return nil, &dialError{err}
	}
	rest := time.NewTimer(m.opts.Timeout - time.Since(begun))
	defer rest.Stop()
	select {
	case <-came:
	case <-rest.C:
	}
	return nil, ErrClosed
}

// hook dials and sets the connection up. It closes what it does not hand out.
func (m *Mux) hook(ctx context.Context, o *opening, setup func(redis.Conn) error) error {
	conn, err := m.dial(ctx)
	if err == nil && conn == nil {
		err = errNoConn
	}
	o.mu.Lock()
	if err == nil {
		o.conn = conn
	}
	given := o.given
	o.mu.Unlock()
	if err == nil && !given && setup != nil {
		err = setup(conn)
	}
	o.mu.Lock()
	o.ended = true
	given = o.given
	o.mu.Unlock()
	if o.conn != nil && (given || err != nil) {
		_ = o.conn.Close()
	}
	if given {
		m.mu.Lock()
		m.hung--
		m.mu.Unlock()
	}
	return err
}

// giveUp leaves a run of the hook alone. Closing its connection ends a setup that hangs.
func (m *Mux) giveUp(o *opening) {
	o.mu.Lock()
	conn := o.conn
	if !o.ended { // else it ended in the same moment, and was not counted
		o.given = true
		m.mu.Lock()
		m.hung++
		m.mu.Unlock()
	}
	o.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}
