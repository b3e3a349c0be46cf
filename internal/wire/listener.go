package wire

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// invalidate is the channel on which a server that speaks RESP2 tells of changed keys.
const invalidate = "__redis__:invalidate"

// listener is the connection to which the server sends invalidations. They are read as they come:
// redigo's PubSubConn expects a string where they carry a list of keys.
type listener struct {
	t      *Tracker
	id     int64
	server string // run id, empty if not told

	pulse
}

// subscribe opens a listener. What it tries it tries here first and not on the connection that
// carries the locks: some proxies hang up on a command that they do not know.
func (t *Tracker) subscribe(ctx context.Context) (*listener, error) {
	s := &listener{t: t}
	var reached atomic.Bool
	conn, err := t.m.open(ctx, &t.m.asides, func(conn redis.Conn) (err error) {
		reached.Store(true)
		if s.id, err = redis.Int64(conn.Do("CLIENT", "ID")); err == nil {
			v, infoErr := conn.Do("INFO", "server")
			s.server = runID(Reply{v, infoErr})
			_, err = conn.Do("SUBSCRIBE", invalidate)
		}
		if err != nil && answered(err) {
			return &refusal{err}
		}
		return err
	})
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return nil, refusedBy(refused.err)
	case err != nil && reached.Load():
		return nil, &unheard{err}
	case err != nil:
		return nil, &NotSentError{err}
	}
	s.init(t.m, &t.mu, conn, func() bool { return len(t.watches)+len(t.others) > 0 })
	return s, nil
}

// refusal tells what the server said to the listener's commands from what it said while dialing: a
// wrong password is no reason to call it unable to track.
type refusal struct{ err error }

func (e *refusal) Error() string { return e.err.Error() }

// unheard is an end of a connection that was there, or its silence, before
// everything was answered that a listener sends first.
type unheard struct{ err error }

func (e *unheard) Error() string { return "SUBSCRIBE: " + e.err.Error() }
func (e *unheard) Unwrap() error { return e.err }

// refusedBy makes a refusal of the server one that lasts. Trouble that will pass is none.
func refusedBy(err error) error {
	if !answered(err) || IsTransient(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoWake, err)
}

var runIDLine = regexp.MustCompile(`(?m)^run_id:(\w+)`)

// runID finds the server's run id in a reply to INFO, which users may lack the right to ask for.
func runID(r Reply) string {
	b, _ := r.Value.([]byte)
	if found := runIDLine.FindSubmatch(b); found != nil {
		return string(found[1])
	}
	return ""
}

// start begins to listen. The Tracker's mu is held, and its caller is joined by Close.
func (s *listener) start() {
	s.t.m.wg.Add(1)
	go s.read()
}

func (s *listener) read() {
	defer s.t.m.wg.Done()
	receive := patiently(s.conn)
	for {
		v, err := receive()
		if err != nil {
			break
		}
		s.heard.Store(true)
		s.message(v)
	}
	s.t.mu.Lock()
	s.end()
	s.t.mu.Unlock()
	_ = s.conn.Close()
	s.t.listenerLost(s)
}

// message hands out one invalidation: a list of keys, or nothing at all when the server was flushed.
// Anything else on this connection is an answer to PING.
func (s *listener) message(v any) {
	m, _ := v.([]any)
	if len(m) != 3 {
		return
	}
	kind, _ := m[0].([]byte)
	channel, _ := m[1].([]byte)
	if string(kind) != "message" || string(channel) != invalidate {
		return
	}
	keys, _ := m[2].([]any)
	if m[2] == nil {
		s.t.flushed(s)
	}
	for _, k := range keys {
		if key, ok := k.([]byte); ok {
			s.t.changed(s, key)
		}
	}
}
