// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/benbjohnson/clock"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/lock"
)

// world is a server, the clocks of the machines around it, and pools onto it.
// Examples have no testing.T, so trouble here is a panic.
type world struct {
	server *miniredis.Miniredis
	clocks []*clock.Mock
	pools  []*redis.Pool

	clients []*lock.Client // that the world closes
}

var noon = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)

func newWorld() *world {
	server, err := miniredis.Run()
	must(err)
	server.SetTime(noon)
	return &world{server: server}
}

func (w *world) close() {
	over, cancel := context.WithCancel(context.Background())
	cancel() // leases still held are left to the server
	for _, c := range w.clients {
		c.Close(over)
	}
	for _, p := range w.pools {
		must(p.Close())
	}
	w.server.Close()
}

// clock is that of a machine which is ahead of the server.
func (w *world) clock(ahead time.Duration) *clock.Mock {
	c := clock.NewMock()
	c.Set(noon.Add(ahead))
	w.clocks = append(w.clocks, c)
	return c
}

// pass moves the server's clock and all clients' clocks.
func (w *world) pass(d time.Duration) {
	w.server.FastForward(d)
	for _, c := range w.clocks {
		c.Add(d)
	}
	w.server.SetTime(w.now().Add(d))
}

// now is the server's clock.
func (w *world) now() time.Time {
	c := w.dial()
	defer c.Close()
	t, err := redis.Int64s(c.Do("TIME"))
	must(err)
	return time.Unix(t[0], t[1]*1000)
}

func (w *world) dial() redis.Conn {
	c, err := redis.Dial("tcp", w.server.Addr())
	must(err)
	return c
}

func (w *world) pool() *redis.Pool { return w.tapped("") }

// tapped is a pool whose connections print each DEL with its reply, if name is
// given.
func (w *world) tapped(name string) *redis.Pool {
	p := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", w.server.Addr())
		if err != nil {
			return nil, err
		}
		if name != "" {
			c = &tap{Conn: c, name: name}
		}
		return redis.NewConn(c, 0, 0), nil
	}}
	w.pools = append(w.pools, p)
	return p
}

// tap prints each DEL with its reply. It relies on a command and a reply being
// one Write and one Read, which is so where one command is under way at a time.
type tap struct {
	net.Conn
	name string
	del  bool
}

func (t *tap) Write(p []byte) (int, error) {
	t.del = strings.Contains(string(p), "\r\nDEL\r\n")
	return t.Conn.Write(p)
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if t.del && err == nil {
		t.del = false
		fmt.Printf("%s: DEL → %s\n", t.name, strings.Trim(string(p[:n]), ":\r\n"))
	}
	return n, err
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
