// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Restart empties the embedded server, as a restart does with a server that
// keeps nothing on disk: keys and scripts are gone. Connections stay open;
// Wire.Cut ends them.
func (w *World) Restart() {
	w.t.Helper()
	w.sync()
	w.Mini.FlushAll()
	w.FlushScripts()
}

// FlushScripts makes the embedded server forget every script.
func (w *World) FlushScripts() {
	w.t.Helper()
	conn, err := w.Dial(context.Background())
	if err != nil {
		w.t.Fatalf("redistest: %v", err)
	}
	c := redis.NewConn(conn, 0, 0)
	defer c.Close()
	if _, err := c.Do("SCRIPT", "FLUSH"); err != nil {
		w.t.Fatalf("redistest: %v", err)
	}
}

// Replica copies what a replica of the embedded server would have now. The
// function that it returns promotes that replica: every later write is lost,
// keys end at the same instants as before, and scripts are unknown. Connections
// stay open; Wire.Cut ends them. Only strings, hashes, lists and sorted sets
// are copied.
func (w *World) Replica() (promote func()) {
	w.t.Helper()
	w.sync()
	had, at := map[string]copied{}, w.Now()
	for _, key := range w.Mini.Keys() {
		had[key] = w.copyOf(key)
	}
	return func() {
		w.t.Helper()
		w.Restart()
		for key, c := range had {
			left := c.left - w.Now().Sub(at)
			if c.left > 0 && left <= 0 {
				continue
			}
			w.put(key, c)
			if c.left > 0 {
				w.Mini.SetTTL(key, left)
			}
		}
	}
}

// copied is the replica's copy of one key.
type copied struct {
	value  string
	fields map[string]string  // the fields of a hash
	items  []string           // the items of a list
	scores map[string]float64 // the members of a sorted set
	left   time.Duration      // TTL; 0: none
}

func (w *World) copyOf(key string) copied {
	w.t.Helper()
	c, err := copied{left: w.Mini.TTL(key)}, error(nil)
	switch w.Mini.Type(key) {
	case "hash":
		c.fields = map[string]string{}
		names, _ := w.Mini.HKeys(key)
		for _, name := range names {
			c.fields[name] = w.Mini.HGet(key, name)
		}
	case "list":
		c.items, err = w.Mini.List(key)
	case "zset":
		c.scores, err = w.Mini.SortedSet(key)
	default:
		c.value, err = w.Mini.Get(key)
	}
	if err != nil {
		w.t.Fatalf("redistest: replica of %q: %v", key, err)
	}
	return c
}

func (w *World) put(key string, c copied) {
	w.t.Helper()
	var err error
	switch {
	case c.fields != nil:
		for name, value := range c.fields {
			w.Mini.HSet(key, name, value)
		}
	case c.scores != nil:
		for member, score := range c.scores {
			_, err = w.Mini.ZAdd(key, score, member)
		}
	case c.items != nil:
		_, err = w.Mini.Push(key, c.items...)
	default:
		err = w.Mini.Set(key, c.value)
	}
	if err != nil {
		w.t.Fatalf("redistest: replica of %q: %v", key, err)
	}
}

// Pair is a real server and its replica. Connections of Pool go to whichever of
// them is the primary.
type Pair struct {
	Primary, Replica *Server

	t        testing.TB
	mu       sync.Mutex
	now      *Server
	password string // password of now
}

// NewPair starts both servers and returns when the replica has all data of the
// primary.
func NewPair(t testing.TB) *Pair {
	t.Helper()
	p := &Pair{Primary: Real(t, Options{}), t: t}
	p.now, p.Replica = p.Primary, p.Primary.StartReplica()
	p.Primary.AwaitReplica()
	return p
}

// Pool returns a pool that dials the primary: after Promote, the former
// replica. The caller closes the pool.
func (p *Pair) Pool() *redis.Pool {
	return &redis.Pool{Dial: func() (redis.Conn, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return redis.Dial("tcp", p.now.Addr(), redis.DialPassword(p.password))
	}}
}

// CutOff makes the replica miss all later writes: its connection ends, and it
// does not know the password that the primary requires from now on. Pool knows
// it.
func (p *Pair) CutOff() {
	p.t.Helper()
	const password = "nobody-knows"
	p.mu.Lock()
	p.password = password
	p.mu.Unlock()
	c := p.Primary.Pool().Get() // opened before the password is required
	defer c.Close()
	for _, args := range [][]any{{"CONFIG", "SET", "requirepass", password},
		{"CLIENT", "KILL", "TYPE", "slave"}} {
		if _, err := c.Do(args[0].(string), args[1:]...); err != nil {
			p.t.Fatalf("redistest: %v", err)
		}
	}
}

// Promote kills the primary and makes the replica the primary.
func (p *Pair) Promote() {
	p.t.Helper()
	p.Primary.Kill()
	p.Replica.Do("SLAVEOF", "NO", "ONE")
	p.mu.Lock()
	p.now, p.password = p.Replica, ""
	p.mu.Unlock()
}

// AwaitReplica waits until a replica acknowledges the server's writes.
func (s *Server) AwaitReplica() {
	s.t.Helper()
	c := s.Pool().Get()
	defer c.Close()
	for n := 0; n < 1; {
		_, err := c.Do("SET", "follows", "1", "PX", 1)
		if err == nil {
			n, err = redis.Int(c.Do("WAIT", 1, 1000))
		}
		if err != nil {
			s.t.Fatalf("redistest: %v", err)
		}
	}
}
