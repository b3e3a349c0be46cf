// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// session is one ZooKeeper session, and all nodes of this process that live
// with it.
//
//	          greeted          idle for ten TTLs, or no trust in it
//	──▶ new ────────▶ in use ──────────────────────────────▶ retired
//	                    │                                       │ no node is
//	                    │ a server says that it expired         │ left: closed
//	                    └──────────────▶ over ◀─────────────────┘
type session struct {
	*sessions.Session[*grant]

	b      *engine
	ttl    time.Duration   // timeout that is asked for
	opened chan struct{}   // closed when the session was greeted for the first time
	absent chan struct{}   // capacity 1: no server of a round answered
	conn   *zk.Conn        // written before the session is shared
	events <-chan zk.Event // closed when the library's goroutines have ended
	calls  sync.WaitGroup  // requests that were sent

	// Guarded by the mutex.
	id      int64
	timeout time.Duration // timeout that the servers granted
	trust   trust
	dialed  net.Conn // last connection; it may not have greeted
	net     *tap     // connection that greeted last
	watches map[string]*watch
}

// silent drops the library's log: what matters comes back as an error.
type silent struct{}

func (silent) Printf(string, ...any) {}

// sendBuffer is the longest request in bytes. The longest sets the watches
// again, 128 KiB at a time.
const sendBuffer = 256 << 10

// session returns the session for a TTL, and opens it if there is none in which
// a new lock would be trusted.
func (b *engine) session(ctx context.Context, ttl time.Duration) (*session, error) {
	ttl = ttl.Truncate(time.Millisecond)
	if s, err := b.usable(ttl); s != nil || err != nil {
		return s, err
	}
	turn, cancel := context.WithTimeoutCause(ctx, b.cfg.Timeout, errNoReply)
	defer cancel()
	select {
	case b.opening <- struct{}{}:
		defer func() { <-b.opening }()
	case <-turn.Done(): // others find no server either, one after the other
		return nil, context.Cause(turn)
	}
	if s, err := b.usable(ttl); s != nil || err != nil {
		return s, err
	}
	return b.open(ctx, ttl)
}

// usable returns the session for a TTL if new locks may use it, else nil.
func (b *engine) usable(ttl time.Duration) (*session, error) {
	b.Lock()
	s, closed := b.Open[b.clipped(ttl)], b.Closed
	b.Unlock()
	if closed {
		return nil, errClosed
	}
	if s == nil {
		return nil, nil
	}
	s.Use()
	s.Lock()
	fit := !s.Over() && !s.trust.stale(s.Now(), min(s.timeout, s.ttl))
	s.Unlock()
	if !fit {
		b.Retire(s)
		return nil, nil
	}
	return s, nil
}

// open makes a session. Called with the turn to open.
func (b *engine) open(ctx context.Context, ttl time.Duration) (*session, error) {
	s := &session{Session: sessions.New[*grant](ctx), b: b, ttl: ttl, opened: make(chan struct{}),
		absent: make(chan struct{}, 1), watches: map[string]*watch{}}
	conn, events, err := zk.Connect(b.hosts.list(), ttl, zk.WithHostProvider(b.hosts.turns(s.unanswered)),
		zk.WithDialer(s.dial), zk.WithLogger(silent{}), zk.WithLogInfo(false),
		zk.WithMaxConnBufferSize(sendBuffer), zk.WithEventCallback(s.happened))
	if err != nil {
		return nil, err
	}
	s.conn, s.events = conn, events
	if err := s.greet(ctx); err != nil {
		s.drop()
		return nil, err
	}
	s.Lock()
	granted := s.timeout
	s.Unlock()
	b.Lock()
	started := b.Start(s, s.keeper)
	if started {
		b.enlist(s, granted)
	}
	b.Unlock()
	if !started {
		s.drop()
		return nil, errClosed
	}
	return s, nil
}

// clipped returns the key in Open for a TTL. Called with b locked.
func (b *engine) clipped(ttl time.Duration) time.Duration {
	if b.longest > 0 {
		return min(ttl, b.longest)
	}
	return ttl
}

// enlist adds a new session. TTLs that exceed what the servers grant share one.
// Called with b locked.
func (b *engine) enlist(s *session, granted time.Duration) {
	switch {
	case granted < s.ttl:
		b.longest = granted
	case s.ttl > b.longest:
		b.longest = 0 // other servers, or another configuration
	}
	b.Open[b.clipped(s.ttl)] = s
}

// greet waits for the session, names its user, and checks its timeout.
func (s *session) greet(ctx context.Context) error {
	call, cancel := context.WithTimeoutCause(ctx, s.b.cfg.Timeout, errNoReply)
	defer cancel()
	select {
	case <-s.opened:
	case <-s.absent:
		return zk.ErrNoServer
	case <-s.Done():
		return sessions.ErrOver
	case <-call.Done():
		return context.Cause(call)
	}
	s.Lock()
	granted, address := s.timeout, s.net.address
	s.Unlock()
	if granted > s.ttl {
		return &sessions.Trouble{Text: fmt.Sprintf(
			"zookeeper: the server keeps sessions for at least %v (its minSessionTimeout); set Config.TTL to that or more",
			granted), Err: fmt.Errorf("Config.TTL is %v", s.ttl), Replied: true}
	}
	if err := s.examine(ctx, address, granted); err != nil || s.b.cfg.User == "" {
		return err
	}
	_, err := ask(ctx, s, func() (struct{}, error) {
		return struct{}{}, s.conn.AddAuth("digest", []byte(s.b.cfg.User+":"+s.b.cfg.Password))
	})
	return err
}

// unanswered notes that no server of a whole round answered.
func (s *session) unanswered() {
	select {
	case s.absent <- struct{}{}:
	default:
	}
}

// connected notes a new connection, so that the end of the session ends it. It
// returns false if the session is over.
func (s *session) connected(conn net.Conn) bool {
	s.Lock()
	defer s.Unlock()
	s.dialed = conn
	return !s.Over()
}

// greeted takes what a server said first. The session is the one that was asked
// for, or 0 if that expired.
func (s *session) greeted(by *tap, id int64, timeout time.Duration) {
	if s.tooShort(by, id, timeout) {
		s.b.cfg.Logger.Warn("the servers now keep this session for less time than its leases were granted for (their maxSessionTimeout): its locks are lost",
			"server", by.address, "granted", timeout)
		s.end()
	}
	s.Lock()
	defer s.Unlock()
	switch {
	case id == 0:
	case s.id == 0:
		s.id, s.timeout, s.net = id, timeout, by
		s.trust = begin(write{by.sent, s.Now()})
	default:
		// The timeout was negotiated anew, perhaps with another server.
		moved := s.net.address != by.address
		s.timeout, s.net = min(s.timeout, timeout), by
		if moved && !s.Over() {
			s.calls.Go(func() {
				if err := s.examine(s.b.Life, by.address, timeout); err != nil {
					s.b.cfg.Logger.Warn(err.Error(), "server", by.address)
				}
			})
		}
	}
}

// tooShort reports whether the servers, by a timeout that became shorter, may
// end the session before the trust in leases ends that were granted by the
// longer one. Only the end of the session here takes that trust back: a renewal
// may get no answer.
func (s *session) tooShort(by *tap, id int64, timeout time.Duration) bool {
	s.Lock()
	defer s.Unlock()
	return id != 0 && s.id != 0 && s.trust.mark.Elapsed+s.timeout > by.sent.Elapsed+timeout
}

func (s *session) hasSession() {
	select {
	case <-s.opened:
	default:
		close(s.opened)
	}
}

func (s *session) isOver() bool {
	s.Lock()
	defer s.Unlock()
	return s.Over()
}

// term returns the trust that the session has now.
func (s *session) term(ttl time.Duration) backend.Term {
	s.Use()
	s.Lock()
	mark, timeout := s.trust.mark, s.timeout
	s.Unlock()
	if timeout < ttl && s.b.noticed.first("shorter") {
		s.b.cfg.Logger.Warn("the servers keep sessions for a shorter time than Config.TTL (their maxSessionTimeout); leases are trusted for that time only, so set Config.TTL to it",
			"asked", ttl, "granted", timeout)
	}
	return backend.Term{Sent: mark, TTL: min(ttl, timeout)}
}

// ask runs a request of the library, which takes no context. If ctx ends first,
// or Config.Timeout passes, the request runs on.
func ask[T any](ctx context.Context, s *session, request func() (T, error)) (reply T, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.b.cfg.Timeout, errNoReply)
	defer cancel()
	type result struct {
		reply T
		err   error
	}
	done := make(chan result, 1)
	s.Lock()
	if s.Over() {
		s.Unlock()
		return reply, sessions.ErrOver
	}
	s.calls.Go(func() {
		reply, err := request()
		done <- result{reply, err}
	})
	s.Unlock()
	select {
	case got := <-done:
		if got.err != nil && s.isOver() {
			return reply, sessions.ErrOver
		}
		return got.reply, got.err
	case <-s.Done():
		return reply, sessions.ErrOver
	case <-ctx.Done():
		return reply, context.Cause(ctx)
	}
}

// sample returns a node for the next sign of life: one that is held, so that
// its loss is seen too, else the chroot.
func (s *session) sample() (*grant, string) {
	s.Lock()
	defer s.Unlock()
	for _, g := range s.Held() {
		if !g.deleted {
			return g, g.path
		}
	}
	if s.b.cfg.Chroot != "" {
		return nil, s.b.cfg.Chroot
	}
	return nil, "/"
}

// write sends a sign of life: a transaction that only checks a node. A majority
// commits it, and it changes nothing that a watch would report.
func (s *session) write(ctx context.Context) error {
	if err := s.Begin(ctx); err != nil {
		return err
	}
	defer s.Yield()
	for {
		g, path := s.sample()
		sent := s.Read()
		_, err := ask(ctx, s, func() ([]zk.MultiResponse, error) {
			return s.conn.Multi(&zk.CheckVersionRequest{Path: path, Version: -1})
		})
		if g != nil && errors.Is(err, zk.ErrNoNode) {
			s.Lock()
			g.deleted = true
			s.Unlock()
			continue // with another node
		}
		// The ensemble commits a transaction that fails, with its error. So a
		// node that this user may not read, and a chroot that is gone, prove as
		// much as any other node.
		if errors.Is(err, zk.ErrNoAuth) || g == nil && errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
		if err == nil {
			s.committed(sent)
		}
		return err
	}
}

func (s *session) committed(sent backend.Instant) {
	s.Lock()
	defer s.Unlock()
	s.trust = s.trust.committed(write{sent, s.Now()}, s.timeout)
}

// renew sends a sign of life if one is due, else it only reads g's node. Either
// makes the server deliver what it has to report of watched nodes.
func (s *session) renew(ctx context.Context, g *grant) error {
	s.Lock()
	due := s.Now() >= s.trust.last.done+gap(s.timeout)
	s.Unlock()
	if due {
		return s.write(ctx)
	}
	return s.flush(ctx, g)
}

// flush reads g's node.
func (s *session) flush(ctx context.Context, g *grant) error {
	there, err := s.there(ctx, g.path)
	if err == nil && !there {
		s.Lock()
		g.deleted = true
		s.Unlock()
	}
	return err
}

// stale reports whether a new lock would be trusted for too short.
func (s *session) stale() bool {
	s.Lock()
	defer s.Unlock()
	return s.trust.stale(s.Now(), min(s.timeout, s.ttl))
}

// end records that the session is over, and with it all its nodes. It does not
// block.
func (s *session) end() {
	s.End()
	s.Lock()
	var calls []*call
	for _, w := range s.watches {
		for c := range w.calls {
			calls = append(calls, c)
		}
	}
	clear(s.watches)
	s.Unlock()
	for _, c := range calls {
		c.fn(false)
	}
}

// close ends the session at the servers, which delete its nodes.
func (s *session) close() {
	s.conn.Close()
	s.end()
	s.join()
}

// drop ends the session here only: its nodes live until it expires.
func (s *session) drop() {
	s.end()
	s.reconnect()
	s.conn.Close()
	s.join()
}

// join waits for the library's goroutines and for requests under way.
func (s *session) join() {
	for range s.events { // closed at the end
	}
	s.calls.Wait()
}

// reconnect ends the connection, so that the library finds another server.
func (s *session) reconnect() {
	s.Lock()
	conn := s.dialed
	s.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}
