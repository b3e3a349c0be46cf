// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// answerWithin is how long run --wait 0s waits for an answer of the server, and
// as long as two round trips more, unless Env.Timeout says how long. A longer
// --wait bounds the wait itself.
const answerWithin = 150 * time.Millisecond

// silentError says that the server answered nothing in time.
type silentError struct{ tls bool }

func (e silentError) Error() string {
	if e.tls {
		return "the server is silent: if it does not speak TLS at that port, write redis:// (redis+sentinel://, redis+cluster://); else check the network and its load, or wait longer by --wait"
	}
	return "the server is silent: check the network and its load, or wait longer by --wait"
}

// Passing is true, as of every silence.
func (silentError) Passing() bool { return true }

// silence ends a question or a single attempt at a server that takes requests
// and answers none. It sees only the bytes, so an attempt that waits for an old
// client's gap is not cut off.
type silence struct {
	within time.Duration // how long the server may be silent
	tls    bool          // the address asks for TLS

	mu    sync.Mutex
	end   context.CancelCauseFunc // ends what is under way; nil: there is nothing
	began bool                    // the server owes an answer for too long
	spare bool                    // it gets more time
}

// during returns the context of a question or an attempt, and a func that ends
// its watch. Where the server was silent before, it gets the time once more: a
// question that is a courtesy must not cost the attempt after it.
func (s *silence) during(ctx context.Context) (context.Context, func()) {
	if s == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.set(func() { s.end, s.spare = cancel, s.began })
	late := time.AfterFunc(s.within, func() { s.set(func() { s.spare = false }) })
	return ctx, func() {
		late.Stop()
		s.set(func() { s.end = nil })
		cancel(nil)
	}
}

// set changes the state, and ends what is under way if the server is silent.
func (s *silence) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	if s.began && !s.spare && s.end != nil {
		s.end(silentError{s.tls})
	}
}

func (s *silence) fell()  { s.set(func() { s.began = true }) }
func (s *silence) heard() { s.set(func() { s.began = false }) }

// dial connects as redisconn does, and watches the connection.
func (s *silence) dial(ctx context.Context, network, address string) (net.Conn, error) {
	began := time.Now()
	dialer := net.Dialer{KeepAlive: 30 * time.Second}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &answering{Conn: conn, silence: s, patience: s.within + 2*time.Since(began)}, nil
}

// answering is a connection whose requests should be answered in time.
type answering struct {
	net.Conn
	silence  *silence
	patience time.Duration

	mu    sync.Mutex
	timer *time.Timer // not nil while the server owes an answer
}

func (a *answering) Write(p []byte) (int, error) {
	a.mu.Lock()
	if a.timer == nil {
		a.timer = time.AfterFunc(a.patience, a.silence.fell)
	}
	a.mu.Unlock()
	return a.Conn.Write(p)
}

func (a *answering) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	a.rest()
	if n > 0 {
		a.silence.heard()
	}
	return n, err
}

func (a *answering) Close() error {
	a.rest()
	return a.Conn.Close()
}

func (a *answering) rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// closing is how long run waits for background work after it got no lock. The
// undo of an attempt without an answer was sent behind the attempt, on the same
// connection, so there is nothing to wait for.
func closing(err error) time.Duration {
	var silent silentError
	if errors.Is(err, lock.ErrWaitEnded) || errors.As(err, &silent) {
		return answerWithin
	}
	return closeWait
}
