package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Options are settings that an address does not contain.
type Options struct {
	// CACert is a file with PEM certificates. The server's certificate is
	// checked against these instead of the system's.
	CACert string

	// CACertFrom is the user's name for CACert, such as a flag, for errors.
	// Defaults to --cacert.
	CACertFrom string

	// Timeout bounds connecting, TLS and authentication together. Defaults to
	// 5 s.
	Timeout time.Duration

	// KeepAlive is the time between the system's probes of an idle connection.
	// Defaults to 30 s, well below the minutes after which firewalls forget a
	// connection.
	KeepAlive time.Duration

	// DialContext opens the connections to the server, before TLS. Defaults to
	// a net.Dialer with KeepAlive. Connections to sentinels always use that
	// default.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// Pool returns a pool of connections to the server, without connecting yet. The
// connections themselves have no deadline on replies; package wire gives every
// call one.
func (a Address) Pool(o Options) (*redis.Pool, error) {
	d, err := a.dialer(o)
	if err != nil {
		return nil, err
	}
	return &redis.Pool{DialContext: d.dial}, nil
}

func (a Address) dialer(o Options) (*dialer, error) {
	if a.kind == "" {
		return nil, errNoAddress
	}
	d := &dialer{Address: a, timeout: o.Timeout}
	if d.timeout == 0 {
		d.timeout = 5 * time.Second
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 30 * time.Second
	}
	d.net = net.Dialer{KeepAlive: o.KeepAlive}
	d.connect = o.DialContext
	if d.connect == nil {
		d.connect = d.net.DialContext
	}
	if o.CACertFrom == "" {
		o.CACertFrom = "--cacert"
	}
	switch {
	case a.TLS():
		config, err := tlsConfig(o.CACert, o.CACertFrom)
		if err != nil {
			return nil, err
		}
		d.tls = config
		if o.CACert != "" {
			d.vouch = o.CACertFrom + " " + o.CACert
		}
	case o.CACert != "":
		return nil, fmt.Errorf("%s is for addresses that begin with rediss://", o.CACertFrom)
	}
	return d, nil
}

func tlsConfig(file, from string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return config, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: %s holds no PEM certificate", from, file)
	}
	return config, nil
}

type dialer struct {
	Address
	net     net.Dialer
	connect func(ctx context.Context, network, address string) (net.Conn, error)
	tls     *tls.Config // nil: no TLS
	vouch   string      // source of tls's certificates, for errors; empty: the system
	timeout time.Duration
	last    atomic.Pointer[string] // sentinel that led to a master last time
}

// dial is the pool's hook. Every error of it passes through conceal.
func (d *dialer) dial(ctx context.Context) (redis.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	var c redis.Conn
	var err error
	switch d.kind {
	case socket:
		c, err = d.open(ctx, "unix", d.path)
	case sentinel:
		c, err = d.throughSentinels(ctx)
	default:
		c, err = d.open(ctx, "tcp", d.hosts[0])
	}
	if err != nil {
		return nil, d.conceal(err)
	}
	return c, nil
}

// open connects and logs in. The deadline of ctx bounds AUTH and SELECT too.
func (d *dialer) open(ctx context.Context, network, address string) (redis.Conn, error) {
	options := []redis.DialOption{
		redis.DialContextFunc(d.connect),
		redis.DialTLSHandshakeTimeout(d.timeout),
		redis.DialUsername(d.user),
		redis.DialPassword(d.password),
		redis.DialDatabase(d.db),
	}
	if d.tls != nil {
		options = append(options, redis.DialUseTLS(true), redis.DialTLSConfig(d.tls))
	}
	c, err := redis.DialContext(ctx, network, address, options...)
	if d.tls != nil && errors.Is(err, io.EOF) {
		err = fmt.Errorf("no TLS there: the server closed the connection: %w", err)
	}
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) && d.vouch != "" {
		err = fmt.Errorf("checked against the certificates of %s: %w", d.vouch, err)
	}
	return c, err
}

// conceal removes the password from an error: servers and proxies that do not
// know a command repeat its arguments. An error reply stays a redis.Error,
// since callers read its code. conceal does not wrap the original error,
// because errors.Unwrap would show the password again.
func (d *dialer) conceal(err error) error {
	text := d.concealText(err.Error())
	if text == err.Error() {
		return err
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return redis.Error(d.concealText(string(reply)))
	}
	return errors.New(text)
}

func (d *dialer) concealText(text string) string {
	if d.password == "" {
		return text
	}
	// A server may shorten what it repeats, so that the text has only a part of
	// the password.
	if i := strings.Index(text, repeats); i >= 0 {
		text = text[:i] + repeats + " ***"
	}
	for _, secret := range []string{
		d.password, d.asked, strings.Map(blank, d.password),
		url.PathEscape(d.password), url.QueryEscape(d.password),
		url.UserPassword("", d.password).String()[1:],
		strings.Trim(fmt.Sprintf("%q", d.password), `"`),
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
