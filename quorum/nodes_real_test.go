//go:build real

package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/testing/wallshift"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// node is a real server with a wall clock of its own, and the wire through
// which clients reach it.
type node struct {
	*redistest.Server
	wire  *redistest.Wire
	clock *wallshift.Clock
	ahead time.Duration // of its clock
}

// startNodes starts servers. Each is an hour old by its clock, which is set
// forward before any client has seen it, so that it votes at once.
func startNodes(t *testing.T, n int, options func(i int) redistest.Options) []*node {
	t.Helper()
	var all []*node
	for i := range n {
		c := wallshift.New(t)
		o := redistest.Options{}
		if options != nil {
			o = options(i)
		}
		o.Env = c.Env()
		s := redistest.Real(t, o)
		one := &node{Server: s, wire: s.Wire(), clock: c}
		one.step(time.Hour)
		all = append(all, one)
	}
	for _, n := range all {
		n.awaitAge(t, time.Hour)
	}
	return all
}

// step sets the server's clock forward.
func (n *node) step(d time.Duration) {
	n.ahead += d
	n.clock.Set(n.ahead)
}

// awaitAge waits until the server has read its clock: it tells its age by a
// reading that it keeps for up to a tenth of a second.
func (n *node) awaitAge(t *testing.T, age time.Duration) {
	t.Helper()
	for end := time.Now().Add(redistest.Patience); ; {
		var up int
		text, _ := redis.String(n.Do("INFO", "server"), nil)
		for line := range strings.Lines(text) {
			_, _ = fmt.Sscanf(line, "uptime_in_seconds:%d", &up)
		}
		if time.Duration(up)*time.Second >= age {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a server says that it is %d s old, not %v", up, age)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// value returns what the key carries on the server, "" if it is free.
func (n *node) value(key string) string {
	s, err := redis.String(n.Do("GET", key), nil)
	if err != nil && !errors.Is(err, redis.ErrNil) {
		panic(err) // GET returns a string or nil
	}
	return s
}

// voted returns the nodes on which the key carries the token.
func voted(nodes []*node, key, token string) (some []*node) {
	for _, n := range nodes {
		if n.value(key) == token {
			some = append(some, n)
		}
	}
	return some
}

// setup is how a process uses the nodes.
type setup struct {
	member modern.Config
	quorum quorum.Config
	lock   lock.Config
	pools  func(i int, n *node) *redis.Pool // default: the node's wire
	linger bool                             // attempts wait for all votes, so all count

	unwatched bool // holders do not hear of changes to their key; waiters do
}

// backend returns the backend of one process.
func (s setup) backend(t *testing.T, nodes []*node) *quorum.Backend {
	t.Helper()
	var members []quorum.Member
	for i, n := range nodes {
		var pool *redis.Pool
		if s.pools != nil {
			pool = s.pools(i, n)
		} else {
			pool = n.wire.Pool()
		}
		cfg := s.member
		cfg.Name, cfg.Fence = n.Addr(), s.quorum.Fences
		m, err := modern.New(pool, cfg)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, m)
	}
	b, err := quorum.New(members, s.quorum)
	if err != nil {
		t.Fatal(err)
	}
	if s.linger {
		b.Linger(redistest.Patience)
	}
	return b
}

// client returns the lock client of one process, which ends with the test.
func (s setup) client(t *testing.T, nodes []*node) *lock.Client {
	t.Helper()
	b := s.backend(t, nodes)
	var used backend.Backend = b.Contract()
	if s.unwatched {
		used = struct {
			backend.Backend
			backend.Queuer
		}{used, used.(backend.Queuer)}
	}
	c, err := lock.New(backend.Of(used), s.lock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("Close of the backend: %v", err)
		}
	})
	return c
}
