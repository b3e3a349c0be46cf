// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Pool returns a pool of connections to the server, without connecting yet. The
// connections themselves have no deadline on replies; package wire gives every
// call one.
func (a Address) Pool(o Options) (*redis.Pool, error) {
	if a.ofCluster() {
		return nil, errWholeCluster
	}
	d, err := a.dialer(o)
	if err != nil {
		return nil, err
	}
	return &redis.Pool{DialContext: d.dial}, nil
}

// Nodes are the nodes of a Redis Cluster.
type Nodes struct {
	Seeds []string                          // host:port of the nodes that the address names
	Pool  func(hostPort string) *redis.Pool // connections to any node
}

// Nodes returns the nodes of a redis+cluster:// or rediss+cluster:// address,
// without connecting yet, and no Seeds for an address of another kind. User,
// password, certificates and DialContext are the same for every node.
func (a Address) Nodes(o Options) (Nodes, error) {
	if !a.ofCluster() {
		return Nodes{}, nil
	}
	d, err := a.dialer(o)
	if err != nil {
		return Nodes{}, err
	}
	return Nodes{a.hosts, func(hostPort string) *redis.Pool {
		return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			return d.dialAt(ctx, "tcp", hostPort)
		}}
	}}, nil
}

func (a Address) dialer(o Options) (*dialer, error) {
	if a.kind == "" {
		return nil, errNoAddress
	}
	if err := a.checked(o); err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 30 * time.Second
	}
	d := &dialer{Address: a, options: o, net: net.Dialer{KeepAlive: o.KeepAlive}}
	switch {
	case o.Conn != nil:
		d.connect = func(ctx context.Context, _, _ string) (net.Conn, error) { return o.Conn(ctx) }
	case o.DialContext != nil:
		d.connect = o.DialContext
	default:
		d.connect = d.net.DialContext
	}
	return d, nil
}

type dialer struct {
	Address
	options Options
	net     net.Dialer
	connect func(ctx context.Context, network, address string) (net.Conn, error)
	last    atomic.Pointer[string] // sentinel that led to a master last time
	known   atomic.Bool            // a login at the server has succeeded
}

// dial is the pool's hook.
func (d *dialer) dial(ctx context.Context) (redis.Conn, error) {
	switch {
	case d.kind == socket:
		return d.dialAt(ctx, "unix", d.path)
	case d.viaSentinels():
		return d.dialAt(ctx, "", "")
	}
	return d.dialAt(ctx, "tcp", d.hosts[0])
}

// dialAt connects to the server at address; without one, to the master that the
// sentinels name.
func (d *dialer) dialAt(ctx context.Context, network, address string) (redis.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.options.Timeout)
	defer cancel()
	found, err := d.access(ctx)
	if err != nil {
		return nil, err
	}
	if address == "" {
		return d.throughSentinels(ctx, found)
	}
	return d.open(ctx, found, network, address)
}

// open connects to the server and logs in.
func (d *dialer) open(ctx context.Context, found access, network, address string) (redis.Conn, error) {
	p := &peer{dialer: d, found: found, who: "server", connect: d.connect,
		tls: found.tls, login: found.server}
	c, err := p.open(ctx, network, address, d.db)
	switch {
	case err == nil:
		d.known.Store(true)
	case d.known.Load() && d.rotates() && refusesPassword(err):
		return nil, &rotating{err}
	}
	return c, err
}

// rotates reports that the password may be another one at the next dial.
func (d *dialer) rotates() bool { return d.options.PasswordFile != "" || d.options.Credentials != nil }

// rotating is a refused password where an earlier one was accepted: the server
// has the new one, or the file or func still the old one.
type rotating struct{ error }

func (e *rotating) Unwrap() error { return e.error }

// Passing is true: package wire dials again.
func (e *rotating) Passing() bool { return true }

const sentinelName = "sentinel"

// peer is the server or a sentinel, and how to connect to it.
type peer struct {
	*dialer
	found   access
	who     string // for errors: server, or sentinelName
	connect func(ctx context.Context, network, address string) (net.Conn, error)
	tls     *tls.Config
	login   login
	certs   atomic.Bool // it asked for a client certificate
}

// open connects, logs in and awaits one reply. Every error of a connection
// passes through conceal here. Some refusals, such as of a
// missing client certificate, come only after the server seemed to accept. The
// deadline of ctx bounds all of it.
func (p *peer) open(ctx context.Context, network, address string, db int) (redis.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c, err := redis.DialContext(ctx, network, address,
		redis.DialContextFunc(p.encrypted),
		redis.DialUsername(p.login.user), redis.DialPassword(p.login.password), redis.DialDatabase(db))
	if err == nil && p.login.password == "" && db == 0 {
		_, err = redis.DoContext(c, ctx, "PING")
		if isReply(err) && !demandsPassword(err) && !refusesAll(err) {
			err = nil // it answers, and the caller's own commands show the rest
		}
		if err != nil {
			_ = c.Close()
		}
	}
	if err != nil {
		return nil, p.explained(p.conceal(p.found, err))
	}
	return c, nil
}

// encrypted connects and does the TLS handshake.
func (p *peer) encrypted(ctx context.Context, network, address string) (net.Conn, error) {
	plain, err := p.connect(ctx, network, address)
	if err != nil || p.tls == nil {
		return plain, err
	}
	config := p.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	pick := config.GetClientCertificate
	config.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		p.certs.Store(true)
		if pick != nil {
			return pick(asked)
		}
		for i := range config.Certificates {
			if asked.SupportsCertificate(&config.Certificates[i]) == nil || len(config.Certificates) == 1 {
				return &config.Certificates[i], nil
			}
		}
		return new(tls.Certificate), nil
	}
	c := tls.Client(plain, config)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, &handshakeError{err}
	}
	return c, nil
}

// handshakeError tells a failure of the handshake from those after it.
type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }

// conceal removes the passwords from an error: servers and proxies that do not
// know a command repeat its arguments. An error reply stays a redis.Error,
// since callers read its code. conceal does not wrap the original error,
// because errors.Unwrap would show the password again.
func (d *dialer) conceal(found access, err error) error {
	text := d.concealText(found, err.Error())
	if text == err.Error() {
		return err
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return redis.Error(d.concealText(found, string(reply)))
	}
	return errors.New(text)
}

func (d *dialer) concealText(found access, text string) string {
	for _, password := range []string{found.server.password, found.sentinel.password} {
		if password != "" {
			text = concealed(text, password)
		}
	}
	if d.asked != "" {
		text = strings.ReplaceAll(text, d.asked, "***")
	}
	return text
}

func concealed(text, password string) string {
	// A server may shorten what it repeats, so that the text has only a part of
	// the password.
	if i := strings.Index(text, repeats); i >= 0 {
		text = text[:i] + repeats + " ***"
	}
	for _, secret := range []string{
		password, strings.Map(blank, password),
		url.PathEscape(password), url.QueryEscape(password),
		url.UserPassword("", password).String()[1:],
		strings.Trim(fmt.Sprintf("%q", password), `"`),
	} {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

const repeats = "with args beginning with:"

// blank replaces line ends as servers do in an error reply, which is one line.
func blank(r rune) rune {
	if r == '\r' || r == '\n' {
		return ' '
	}
	return r
}
