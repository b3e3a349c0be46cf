// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/cluster"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// Open parses address, connects once and sends a PING, so that a wrong password
// or an unreachable server shows here and not at the first lock. It refuses a
// Redis Cluster of several nodes, and a sentinel in place of a server. A server
// that is loading its data counts as open, since a lock waits for it.
//
// The pool is for the backends of this module, which dial by it. The error
// names the server, without its password, and says what was missing.
func Open(ctx context.Context, address string, o Options) (*redis.Pool, error) {
	if address == "" && o.Conn != nil {
		address = "redis://Options.Conn"
	}
	a, err := Parse(address)
	if err == nil && a.ofCluster() {
		err = errWholeCluster
	}
	if err != nil {
		return nil, fmt.Errorf("redisconn: %w", err)
	}
	d, err := a.dialer(o)
	if err != nil {
		return nil, fmt.Errorf("redisconn: %w", err)
	}
	if err := d.try(ctx); err != nil {
		if advice := wire.Explain(err); advice != "" {
			err = &advised{err, advice}
		}
		return nil, fmt.Errorf("redisconn: could not open %s: %w", a.Redacted(), err)
	}
	return &redis.Pool{DialContext: d.dial}, nil
}

// try connects, asks a few questions and closes the connection.
func (d *dialer) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*d.options.Timeout)
	defer cancel()
	c, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = redis.DoContext(c, ctx, "PING"); err != nil && !isReply(err) {
		return err
	}
	if err := refuseSentinel(ctx, c); err != nil {
		return err
	}
	return cluster.Refuse(ctx, c)
}

// refuseSentinel returns an error if the peer is a sentinel, which answers PING
// as a server does and knows no keys.
func refuseSentinel(ctx context.Context, c redis.Conn) error {
	info, err := redis.String(redis.DoContext(c, ctx, "INFO", "server"))
	if err != nil && !isReply(err) {
		return err
	}
	if strings.Contains(info, "redis_mode:sentinel") {
		return errors.New("it is a sentinel, which has no keys: write redis+sentinel://host:port/master, or rediss+sentinel:// where it speaks TLS")
	}
	return nil
}

// errWholeCluster is the refusal where one server is needed.
var errWholeCluster = errors.New("a Redis Cluster of several nodes cannot be used for this, only for token locks: use a single primary")

// OptionsFromEnv returns the Options that the environment variables of this
// package give for an address. The command uses them; a library reads no
// variable by itself. Each variable is dropped where the address leaves no room
// for it: a password where the address has one, files of certificates where it
// asks for no TLS, a sentinel's login where there is no sentinel. getenv is
// os.Getenv in most programs.
func OptionsFromEnv(address string, getenv func(string) string) Options {
	a, err := Parse(address)
	if err != nil {
		return Options{} // Open reports it
	}
	var o Options
	if a.password == "" {
		o.Password, o.PasswordFile = getenv(EnvPassword), getenv(EnvPasswordFile)
	}
	if a.viaSentinels() {
		o.SentinelUser = getenv(EnvSentinelUser)
		o.SentinelPassword = getenv(EnvSentinelPassword)
		o.SentinelPasswordFile = getenv(EnvSentinelPasswordFile)
	}
	if a.TLS() {
		o.CACert, o.Cert, o.Key = getenv(EnvCACert), getenv(EnvCert), getenv(EnvKeyFile)
		if o.CACert != "" {
			o.CACertFrom = "$" + EnvCACert
		}
	}
	return o
}
