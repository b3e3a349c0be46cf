package bench

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/redisconn"
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

// Server says to which server, and how, an adapter connects.
type Server struct {
	// Addr is host:port, if the server was named so; adapters of other
	// libraries use it.
	Addr string

	// Target is the address of a store other than Redis, else empty. It may
	// contain a password. Access is what it does not say.
	Target string
	Access Access

	// TTL is the TTL of the locks.
	TTL time.Duration

	// Prefix begins all keys. What a lock stores in addition to its key must
	// also begin with it.
	Prefix string

	// Goroutines is how many goroutines use the Locker at the same time.
	Goroutines int

	address redisconn.Address
	away    time.Duration // additional round trip to the server
}

// Access is what the address does not say, in a form that passes through a
// pipe. Its fields are those of [redisconn.Options].
type Access struct {
	Password, PasswordFile, SentinelPassword, SentinelPasswordFile, CACert, Cert, Key string
}

// AccessOf returns what o says.
func AccessOf(o redisconn.Options) Access {
	return Access{o.Password, o.PasswordFile, o.SentinelPassword, o.SentinelPasswordFile,
		o.CACert, o.Cert, o.Key}
}

func (a Access) options() redisconn.Options {
	return redisconn.Options{Password: a.Password, PasswordFile: a.PasswordFile,
		SentinelPassword: a.SentinelPassword, SentinelPasswordFile: a.SentinelPasswordFile,
		CACert: a.CACert, Cert: a.Cert, Key: a.Key}
}

// Dial returns how to connect to the server: at the scenario's distance.
func (s Server) Dial() func(ctx context.Context, network, address string) (net.Conn, error) {
	if s.away > 0 {
		return Distant(s.away)
	}
	return Dial
}

// Pool returns a redigo pool with room for every goroutine's connection. Its
// messages are counted.
func (s Server) Pool() (*redis.Pool, error) {
	options := s.Access.options()
	options.DialContext = s.Dial()
	pool, err := s.address.Pool(options)
	if err != nil {
		return nil, err
	}
	pool.MaxIdle = s.Goroutines + 1
	return pool, nil
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

// Messages returns how many commands this process has sent through connections
// of [Dial].
func Messages() int64 { return messages.Load() }

// counted counts asterisks: every command begins with one, and only the text of
// a script, sent once per process, contains others. It embeds the concrete
// type, so that a library that looks for its system calls finds them.
type counted struct{ *net.TCPConn }

func (c counted) Write(p []byte) (int, error) {
	messages.Add(int64(bytes.Count(p, asterisk)))
	return c.TCPConn.Write(p)
}

var asterisk = []byte{'*'}
