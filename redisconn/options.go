// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// Options are settings that an address does not contain. The zero Options are
// right for an address that says everything.
//
// Files are read anew for each connection, so that a password or a certificate
// may be replaced while the program runs. Connections that are already open
// keep what they began with. Replace a file in one step, by renaming: a
// connection that reads half of it fails, and is tried again only later.
type Options struct {
	// User is the ACL user, if the address names none. It needs a password.
	User string
	// Password is the user's password, if the address has none.
	Password string
	// PasswordFile is a file with the password, if the address has none. A line
	// end after the password is not part of it.
	PasswordFile string
	// Credentials returns user and password for one connection, if the address
	// has none: for passwords that expire, such as the tokens of cloud
	// providers. An empty user is the default user. The context ends with
	// Timeout.
	Credentials func(context.Context) (user, password string, err error)

	// SentinelUser, SentinelPassword and SentinelPasswordFile log in at the
	// sentinels. They are never those of the server.
	SentinelUser, SentinelPassword, SentinelPasswordFile string
	// SentinelPlain asks the sentinels without TLS although the address begins
	// with rediss+sentinel://.
	SentinelPlain bool

	// CACert is a file with PEM certificates. The server's certificate is
	// checked against these instead of the system's.
	CACert string
	// CACertFrom is the user's name for CACert, such as a flag, for errors.
	// Defaults to --cacert.
	CACertFrom string
	// Cert and Key are files with the PEM certificate of this client and its
	// key, for servers that demand one.
	Cert, Key string
	// TLS is the start of every TLS configuration; CACert, Cert and Key are set
	// on a copy of it. Defaults to one that asks for TLS 1.2 at least.
	TLS *tls.Config

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
	// Conn opens the connections to the server, TLS included, wherever it is:
	// for users of another client library who hand over its dialer. With Conn
	// an address of redis:// says the user, the password and the database only,
	// and its host is a name for errors. [Open] then takes "" for an address
	// too.
	Conn func(context.Context) (net.Conn, error)
}

// checked refuses settings that contradict the address or each other, and files
// that cannot be used now.
func (a Address) checked(o Options) error {
	for _, check := range []func(Options) error{a.checkLogin, a.checkSentinel, a.checkTLS, a.checkConn} {
		if err := check(o); err != nil {
			return err
		}
	}
	return nil
}

func (a Address) checkLogin(o Options) error {
	given := 0
	for _, is := range []bool{a.password != "", o.Password != "", o.PasswordFile != "",
		o.Credentials != nil} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return fmt.Errorf("the password is given in two ways: use one of the address, a password ($%s, Options.Password), a file (--password-file, $%s, Options.PasswordFile) and a function (Options.Credentials)", EnvPassword, EnvPasswordFile)
	case a.user != "" && o.User != "":
		return errors.New("the user is given twice, in the address and in Options.User: use one")
	case given == 0 && (a.user != "" || o.User != ""):
		return bad("it has a user and no password: write user:password@, or :password@ for the default user, or give the password by a file (--password-file, $%s, Options.PasswordFile), by $%s or by Options.Password", EnvPasswordFile, EnvPassword)
	case o.User != "" && o.Credentials != nil:
		return errors.New("Options.Credentials returns the user: leave Options.User empty")
	case o.PasswordFile == "":
		return nil
	}
	_, err := readPassword(o.PasswordFile)
	return err
}

func (a Address) checkSentinel(o Options) error {
	asks := o.SentinelUser != "" || o.SentinelPassword != "" || o.SentinelPasswordFile != "" ||
		o.SentinelPlain
	switch {
	case asks && !a.viaSentinels():
		return errors.New("a sentinel's user, password or plain text is for addresses that begin with redis+sentinel:// or rediss+sentinel://")
	case o.SentinelPlain && a.kind == sentinel:
		return errors.New("Options.SentinelPlain is for addresses that begin with rediss+sentinel://: with redis+sentinel:// nothing is encrypted")
	case o.SentinelPassword != "" && o.SentinelPasswordFile != "":
		return fmt.Errorf("the sentinels' password is given in two ways: use a password ($%s, Options.SentinelPassword) or a file ($%s, Options.SentinelPasswordFile)", EnvSentinelPassword, EnvSentinelPasswordFile)
	case o.SentinelUser != "" && o.SentinelPassword == "" && o.SentinelPasswordFile == "":
		return fmt.Errorf("the sentinels' user ($%s, Options.SentinelUser) has no password: set $%s or $%s (Options.SentinelPassword, Options.SentinelPasswordFile)",
			EnvSentinelUser, EnvSentinelPassword, EnvSentinelPasswordFile)
	case o.SentinelPasswordFile == "":
		return nil
	}
	_, err := readPassword(o.SentinelPasswordFile)
	return err
}

func (a Address) checkTLS(o Options) error {
	switch {
	case a.TLS():
		_, err := o.tlsConfig()
		return err
	case o.CACert != "":
		return fmt.Errorf("%s is for addresses that begin with rediss:// or rediss+sentinel://", o.caCertFrom())
	case o.Cert != "" || o.Key != "":
		return errors.New("a client certificate (--cert and --key; Options.Cert and Key) is for addresses that begin with rediss:// or rediss+sentinel://")
	case o.TLS != nil:
		return errors.New("Options.TLS is for addresses that begin with rediss:// or rediss+sentinel://")
	}
	return nil
}

func (a Address) checkConn(o Options) error {
	switch {
	case o.Conn == nil:
		return nil
	case a.kind != plain:
		return errors.New("Options.Conn finds the server and encrypts by itself: write the address as redis://")
	case o.DialContext != nil:
		return errors.New("Options.Conn and Options.DialContext both open connections: give one")
	}
	return nil
}

func (o Options) caCertFrom() string {
	if o.CACertFrom == "" {
		return "--cacert"
	}
	return o.CACertFrom
}

// tlsConfig reads the files of o. A file that is read for a connection later
// was good at the start.
func (o Options) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	if o.CACert != "" {
		pem, err := os.ReadFile(o.CACert)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.caCertFrom(), err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s holds no PEM certificate", o.caCertFrom(), o.CACert)
		}
	}
	switch {
	case o.Cert == "" && o.Key == "":
		return config, nil
	case o.Cert == "" || o.Key == "":
		return nil, fmt.Errorf("a client certificate needs its key, and a key its certificate: give both (--cert and --key, $%s and $%s; Options.Cert and Key)", EnvCert, EnvKeyFile)
	}
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, fmt.Errorf("the client certificate %s with the key %s: %w", o.Cert, o.Key, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// login is a user and password of one connection. An empty password: there is
// no login.
type login struct{ user, password string }

// access is what one connection needs of files and functions.
type access struct {
	server, sentinel login
	tls              *tls.Config // nil: no TLS
	sentinelTLS      *tls.Config
}

// access reads the files and calls Credentials.
func (d *dialer) access(ctx context.Context) (access, error) {
	var found access
	var err error
	if found.server, err = d.serverLogin(ctx); err != nil {
		return access{}, err
	}
	o := d.options
	if found.sentinel, err = fromFile(login{o.SentinelUser, o.SentinelPassword},
		o.SentinelPasswordFile); err != nil {
		return access{}, err
	}
	if d.TLS() {
		if found.tls, err = o.tlsConfig(); err != nil {
			return access{}, err
		}
		if !o.SentinelPlain {
			found.sentinelTLS = found.tls
		}
	}
	return found, nil
}

func (d *dialer) serverLogin(ctx context.Context) (login, error) {
	o, user := d.options, d.user
	if user == "" {
		user = o.User
	}
	switch {
	case d.password != "":
		return login{user, d.password}, nil
	case o.Credentials != nil:
		asked, password, err := o.Credentials(ctx)
		if err == nil && password == "" {
			err = errors.New("it returned no password")
		}
		if err != nil {
			return login{}, fmt.Errorf("Options.Credentials: %w", err)
		}
		return login{asked, password}, nil
	}
	return fromFile(login{user, o.Password}, o.PasswordFile)
}

func fromFile(l login, file string) (login, error) {
	if file == "" {
		return l, nil
	}
	var err error
	l.password, err = readPassword(file)
	return l, err
}

func readPassword(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the password file cannot be read: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	switch {
	case password == "":
		return "", fmt.Errorf("the password file %s is empty", file)
	case strings.ContainsAny(password, "\r\n"):
		return "", fmt.Errorf("the password file %s has several lines: it holds the password alone", file)
	}
	return password, nil
}
