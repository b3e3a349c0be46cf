// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// subscriber is the second connection of a Mux. On it the server sends messages
// that answer no command: changed keys, for the [Tracker], and what other
// processes publish, for [Notices].
//
//	        Open: SUBSCRIBE to the notices
//	none ────────────────────────────────────▶ notices
//	 │                                          │   ▲
//	 │ Arm: CLIENT ID, INFO,                Arm │   │ the commands' connection ended,
//	 │ SUBSCRIBE to changed keys                │   │ or the server forgot to track
//	 │ and to the notices                       ▼   │
//	 └───────────────────────────────────────▶ tracking
//
// Each arrow of an Open or Arm is an attempt, and there is at most one at a
// time. It dials, and the new connection replaces the old one once it works. If
// the attempt fails, the old connection stays. So a server that refuses the
// tracker's commands, or a proxy that hangs up on them, harms neither the
// notices nor the commands of the locks.
//
// Tracking without notices happens where the server refuses their channel, or
// the Mux has none. Its end leads to none. Once the server allows the channel,
// an Open replaces the tracker's connection, and the next Arm brings both.
//
// In every state the end of the connection leads to none. The end of tracking
// calls all watches. The end of a connection with notices calls [Ears.Missed].
//
// HAZARD: the server sends changed keys to a client id. In RESP2 a connection
// that has subscribed cannot ask for its id any more. And an old connection may
// still lead to the server from before a fail-over, where another client has
// that id. So tracking begins with a new connection, which is dialed after the
// connection of the commands.
type subscriber struct {
	m       *Mux
	tracker Tracker
	notices *Notices // nil: the Mux has none

	mu      sync.Mutex // also guards what Tracker and Notices keep
	closed  bool
	conn    *subscription // nil unless subscribed
	attempt *attempt      // nil unless one is under way
}

func (s *subscriber) init(m *Mux) {
	s.m = m
	s.tracker = Tracker{s: s, watches: make(map[string]*Watch), others: make(map[string][]*Watch)}
}

// attempt is one attempt to subscribe, shared by all goroutines that wait for
// it.
type attempt struct {
	track bool          // it is the tracker's; else the notices'
	hear  bool          // it subscribes to the notices' channel
	done  chan struct{} // closed when err is set
	err   error
}

// begin starts an attempt. mu is held.
func (s *subscriber) begin(track bool) {
	hear := s.notices != nil && (!track || s.notices.trouble.err == nil)
	s.attempt = &attempt{track: track, hear: hear, done: make(chan struct{})}
	s.m.wg.Add(1) // close takes mu before the Mux waits for wg
	go s.run(s.attempt)
}

// wait waits for the end of a. It returns the error of an attempt for the same
// purpose. After another's attempt, the caller looks again.
func (a *attempt) wait(ctx context.Context, track bool) error {
	select {
	case <-a.done:
	case <-ctx.Done():
		return &NotSentError{context.Cause(ctx)}
	}
	if a.track != track {
		return nil
	}
	return a.err
}

// run is the goroutine of an attempt.
func (s *subscriber) run(a *attempt) {
	defer s.m.wg.Done()
	c := &subscription{s: s}
	var l *link
	var err error
	if a.track {
		l, err = s.tracker.turnOn(s.m.life, c, a.hear)
	} else {
		err = c.open(s.m.life, false, true)
	}
	s.mu.Lock()
	s.attempt = nil
	switch {
	case s.closed:
		err = &NotSentError{ErrClosed}
	case a.track:
		err = s.tracker.tried(l, err)
	default:
		err = s.notices.tried(err)
	}
	useless := c
	if err == nil {
		useless = s.use(c, l)
	}
	s.mu.Unlock()
	a.err = err
	close(a.done)
	useless.close()
}

// use makes c the connection, on which l tracks unless it is nil. It returns
// the one before. mu is held.
func (s *subscriber) use(c *subscription, l *link) (old *subscription) {
	old, s.conn = s.conn, c
	s.tracker.off()
	s.tracker.on = l
	switch {
	case c.hears:
		s.notices.trouble.worked()
	case c.deaf != nil:
		s.notices.trouble.failed(c.deaf)
	}
	s.m.wg.Add(1)
	go c.read()
	return old
}

// untrack turns tracking off if l was its connection. l has ended, or the
// server does not track there any more.
func (s *subscriber) untrack(l *link) {
	var useless *subscription
	s.mu.Lock()
	if s.tracker.on == l {
		s.tracker.off()
		if !s.conn.hears {
			useless = s.conn
		}
	}
	s.mu.Unlock()
	useless.close()
}

func (s *subscriber) close() {
	s.mu.Lock()
	s.closed = true
	s.tracker.off()
	c := s.conn
	s.mu.Unlock()
	c.close()
}

// subscription is one connection of a subscriber.
type subscription struct {
	s      *subscriber
	conn   redis.Conn
	id     int64  // client id, for the tracker
	server string // run id, empty if unknown
	hears  bool   // it is subscribed to the notices' channel
	deaf   error  // the server's refusal of that

	pulse
}

// open dials and subscribes. If the server answered with an error, the result
// is a refusal. If the connection ended or was silent, it is an unheard.
func (c *subscription) open(ctx context.Context, track, hear bool) error {
	m := c.s.m
	var reached atomic.Bool
	conn, err := m.open(ctx, &m.asides, func(conn redis.Conn) error {
		reached.Store(true)
		return c.ask(conn, track, hear)
	})
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return refused
	case err != nil && reached.Load():
		return &unheard{err}
	case err != nil:
		return &NotSentError{err}
	}
	c.conn, c.beat = conn, alarm{wg: &m.wg, ring: c.tick}
	return nil
}

// ask sends the first commands. The untried ones are sent here and not on the
// connection of the locks: some proxies hang up on an unknown command.
func (c *subscription) ask(conn redis.Conn, track, hear bool) (err error) {
	if track {
		if c.id, err = redis.Int64(conn.Do("CLIENT", "ID")); err == nil {
			v, infoErr := conn.Do("INFO", "server")
			c.server = runID(Reply{v, infoErr})
			_, err = conn.Do("SUBSCRIBE", invalidate)
		}
	}
	if err == nil && hear {
		_, err = conn.Do("SUBSCRIBE", c.s.notices.channel)
		if c.hears = err == nil; track && answered(err) {
			c.deaf, err = err, nil // the tracker works without
		}
	}
	if answered(err) {
		return &refusal{err}
	}
	return err
}

// refusal is the server's answer to the first commands, as opposed to an error
// of dialing. A wrong password does not mean that the server cannot track.
type refusal struct{ err error }

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

// unheard is the end, or the silence, of an open connection before all of its
// first commands were answered.
type unheard struct{ err error }

func (e *unheard) Error() string { return "SUBSCRIBE: " + e.err.Error() }
func (e *unheard) Unwrap() error { return e.err }

// close ends the connection, if there is one. Its reader does the rest.
func (c *subscription) close() {
	if c != nil && c.conn != nil {
		_ = c.conn.Close()
	}
}

// read hands out messages until the connection ends. It reads raw replies:
// redigo's PubSubConn expects a string where invalidations have a list of keys.
func (c *subscription) read() {
	s := c.s
	defer s.m.wg.Done()
	receive := patiently(c.conn)
	for {
		v, err := receive()
		if err != nil {
			break
		}
		c.heard.Store(true)
		if m, _ := v.([]any); len(m) == 3 { // else it is an answer to PING
			c.message(m[1], m[2])
		}
	}
	c.close()
	s.mu.Lock()
	c.end()
	if s.conn == c {
		s.conn = nil
		s.tracker.off()
	}
	s.mu.Unlock()
	if c.hears {
		s.notices.ears.Missed()
	}
}

// message hands out one message. An invalidation is a list of keys, or nil when
// the server was flushed.
func (c *subscription) message(channel, payload any) {
	from, _ := channel.([]byte)
	if string(from) == invalidate {
		keys, some := payload.([]any)
		c.s.tracker.changed(keys, !some && payload == nil)
		return
	}
	if text, ok := payload.([]byte); ok {
		c.s.notices.ears.Told(text)
		runtime.Gosched() // the woken goroutine runs before the next read
	}
}
