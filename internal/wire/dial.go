// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A dial hook without a context cannot be cancelled. While the network swallows
// its packets, each call of the hook leaves a goroutine behind. Their number
// cannot be bounded: a client that stops dialing never learns that the server
// is back. So their rate is bounded.
const (
	// fewHung is how many hooks may hang before the next has to wait.
	fewHung = 4

	// longestWait is the longest time from the start of one dial to the
	// earliest start of the next. A lease with the default TTL outlives it.
	longestWait = 10 * time.Second
)

// hooks counts the dial hooks of one purpose that were given up and have not
// returned. The connection of the commands has its own count, so that no other
// purpose makes it wait. The mutex of the Mux guards its fields.
type hooks struct {
	hung int
	next time.Time // earliest start of another one, while fewHung hang
}

// wait returns how long no hook may be started; zero starts one. The pause
// begins with a second and doubles with each further hook that hangs.
func (h *hooks) wait(now time.Time) time.Duration {
	if h.hung >= fewHung && now.Before(h.next) {
		return h.next.Sub(now)
	}
	pause := time.Second << min(max(h.hung-fewHung+1, 0), 10)
	h.next = now.Add(min(pause, longestWait))
	return 0
}

// dialError says that dialing failed. Only the hook knows the address, and its
// error names it.
type dialError struct{ err error }

func (e *dialError) Error() string { return "dialing Redis: " + redact(e.err) }
func (e *dialError) Unwrap() error { return e.err }

var (
	errNoConn = errors.New("the dial hook returned neither a connection nor an error")
)

// hungError says why no dial was begun.
type hungError struct {
	hung int
	wait time.Duration
}

func (e *hungError) Error() string {
	return fmt.Sprintf("%d earlier calls of the dial hook have not returned; the next one is made in %v",
		e.hung, e.wait.Round(time.Millisecond))
}

// dialing is one attempt to connect, shared by all goroutines that wait for it.
type dialing struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when link or err is set
	link   *link
	err    error
}

// connect returns the connection, dialing if there is none. It waits no longer
// than ctx lives.
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

// redial is the goroutine of one dialing. It belongs to no single caller: if
// the first caller's context ends, the others still get the connection.
func (m *Mux) redial(ctx context.Context, d *dialing) {
	defer m.wg.Done()
	defer d.cancel(nil)
	conn, err := m.open(ctx, &m.dials, m.opts.Setup)
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

// opening is one run of the dial hook, which may outlive the goroutines that
// wait for it.
type opening struct {
	mu    sync.Mutex
	of    *hooks
	conn  redis.Conn // nil until the hook returned one
	ended bool       // the hook and the setup returned
	given bool       // given up before that: the goroutine that finds conn closes it
}

// open runs the dial hook and then setup, both within one Timeout. If the hook
// does not return, open gives it up, and its connection is closed when it
// comes. When ctx ends by [ErrClosed], open waits for the hook until the
// Timeout, so that closing joins every hook that ends in time.
func (m *Mux) open(ctx context.Context, of *hooks, setup func(redis.Conn) error) (redis.Conn, error) {
	begun := time.Now()
	m.mu.Lock()
	hung, wait := of.hung, of.wait(begun)
	m.mu.Unlock()
	if wait > 0 {
		return nil, &dialError{&hungError{hung, wait}}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.opts.Timeout, &silentError{m.opts.Timeout})
	defer cancel()
	o := &opening{of: of}
	came := make(chan error, 1)
	go func() { came <- m.hook(ctx, o, setup) }()
	select {
	case err := <-came:
		if err != nil {
			return nil, &dialError{silent(err)}
		}
		return o.conn, nil
	case <-ctx.Done():
	}
	m.giveUp(o)
	if err := context.Cause(ctx); err != ErrClosed {
		return nil, &dialError{o.explained(err, came)}
	}
	rest := time.NewTimer(m.opts.Timeout - time.Since(begun))
	defer rest.Stop()
	select {
	case <-came:
	case <-rest.C:
	}
	return nil, ErrClosed
}

// silent adds [ErrTimeout] to the error of a hook whose own time limit ended
// first. A connection's read limit may be as long as [Options.Timeout], and
// either of the two may end first.
func silent(err error) error {
	var limit net.Error
	if errors.As(err, &limit) && limit.Timeout() && !errors.Is(err, ErrTimeout) {
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return err
}

// lastWord is how long open waits for the error of a hook that was given up.
const lastWord = 100 * time.Millisecond

// explained returns why o was given up, together with the hook's own error,
// which may say which of several addresses were silent. A hook that obeys its
// context returns at once.
func (o *opening) explained(err error, came <-chan error) error {
	rest := time.NewTimer(lastWord)
	defer rest.Stop()
	select {
	case said := <-came:
		o.mu.Lock()
		defer o.mu.Unlock()
		// If there was a connection, giveUp has closed it, and the error says
		// only that.
		if said != nil && o.conn == nil && !errors.Is(said, context.DeadlineExceeded) &&
			!errors.Is(said, context.Canceled) {
			return fmt.Errorf("%w: %w", err, said)
		}
	case <-rest.C:
	}
	return err
}

// hook dials and sets the connection up. It closes a connection that it does
// not hand out.
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
		o.of.hung--
		m.mu.Unlock()
	}
	return err
}

// giveUp stops waiting for a run of the hook. Closing its connection ends a
// setup that hangs.
func (m *Mux) giveUp(o *opening) {
	o.mu.Lock()
	conn := o.conn
	if !o.ended { // else it ended at the same moment and is not counted
		o.given = true
		m.mu.Lock()
		o.of.hung++
		m.mu.Unlock()
	}
	o.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}
