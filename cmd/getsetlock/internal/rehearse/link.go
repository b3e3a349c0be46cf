// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse/dist"
)

var errDead = errors.New("this program has died")

// link is all connections of one program to the server. It counts the program's
// commands, and ends all connections at once when the program dies.
type link struct {
	dial     func(ctx context.Context, n int) (redis.Conn, error) // n counts its connections
	commands *atomic.Int64                                        // commands of all programs of the group
	own      atomic.Int64
	sending  func() // called for each command
	host     *machine
	ended    <-chan struct{}
	wrote    func(key string, age time.Duration) // called for each SETNX and GETSET when it is sent

	mu    sync.Mutex
	dead  bool
	dials int
	conns []redis.Conn
	seen  map[sent]time.Time // when that was last sent
}

// sent is what a program did to a key: it began an attempt, whose clock was
// read just before; it asked for the key, or deleted it.
type sent struct{ what, key string }

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

// cut ends every connection and refuses new ones: from then on no command of
// this program reaches the server.
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

// pool returns a pool for libraries that need one.
func (l *link) pool() *redis.Pool {
	return &redis.Pool{MaxIdle: 4, DialContext: l.Dial}
}

// countedConn counts the commands sent on a connection. While the machine is
// paused, it sends nothing and returns no reply.
type countedConn struct {
	redis.Conn
	link *link

	mu      sync.Mutex
	leaving []string // keys of an attempt's writes that were sent and not flushed
}

// count counts a command, and notes what it does to a key. A script's first key
// comes after its hash and the number of keys.
func (c *countedConn) count(name string, args []any) {
	if name == "" { // redigo waits for replies by a command without a name
		return
	}
	c.link.commands.Add(1)
	c.link.own.Add(1)
	c.link.sending()
	switch {
	case (name == "SETNX" || name == "GETSET") && len(args) > 1:
		key := fmt.Sprintf("%s", args[0])
		c.link.note("asked", key)
		if name == "SETNX" {
			c.link.note("began", key)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.leaving = append(c.leaving, key)
	case (name == "EVAL" || name == "EVALSHA") && len(args) > 2:
		c.link.note("asked", fmt.Sprintf("%s", args[2]))
	case name == "DEL" && len(args) > 0:
		c.link.note("freed", fmt.Sprintf("%s", args[0]))
	}
}

func (l *link) note(what, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = make(map[sent]time.Time)
	}
	l.seen[sent{what, key}] = time.Now()
}

// last returns when the program last did that to the key. Zero: never.
func (l *link) last(what, key string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[sent{what, key}]
}

// leaves is called when the commands sent so far leave the machine.
func (c *countedConn) leaves() {
	c.stand()
	c.mu.Lock()
	keys := c.leaving
	c.leaving = nil
	c.mu.Unlock()
	for _, key := range keys {
		if began := c.link.last("began", key); !began.IsZero() && c.link.wrote != nil {
			c.link.wrote(key, time.Since(began))
		}
	}
}

func (c *countedConn) stand() {
	if c.link.host != nil {
		c.link.host.standStill(c.link.ended)
	}
}

func (c *countedConn) Do(name string, args ...any) (any, error) {
	c.count(name, args)
	c.leaves()
	defer c.stand()
	return c.Conn.Do(name, args...)
}

func (c *countedConn) Send(name string, args ...any) error {
	c.count(name, args)
	return c.Conn.Send(name, args...)
}

func (c *countedConn) Flush() error {
	c.leaves()
	return c.Conn.Flush()
}

func (c *countedConn) Receive() (any, error) {
	defer c.stand()
	return c.Conn.Receive()
}

func (c *countedConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	defer c.stand()
	return redis.ReceiveWithTimeout(c.Conn, d)
}

// leastLatency keeps virtual time going. A client that asks again and again
// without a pause would otherwise never let the moment pass for which it waits.
const leastLatency = time.Microsecond

// slowly puts a delay in front of c and returns the near end, whose Close also
// closes c. Messages keep their order: each waits for the one before it.
func slowly(c net.Conn, wires *sync.WaitGroup, delay dist.Dist, more time.Duration, r *rand.Rand) net.Conn {
	near, far := net.Pipe()
	draws := func() func() time.Duration {
		own := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		return func() time.Duration { return max(delay.Draw(own), leastLatency) + more }
	}
	there, back := draws(), draws()
	wires.Go(func() { carry(c, far, there) })
	wires.Go(func() { carry(far, c, back) })
	return near
}

// carry copies messages until either end is closed, and then closes both. A
// message still under way is lost.
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
