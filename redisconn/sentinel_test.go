// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// Neither does a sentinel that leads to a silent host.
func TestSilentSentinelDoesNotHideOthers(t *testing.T) {
	master := fake(t, withRole("master"))
	for name, first := range map[string]string{
		"silent itself":          silent(t),
		"leads to a silent host": sentinelFor(t, silent(t)),
		"leads to a replica":     sentinelFor(t, fake(t, withRole("slave"))),
	} {
		d := dialerFor(t, "redis+sentinel://"+first+","+sentinelFor(t, master)+"/mymaster",
			Options{Timeout: redistest.Patience})
		// The second time the silent sentinel is the one that led to a master
		// before.
		for _, last := range []string{"", first} {
			if last != "" {
				d.last.Store(&last)
			}
			c, err := d.dial(t.Context())
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			c.Close()
			if now := d.last.Load(); *now != d.hosts[1] {
				t.Errorf("%s: remembered %s", name, *now)
			}
		}
	}
}

// If that sentinel does not lead to a master again, the others are asked.
func TestSentinelThatLedIsAskedFirst(t *testing.T) {
	d := dialerFor(t, "redis+sentinel://a,b,c/mymaster", Options{})
	if first, rest := d.order(); !slices.Equal(first, d.hosts) || rest != nil {
		t.Errorf("at first %v, then %v", first, rest)
	}
	d.last.Store(&d.hosts[1])
	first, rest := d.order()
	if !slices.Equal(first, d.hosts[1:2]) || !slices.Equal(rest, []string{d.hosts[0], d.hosts[2]}) {
		t.Errorf("%v, then %v", first, rest)
	}
}

// Two sentinels lead to two masters.
func TestMasterFoundTooLateIsClosed(t *testing.T) {
	late, soon := fake(t, withRole("master")), fake(t, withRole("master"))
	begun, hold, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	d := dialerFor(t, "redis+sentinel://"+sentinelFor(t, late)+","+sentinelFor(t, soon)+"/mymaster", Options{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == soon {
				<-begun
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			close(begun)
			<-hold // ignores its context
			c, err := net.Dial(network, address)
			return &closing{Conn: c, closed: closed}, err
		},
	})
	c, err := d.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	close(hold)
	<-closed
}

// closing is a connection that reports when it is closed.
type closing struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *closing) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// The error wraps the master's error reply, so that a caller does not retry a
// wrong password.
func TestSentinelErrorWrapsTheMastersRefusal(t *testing.T) {
	role := withRole("master")
	role["ROLE"] = func(c *server.Peer, _ string, _ []string) {
		c.WriteError("NOPERM this user has no permissions to run the 'role' command")
	}
	master := fake(t, role)
	d := dialerFor(t, "redis+sentinel://"+sentinelFor(t, master)+","+sentinelFor(t, master)+","+nobody(t)+
		"/mymaster", Options{})
	_, err := d.dial(t.Context())
	var refusal redis.Error
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "+role") ||
		!strings.Contains(err.Error(), "leads to "+master+" too") {
		t.Error(err)
	}
	plain := fake(t, nil)
	d = dialerFor(t, "redis+sentinel://"+plain+","+plain+"/mymaster", Options{})
	if _, err := d.dial(t.Context()); !errors.As(err, &refusal) {
		t.Errorf("servers that are no sentinels: %v", err)
	}
	d = dialerFor(t, "redis+sentinel://"+plain+","+nobody(t)+"/mymaster", Options{})
	if _, err := d.dial(t.Context()); err == nil || errors.As(err, &refusal) {
		t.Errorf("a server that is no sentinel, and one that may be: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the caller gave up"))
	d = dialerFor(t, "redis+sentinel://"+silent(t)+"/mymaster", Options{})
	if _, err := d.dial(ctx); err == nil || !strings.Contains(err.Error(), d.hosts[0]) {
		t.Error(err)
	}
}

func dialerFor(t *testing.T, raw string, o Options) *dialer {
	t.Helper()
	a, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.dialer(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A sentinel answers PING as a server does, and has no keys: the first lock
// would fail.
func TestOpenRefusesASentinelAsTheServer(t *testing.T) {
	address := fake(t, map[string]server.Cmd{
		"PING": func(c *server.Peer, _ string, _ []string) { c.WriteInline("PONG") },
		"INFO": func(c *server.Peer, _ string, args []string) {
			if len(args) == 1 && args[0] == "server" {
				c.WriteBulk("# Server\r\nredis_mode:sentinel\r\n")
				return
			}
			c.WriteBulk("")
		},
	})
	_, err := Open(t.Context(), "redis://"+address, Options{})
	if err == nil || !strings.Contains(err.Error(), "it is a sentinel") ||
		!strings.Contains(err.Error(), "redis+sentinel://") {
		t.Error(err)
	}
}

// The user gave the right name: to check it would lead away from the password.
func TestSentinelErrorHasOneAdvice(t *testing.T) {
	for reply, wants := range map[string]bool{"NOAUTH Authentication required.": false, "ERR busy": true} {
		address := fake(t, map[string]server.Cmd{
			"PING":     func(c *server.Peer, _ string, _ []string) { c.WriteError(reply) },
			"SENTINEL": func(c *server.Peer, _ string, _ []string) { c.WriteError(reply) },
		})
		_, err := Open(t.Context(), "redis+sentinel://"+address+"/mymaster", Options{})
		if err == nil || strings.Contains(err.Error(), "check that name") != wants {
			t.Errorf("%s: %v", reply, err)
		}
	}
}
