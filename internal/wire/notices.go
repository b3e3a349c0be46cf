package wire

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// Notices is a subscription to one channel. Other processes call goroutines of
// this process on it by name; the payload of a message is the name. It needs
// only SUBSCRIBE. It dials when first used, and again after the connection was
// lost.
//
// A message can be missed while there is no connection. So the func of every
// registered name is called when the connection ends, and must look by itself.
type Notices struct {
	m       *Mux
	channel string

	mu      sync.Mutex
	closed  bool
	names   map[string]func()
	conn    *noticed      // nil unless subscribed
	opening chan struct{} // not nil while a goroutine subscribes; closed when err is set
	err     error         // error of the last opening
	trouble retry         // trouble with SUBSCRIBE
	cancel  context.CancelCauseFunc
}

// noticed is one connection of a Notices.
type noticed struct{ pulse }

// Notices returns a subscription to channel on the server that m dials. It must
// be closed before m.
func (m *Mux) Notices(channel string) *Notices {
	return &Notices{m: m, channel: channel, names: make(map[string]func())}
}

// Register makes fn be called by every message that names name, and when
// messages may have been missed, until [Notices.Forget]. After Forget a call
// already under way may still run. fn must not block. When Register has
// returned without an error, the server sends what is published from then on.
//
// If SUBSCRIBE failed although the server was reached, it is tried again in the
// background, with growing pauses. Meanwhile Register returns the last error at
// once.
func (n *Notices) Register(ctx context.Context, name string, fn func()) error {
	for {
		n.mu.Lock()
		switch {
		case n.closed:
			n.mu.Unlock()
			return &NotSentError{ErrClosed}
		case n.conn != nil:
			n.names[name] = fn
			n.conn.listen()
			n.mu.Unlock()
			return nil
		}
		trouble := n.trouble.err
		if n.opening == nil && (trouble == nil || !n.trouble.waits()) {
			n.begin()
		}
		opened := n.opening
		n.mu.Unlock()
		if trouble != nil {
			return trouble
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return &NotSentError{context.Cause(ctx)}
		}
		n.mu.Lock()
		err := n.err
		n.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// begin starts to subscribe. mu is held.
func (n *Notices) begin() {
	n.opening, n.err = make(chan struct{}), nil
	var open context.Context
	open, n.cancel = context.WithCancelCause(context.Background())
	n.m.wg.Add(1) // close takes mu before the Mux waits for wg
	go n.open(open, n.opening)
}

// Forget ends the registration of name.
func (n *Notices) Forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.names, name)
}

// open subscribes, for all goroutines that wait for it.
func (n *Notices) open(ctx context.Context, opened chan struct{}) {
	defer n.m.wg.Done()
	c := &noticed{}
	var reached atomic.Bool
	conn, err := n.m.open(ctx, &n.m.asides, func(conn redis.Conn) error {
		reached.Store(true)
		_, err := conn.Do("SUBSCRIBE", n.channel)
		return err
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	defer close(opened)
	n.cancel(nil)
	n.opening = nil
	switch {
	case err != nil:
		n.err = &NotSentError{err}
		if reached.Load() && !n.closed {
			n.trouble.failed(n.err)
		}
	case n.closed:
		n.err = &NotSentError{ErrClosed}
		_ = conn.Close()
	default:
		c.init(n.m, &n.mu, conn, func() bool { return len(n.names) > 0 })
		n.conn = c
		n.trouble.worked()
		n.m.wg.Add(1)
		go n.read(c)
	}
}

func (n *Notices) read(c *noticed) {
	defer n.m.wg.Done()
	receive := patiently(c.conn)
	for {
		v, err := receive()
		if err != nil {
			break
		}
		c.heard.Store(true)
		m, _ := v.([]any)
		if len(m) != 3 {
			continue
		}
		name, _ := m[2].([]byte)
		n.mu.Lock()
		fn := n.names[string(name)]
		n.mu.Unlock()
		if fn != nil {
			fn()
			runtime.Gosched() // the woken goroutine runs before the next read
		}
	}
	_ = c.conn.Close()
	n.mu.Lock()
	c.end()
	if n.conn == c {
		n.conn = nil
	}
	missed := make([]func(), 0, len(n.names))
	for _, fn := range n.names {
		missed = append(missed, fn)
	}
	clear(n.names)
	n.mu.Unlock()
	for _, fn := range missed {
		fn()
	}
}

// Anew forgets that the server refused to subscribe: there may be another
// server.
func (n *Notices) Anew() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trouble.anew()
}

// Close ends the subscription. The Mux's Close joins its goroutines.
func (n *Notices) Close() {
	n.mu.Lock()
	n.closed = true
	if n.opening != nil {
		n.cancel(ErrClosed)
	}
	c := n.conn
	n.mu.Unlock()
	if c != nil {
		_ = c.conn.Close()
	}
}
