package main

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Adapter is one lock library with one configuration.
type Adapter struct {
	Name string

	// Open connects to the server. Each measurement opens the adapter in a new
	// process.
	Open func(ctx context.Context, s Server) (Locker, error)

	// Key returns the Redis key of a lock's name; that key's TTL is the lock's.
	// Defaults to the name.
	Key func(name string) string
}

func (a Adapter) key(name string) string {
	if a.Key == nil {
		return name
	}
	return a.Key(name)
}

// Locker takes locks. Its methods may be called from any goroutine.
type Locker interface {
	// Lock waits for the lock until ctx ends.
	Lock(ctx context.Context, key string) (Held, error)
	Close() error
}

// Held is a lock that is held.
type Held interface {
	Release() error
}

// Extender is implemented by Held values of libraries that leave renewal to
// their users. The other libraries renew by themselves.
type Extender interface {
	Extend(ctx context.Context) error
}

// Watched is implemented by Held values of libraries that report a loss to the
// holder.
type Watched interface {
	Err() error // nil while the lock is held
}

// dialer opens a connection.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// Server says to which server, and how, an adapter connects.
type Server struct {
	Addr string // host:port

	// TTL is the TTL of the locks.
	TTL time.Duration

	// Goroutines is how many goroutines use the Locker at the same time.
	Goroutines int

	away time.Duration // additional round trip to the server
}

// Dial returns how to connect to the server: at the scenario's distance.
func (s Server) Dial() dialer {
	if s.away > 0 {
		return Distant(s.away)
	}
	return Dial
}

// Pool returns a redigo pool with room for every goroutine's connection. Its
// messages are counted.
func (s Server) Pool() *redis.Pool { return poolOf(s.Addr, s.Dial(), s.Goroutines+1) }

func poolOf(addr string, dial dialer, idle int) *redis.Pool {
	return &redis.Pool{MaxIdle: idle, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", addr, redis.DialContextFunc(dial))
	}}
}

// Dial connects and counts the messages sent through the connection. Every
// adapter uses it, so the counting costs all of them the same.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		return counted{tcp}, nil
	}
	return conn, nil
}

// messages is the number of commands that this process has sent.
var messages atomic.Int64

// counted counts asterisks: every command begins with one, and only the text of
// a script, sent once per process, contains others. It embeds the concrete
// type, so that a library that looks for its system calls finds them.
type counted struct{ *net.TCPConn }

func (c counted) Write(p []byte) (int, error) {
	messages.Add(int64(bytes.Count(p, asterisk)))
	return c.TCPConn.Write(p)
}

var asterisk = []byte{'*'}
