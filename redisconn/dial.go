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

// Options are what an address cannot say.
type Options struct {
	// CACert is a file with the PEM certificates by which the server's is checked, instead of the
	// system's.
	CACert string

	// CACertFrom is what the user calls CACert, for errors. Defaults to --cacert.
	CACertFrom string

	// Timeout bounds connecting, TLS and authentication together. Defaults to 5 s.
	Timeout time.Duration

	// KeepAlive is how often an idle connection is probed by the system. Defaults to 30 s, well
	// below the minutes after which firewalls forget.
	KeepAlive time.Duration

	// DialContext opens the connections to the server itself, TLS not yet on them. Defaults to a
	// net.Dialer with KeepAlive; sentinels are always asked through that.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// Pool returns a pool onto the server. It has not connected yet. Its connections have no deadline of
// their own on replies; package wire gives every call one.
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
	vouch   string      // whose file of certificates tls has, empty: the system's
	timeout time.Duration
	last    atomic.Pointer[string] // the sentinel that led to a master last time
}

// dial is the pool's hook. Whatever fails in it, its error goes through conceal.
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

// open connects as our user. The deadline of ctx bounds AUTH and SELECT as well.
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
		err = fmt.Errorf("by the certificates of %s: %w", d.vouch, err)
	}
	return c, err
}

// conceal takes the password out of an error: servers and proxies that do not know a command repeat
// its arguments. An error reply stays one, since callers ask for its code. What held the password
// is not wrapped, or errors.Unwrap would bring it to light again.
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
	// What a server repeats it may have shortened, so that the whole password is not in it.
	if i := strings.Index(text, repeats); i >= 0 {
		text = text[:i] + repeats + " ***"
	}
	for _, secret := range []string{
		d.password, d.asked, strings.Map(blank, d.password),
		url.PathEscape(d.password), url.QueryEscape(d.password), url.UserPassword("", d.password).String()[1:],
		strings.Trim(fmt.Sprintf("%q", d.password), `"`),
	} {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

const repeats = "with args beginning with:"

// blank does what servers do to an error reply, which must fit a line.
func blank(r rune) rune {
	if r == '\r' || r == '\n' {
		return ' '
	}
	return r
}
