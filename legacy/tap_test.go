// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// tap writes down what crosses a connection, command by command with its reply.
// It can let another client act right before a command reaches the server.
type tap struct {
	world *redistest.World

	mu     sync.Mutex
	words  []string
	open   int               // index of the first word without a reply
	before map[string]func() // by the command's name; each is called once
}

func newTap(w *redistest.World) *tap {
	return &tap{world: w, before: map[string]func(){}}
}

// pool dials connections that the tap records.
func (p *tap) pool(t *testing.T) *redis.Pool {
	inner := p.world.Pool()
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		c, err := inner.DialContext(ctx)
		if err != nil {
			return nil, err
		}
		return &tapped{c, p}, nil
	}}
	t.Cleanup(func() { pool.Close() })
	return pool
}

// act calls f right before the next command of that name.
func (p *tap) act(name string, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before[name] = f
}

func (p *tap) sent(name string, args []any) {
	p.mu.Lock()
	f := p.before[name]
	delete(p.before, name)
	p.mu.Unlock()
	if f != nil {
		f()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	word := name
	switch name {
	case "EXPIRE":
		word += fmt.Sprintf(" %v", args[1])
	case "SET":
		word += fmt.Sprintf(" hex:%x", args[1])
		for _, a := range args[2:] {
			word += fmt.Sprintf(" %v", a)
		}
	case "EVAL", "EVALSHA":
		word = "EVAL"
	}
	p.words = append(p.words, word)
}

func (p *tap) replied(reply any, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open < len(p.words) {
		p.words[p.open] += "=" + show(reply, err)
		p.open++
	}
}

// take returns what crossed since the last take.
func (p *tap) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	words := p.words
	p.words, p.open = nil, 0
	return words
}

func (p *tap) count(prefix string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.words {
		if strings.HasPrefix(w, prefix) {
			n++
		}
	}
	return n
}

func show(reply any, err error) string {
	switch v := reply.(type) {
	case nil:
		if err != nil {
			return "error"
		}
		return "nil"
	case []byte:
		return "hex:" + hex.EncodeToString(v)
	default:
		return fmt.Sprint(v)
	}
}

// tapped is a connection that a tap records.
type tapped struct {
	redis.Conn
	tap *tap
}

func (c *tapped) Send(name string, args ...any) error {
	c.tap.sent(name, args)
	return c.Conn.Send(name, args...)
}

func (c *tapped) Receive() (any, error) { return c.ReceiveWithTimeout(0) }

func (c *tapped) ReceiveWithTimeout(d time.Duration) (any, error) {
	reply, err := redis.ReceiveWithTimeout(c.Conn, d)
	if _, said := err.(redis.Error); err == nil || said {
		c.tap.replied(reply, err)
	}
	return reply, err
}

func (c *tapped) DoWithTimeout(d time.Duration, name string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.Conn, d, name, args...)
}

// pinned is a clock that stands still.
type pinned struct{ at time.Time }

func (c *pinned) Now() time.Time                       { return c.at }
func (c *pinned) After(time.Duration) <-chan time.Time { return make(chan time.Time) }

// setState puts a key into a state, as the vectors write it.
func setState(t *testing.T, w *redistest.World, key, state string) {
	t.Helper()
	w.Mini.Del(key)
	switch {
	case state == "missing":
	case state == "list":
		w.Mini.Lpush(key, "x")
	default:
		raw, err := hex.DecodeString(strings.TrimPrefix(state, "hex:"))
		if err != nil {
			t.Fatal(err)
		}
		w.Mini.Set(key, string(raw))
	}
}

func state(w *redistest.World, key string) string {
	switch {
	case !w.Mini.Exists(key):
		return "missing"
	case w.Mini.Type(key) == "list":
		return "list"
	}
	v, _ := w.Mini.Get(key)
	return "hex:" + hex.EncodeToString([]byte(v))
}
