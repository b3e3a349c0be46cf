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

// Adapter is one lock library at one setting.
type Adapter struct {
	Name string

	// Open connects. Each measurement opens it in a process of its own.
	Open func(ctx context.Context, s Server) (Locker, error)

	// Key is the Redis key of a lock's name, whose expiry is that of the lock. Defaults to the name.
	Key func(name string) string
}

func (a Adapter) key(name string) string {
	if a.Key == nil {
		return name
	}
	return a.Key(name)
}

// Locker takes locks. Its methods are safe for concurrent use.
type Locker interface {
	// Lock waits for the lock until ctx ends.
	Lock(ctx context.Context, key string) (Held, error)
	Close() error
}

// Held is a lock that is held.
type Held interface {
	Release() error
}

// Extender is implemented by what is held where the library leaves renewal to its user. The others
// renew by themselves.
type Extender interface {
	Extend(ctx context.Context) error
}

// Watched is implemented by what is held where the library tells the holder of a loss.
type Watched interface {
	Err() error // nil while the lock is held
}

// Server is where and how an adapter is to connect.
type Server struct {
	// Addr is host:port where the server was named by one; peers use it.
	Addr string

	// TTL is what locks are taken for.
	TTL time.Duration

	// Prefix is that of all keys. What a lock keeps beside its key belongs below it too.
	Prefix string

	// Goroutines is how many will use the Locker at once.
	Goroutines int

	address redisconn.Address
	caCert  string
	away    time.Duration // how much farther than it is
}

// Pool is a redigo pool with room for every goroutine's connection, whose messages are counted.
func (s Server) Pool() (*redis.Pool, error) {
	dial := Dial
	if s.away > 0 {
		dial = distant(s.away)
	}
	pool, err := s.address.Pool(redisconn.Options{CACert: s.caCert, DialContext: dial})
	if err != nil {
		return nil, err
	}
	pool.MaxIdle = s.Goroutines + 1
	return pool, nil
}

// Dial connects and counts the messages sent through the connection from then on. Every adapter
// connects through it, so that the counting costs all of them the same.
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

// messages is how many commands this process has sent.
var messages atomic.Int64

// counted counts the asterisks that pass: a command begins with one, and nothing else that is sent
// here has any but the text of a script, once a process. (It embeds the concrete type: a library that
// looks for its system calls finds them.)
type counted struct{ *net.TCPConn }

func (c counted) Write(p []byte) (int, error) {
	messages.Add(int64(bytes.Count(p, asterisk)))
	return c.TCPConn.Write(p)
}

var asterisk = []byte{'*'}
