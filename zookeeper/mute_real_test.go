// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/testing/zktest"
)

// mute is a network on which a server seems to say nothing more once it is on.
type mute struct {
	on    atomic.Bool
	ended atomic.Int32 // connections that this side closed
}

type muteConn struct {
	net.Conn
	of *mute
}

func (m *mute) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return muteConn{conn, m}, err
}

func (c muteConn) Write(p []byte) (int, error) {
	if c.of.on.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c muteConn) Close() error {
	if c.of.on.Load() {
		c.of.ended.Add(1)
	}
	return c.Conn.Close()
}

// Config.Timeout may be less than the time that the keeper gives a server. The
// library would wait for two thirds of the session's timeout.
func TestSilentServerIsLeftWhicheverBoundIsLess(t *testing.T) {
	t.Parallel()
	m := new(mute)
	b, err := New([]string{zktest.Start(t).Addr}, Config{Timeout: 2 * time.Second, Dial: m.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := b.engine.session(context.Background(), time.Minute)
	for errors.Is(err, errNoReply) { // a busy machine
		s, err = b.engine.session(context.Background(), time.Minute)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Lock() // the next sign of life is due
	s.trust.last.sent.Elapsed -= s.timeout
	s.trust.last.done -= s.timeout
	s.Unlock()
	m.on.Store(true)
	if s.live(); m.ended.Load() == 0 {
		t.Error("the keeper stays at a server that does not answer")
	}
}

// An administrator takes the right to read a held node away. The refusal is a
// sign of life, for the other locks of the session too.
func TestSessionOutlivesRightsOnAHeldNode(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	b, err := New([]string{server.Addr}, Config{Timeout: zktest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := context.Background()
	got, err := b.engine.Try(ctx, "k", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	g := got.(*grant)
	if _, err := g.s.conn.SetACL(g.path, zk.DigestACL(zk.PermAll, "admin", "secret"), -1); err != nil {
		t.Fatal(err)
	}
	if err := g.s.write(ctx); err != nil {
		t.Error(err)
	}
	if _, err := g.Extend(ctx, 10*time.Second); err != nil {
		t.Error(err)
	}
}

// The reply to a release was lost, and the keeper has deleted the node since.
// The lock was not lost.
func TestSecondReleaseAfterTheKeepersSucceeds(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	cut := new(zktest.Cut)
	b, err := New([]string{server.Addr}, Config{Dial: cut.Dial, Timeout: zktest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := context.Background()
	got, err := b.engine.Try(ctx, "k", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	cut.On.Store(true)
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := got.Release(short); err == nil {
		t.Fatal("a release that was lost")
	}
	cut.On.Store(false)
	g := got.(*grant)
	gone := func() bool {
		g.s.Lock()
		defer g.s.Unlock()
		return g.Gone()
	}
	for end := time.Now().Add(zktest.Patience); !gone(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the node is still there")
		}
	}
	if err := got.Release(ctx); err != nil {
		t.Error(err)
	}
}

// Many attempts at a server that says nothing do not wait for each other, each
// for a whole Config.Timeout.
func TestAttemptsDoNotLineUpAtASilentServer(t *testing.T) {
	t.Parallel()
	const many = 20
	var dials atomic.Int32
	server, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never greets
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	b, err := New([]string{server.Addr().String()}, Config{Timeout: 500 * time.Millisecond,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			if _, err := b.engine.Try(context.Background(), "k", time.Minute); err == nil {
				t.Error("a lock was taken")
			}
		})
	}
	all.Wait()
	if n := dials.Load(); n >= many {
		t.Errorf("%d attempts dialed %d times, one after the other", many, n)
	}
}
