package rehearse

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/rehearse/dist"
)

var errDead = errors.New("this program has died")

// link is all that connects one program with the server. It counts what the program sends, and when
// the program dies all of it ends at once.
type link struct {
	dial     func(ctx context.Context, n int) (redis.Conn, error) // n counts the program's connections
	commands *atomic.Int64
	sending  func() // called for each of them

	mu    sync.Mutex
	dead  bool
	dials int
	conns []redis.Conn
}

// Dial opens one more connection.
func (l *link) Dial(ctx context.Context) (redis.Conn, error) {
	l.mu.Lock()
	dead, n := l.dead, l.dials
	l.dials++
	l.mu.Unlock()
	if dead {
		return nil, errDead
	}
	c, err := l.dial(ctx, n)
	if err != nil {
		return nil, err
	}
	c = &countedConn{Conn: c, link: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		c.Close()
		return nil, errDead
	}
	l.conns = append(l.conns, c)
	return c, nil
}

// cut ends every connection and refuses new ones: from now on nothing of this program reaches the
// server.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

func (l *link) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// pool is what a library that wants a pool gets.
func (l *link) pool() *redis.Pool {
	return &redis.Pool{MaxIdle: 4, DialContext: l.Dial}
}

// countedConn counts the commands that are sent on a connection.
type countedConn struct {
	redis.Conn
	link *link
}

func (c *countedConn) count(name string) {
	if name != "" { // redigo's way of waiting for replies without a command
		c.link.commands.Add(1)
		c.link.sending()
	}
}

func (c *countedConn) Do(name string, args ...any) (any, error) {
	c.count(name)
	return c.Conn.Do(name, args...)
}

func (c *countedConn) Send(name string, args ...any) error {
	c.count(name)
	return c.Conn.Send(name, args...)
}

func (c *countedConn) DoContext(ctx context.Context, name string, args ...any) (any, error) {
	c.count(name)
	return redis.DoContext(c.Conn, ctx, name, args...)
}

func (c *countedConn) ReceiveContext(ctx context.Context) (any, error) {
	return redis.ReceiveContext(c.Conn, ctx)
}

func (c *countedConn) DoWithTimeout(d time.Duration, name string, args ...any) (any, error) {
	c.count(name)
	return redis.DoWithTimeout(c.Conn, d, name, args...)
}

func (c *countedConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, d)
}

// leastLatency keeps virtual time going: a client that asks again and again without a pause would
// otherwise never let the moment pass for which it waits.
const leastLatency = time.Microsecond

// slowly puts a wire with delays before c, which is closed with the end that is returned. Messages
// keep their order: each waits for the one before it.
func slowly(c net.Conn, delay dist.Dist, more time.Duration, r *rand.Rand) net.Conn {
	near, far := net.Pipe()
	draws := func() func() time.Duration {
		own := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		return func() time.Duration { return max(delay.Draw(own), leastLatency) + more }
	}
	go carry(c, far, draws())
	go carry(far, c, draws())
	return near
}

// carry ends, and closes both ends, when either is closed; a message that it still has is lost with
// the connection.
func carry(to, from net.Conn, delay func() time.Duration) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		time.Sleep(delay())
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
