// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// hosts is the list of servers, which may change at any time. All sessions of
// a Backend share it.
type hosts struct {
	mu      sync.Mutex
	servers []string
	trouble error            // of the last connection; nil: it succeeded
	of      map[string]error // by server: trouble of its last connection
}

func (h *hosts) set(servers []string) error {
	if len(servers) == 0 {
		return errors.New("zookeeper: the list of servers is empty")
	}
	servers = zk.FormatServers(servers)
	for _, server := range servers {
		if _, _, err := net.SplitHostPort(server); err != nil {
			return fmt.Errorf("zookeeper: the server %q is no host:port: %w", server, err)
		}
	}
	h.mu.Lock()
	h.servers, h.of = servers, nil
	h.mu.Unlock()
	return nil
}

func (h *hosts) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.servers)
}

func (h *hosts) failed(server string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[string]error{}
	}
	h.trouble, h.of[server] = err, err
}

// hopeless reports whether waiting mends nothing: each server of the list has a
// certificate that is not trusted, a name that does not exist, or wants a
// certificate of the client.
func (h *hosts) hopeless() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, server := range h.servers {
		var cert *tls.CertificateVerificationError
		var name *net.DNSError
		err := h.of[server]
		if !errors.As(err, &cert) && (!errors.As(err, &name) || !name.IsNotFound) && !rejected(err) {
			return false
		}
	}
	return true
}

// rejected reports whether a server accepted no certificate of the client.
// Package crypto/tls does not export the type of a server's alert.
func rejected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate")
}

// lastTrouble is a clause for errors.
func (h *hosts) lastTrouble() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trouble == nil {
		return ""
	}
	return " The last connection failed: " + h.trouble.Error()
}

// turns is one session's way through the list: the library's HostProvider. It
// gives names, not addresses, so that each connection resolves them anew.
type turns struct {
	hosts *hosts
	round func() // called when no server of a whole round answered

	mu     sync.Mutex
	at     int
	failed int // servers in a row that did not answer
}

// turns returns a way that begins anywhere in the list, so that processes which
// have the same list spread over the servers.
func (h *hosts) turns(round func()) *turns {
	return &turns{hosts: h, round: round, at: rand.IntN(len(h.list()))}
}

func (t *turns) Init([]string) error { return nil }
func (t *turns) Len() int            { return len(t.hosts.list()) }

// Next returns the next server, and whether no server of a whole round
// answered.
func (t *turns) Next() (string, bool) {
	servers := t.hosts.list()
	t.mu.Lock()
	server := servers[t.at%len(servers)]
	t.at++
	around := t.failed >= len(servers)
	if around {
		t.failed = 0
	}
	t.failed++
	t.mu.Unlock()
	if around {
		t.round()
	}
	return server, around
}

func (t *turns) Connected() {
	t.mu.Lock()
	t.failed = 0
	t.mu.Unlock()
}

// dial connects one session. The library would go on with a new session after
// the end of the old one; a session that is over gets no connection.
func (s *session) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	if s.isOver() {
		return nil, sessions.ErrOver
	}
	// The library allows a second, which is short for TLS over a long way.
	timeout = max(timeout, min(s.b.cfg.Timeout, s.ttl/6))
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := s.b.connect(ctx, network, address)
	s.b.hosts.failed(address, err)
	if err != nil {
		return nil, err
	}
	greet, stop := context.WithTimeout(context.Background(), s.b.cfg.Timeout)
	by, _ := greet.Deadline()
	stop()
	_ = conn.SetReadDeadline(by)
	if !s.connected(conn) {
		_ = conn.Close()
		return nil, sessions.ErrOver
	}
	return &tap{Conn: conn, s: s, address: address}, nil
}

// connect dials a server, with TLS where that was chosen.
func (b *engine) connect(ctx context.Context, network, address string) (net.Conn, error) {
	connect := b.cfg.Dial
	if connect == nil {
		connect = new(net.Dialer).DialContext
	}
	conn, err := connect(ctx, network, address)
	if err == nil && b.cfg.TLS != nil {
		conn, err = handshake(ctx, conn, address, b.cfg.TLS)
	}
	return conn, err
}

func handshake(ctx context.Context, conn net.Conn, address string, cfg *tls.Config) (net.Conn, error) {
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = address[:strings.LastIndex(address, ":")]
	}
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS with %s: %w", address, err)
	}
	return secure, nil
}

// greeting is how many bytes of the first frame are read: its length, the
// protocol's version, the timeout in milliseconds, the session's id.
const greeting = 4 + 4 + 4 + 8

// tap reads the first frame of a connection. The library keeps the timeout that
// the server granted to itself.
type tap struct {
	net.Conn
	s       *session
	address string          // as in the list of servers
	sent    backend.Instant // before the first frame was sent
	head    []byte
}

// SetReadDeadline leaves the deadline of the greeting to dial. The library
// would wait for the rest of a greeting for ever, also at a server that is no
// ZooKeeper.
func (t *tap) SetReadDeadline(at time.Time) error {
	if len(t.head) < greeting {
		return nil
	}
	return t.Conn.SetReadDeadline(at)
}

func (t *tap) Write(p []byte) (int, error) {
	if t.sent.Wall.IsZero() {
		t.sent = t.s.Read()
	}
	return t.Conn.Write(p)
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if len(t.head) == greeting {
		return n, err
	}
	t.head = append(t.head, p[:min(n, greeting-len(t.head))]...)
	switch {
	case len(t.head) == greeting:
		timeout := time.Duration(binary.BigEndian.Uint32(t.head[8:])) * time.Millisecond
		t.s.greeted(t, int64(binary.BigEndian.Uint64(t.head[12:])), timeout)
	case rejected(err):
		t.s.b.hosts.failed(t.address, fmt.Errorf(
			"%s wants a certificate that it trusts (set Config.TLS.Certificates): %w", t.address, err))
	case err != nil:
		t.s.b.hosts.failed(t.address, fmt.Errorf("%s accepted the connection and did not greet: %w",
			t.address, err))
	}
	return n, err
}
