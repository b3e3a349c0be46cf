package wire

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// invalidate is the channel on which a server that speaks RESP2 reports changed
// keys.
const invalidate = "__redis__:invalidate"

// listener is the connection to which the server sends invalidations. It reads
// raw replies: redigo's PubSubConn expects a string where these have a list of
// keys.
type listener struct {
	t      *Tracker
	id     int64
	server string // run id, empty if unknown

	pulse
}

// subscribe opens a listener. It sends untried commands here first, and not on
// the connection of the locks: some proxies hang up on an unknown command.
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

// refusal is the server's answer to the listener's commands, as opposed to an
// error of dialing. A wrong password does not mean that the server cannot
// track.
type refusal struct{ err error }

func (e *refusal) Error() string { return e.err.Error() }

// unheard is the end, or the silence, of an open connection before all of the
// listener's first commands were answered.
type unheard struct{ err error }

func (e *unheard) Error() string { return "SUBSCRIBE: " + e.err.Error() }
func (e *unheard) Unwrap() error { return e.err }

// refusedBy marks a lasting refusal of the server with ErrNoWake. Trouble that
// will pass is not marked.
func refusedBy(err error) error {
	if !answered(err) || IsTransient(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoWake, err)
}

var runIDLine = regexp.MustCompile(`(?m)^run_id:(\w+)`)

// runID finds the server's run id in a reply to INFO, for which a user may lack
// the right.
func runID(r Reply) string {
	b, _ := r.Value.([]byte)
	if found := runIDLine.FindSubmatch(b); found != nil {
		return string(found[1])
	}
	return ""
}

// start begins to listen. The Tracker's mu is held, and Close joins the caller.
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

// message hands out one invalidation: a list of keys, or nil when the server
// was flushed. Anything else on this connection is an answer to PING.
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
