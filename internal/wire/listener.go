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
	conn   redis.Conn
	id     int64
	server string // run id, empty if not told

	heard  atomic.Bool // since the last beat
	armed  bool        // the Tracker's mu guards what follows
	pinged bool        // and nothing was heard since
	asking bool        // a PING is being written
	dead   bool
	beat   alarm
}

// subscribe opens a listener. What it tries it tries here first and not on the connection that
// carries the locks: some proxies hang up on a command that they do not know.
func (t *Tracker) subscribe(ctx context.Context) (*listener, error) {
	s := &listener{t: t}
	conn, err := t.m.open(ctx, func(conn redis.Conn) (err error) {
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
	case err != nil:
		return nil, &NotSentError{err}
	}
	s.conn = conn
	s.beat = alarm{wg: &t.m.wg, ring: s.tick}
	return s, nil
}

// refusal tells what the server said to the listener's commands from what it said while dialing: a
// wrong password is no reason to call it unable to track.
type refusal struct{ err error }

func (e *refusal) Error() string { return e.err.Error() }

// refusedBy makes a refusal of the server one that lasts. Trouble that will pass is none.
func refusedBy(err error) error {
	if !answered(err) || IsLoading(err) || IsBusy(err) {
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
	for {
		v, err := receive(s.conn)
		if err != nil {
			break
		}
		s.heard.Store(true)
		s.message(v)
	}
	s.t.mu.Lock()
	s.dead = true
	if s.armed {
		s.beat.stop()
	}
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

// listen starts the beat, by which a connection that died without a word is noticed within two
// Timeouts. The Tracker's mu is held.
func (s *listener) listen() {
	if !s.armed && !s.dead {
		s.armed, s.pinged = true, false
		s.beat.set(s.t.m.opts.Timeout / 2)
	}
}

// tick is one beat: silence brings a PING, and more silence the end. It stops by itself when nobody
// waits any more.
func (s *listener) tick() {
	heard := s.heard.Swap(false)
	s.t.mu.Lock()
	s.armed = false
	if s.dead || len(s.t.watches) == 0 {
		s.t.mu.Unlock()
		return
	}
	silent := s.asking || s.pinged && !heard
	ask := !silent && !heard
	s.pinged, s.asking = ask, ask
	if !silent {
		s.armed = true
		s.beat.set(s.t.m.opts.Timeout / 2)
	}
	s.t.mu.Unlock()
	switch {
	case silent:
		_ = s.conn.Close() // the reader tells the rest
	case ask:
		s.ping()
	}
}

// ping asks for a sign of life. Nobody else sends on this connection, and while this hangs the next
// beat ends it.
func (s *listener) ping() {
	if s.conn.Send("PING") == nil {
		_ = s.conn.Flush() // the reader learns of an error as well
	}
	s.t.mu.Lock()
	s.asking = false
	s.t.mu.Unlock()
}
