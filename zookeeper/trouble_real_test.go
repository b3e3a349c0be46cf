// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/testing/door"
	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// try makes one attempt with a Backend of its own. A busy machine may need long
// for a reply.
func try(t *testing.T, cfg zookeeper.Config, key string, ttl time.Duration, servers ...string) error {
	t.Helper()
	cfg.Timeout = zktest.Patience
	b := newBackend(t, cfg, servers...)
	g, err := b.Contract().Try(context.Background(), key, ttl)
	if err == nil {
		if err := g.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	return err
}

// wants checks what an error says, and whether an Acquire waits for its end.
func wants(t *testing.T, what string, err error, passes bool, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	var p interface{ Passing() bool }
	if !errors.As(err, &p) || p.Passing() != passes {
		t.Errorf("%s: passes should be %t: %v", what, passes, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: the error does not say %q: %v", what, word, err)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	conn := admin(t, server.Addr)
	nobody := []zk.ACL{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}
	if _, err := conn.Create("/closed", nil, 0, nobody); err != nil {
		t.Fatal(err)
	}
	secret := zk.DigestACL(zk.PermAll, "ann", "secret")
	if _, err := conn.Create("/secret", nil, 0, secret); err != nil {
		t.Fatal(err)
	}
	const ttl = 10 * time.Second
	wants(t, "no ensemble", try(t, zookeeper.Config{}, "k", ttl, "127.0.0.1:1"), true, "127.0.0.1:1",
		"refused")
	nameless := zookeeper.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "zoo", IsNotFound: true}
	}}
	wants(t, "an unknown host", try(t, nameless, "k", ttl, "zoo:2181"), false, "lookup zoo: no such host")
	closed := zookeeper.Config{Chroot: "/closed"}
	wants(t, "no rights", try(t, closed, "k", ttl, server.Addr), false, "/closed/k", "right")
	closed.Chroot = "/closed/a"
	wants(t, "a missing chroot", try(t, closed, "k", ttl, server.Addr), false, "/closed/a does not exist",
		"by hand")
	wants(t, "unreadable children", try(t, zookeeper.Config{}, "secret", ttl, server.Addr), false, "/secret",
		"read")
	wants(t, "a short TTL of two ticks", try(t, zookeeper.Config{}, "k", zookeeper.LeastTTL, func() string {
		slow := zktest.Start(t, "minSessionTimeout=4000")
		return slow.Addr
	}()), false, "4s", "minSessionTimeout", "Config.TTL")

	if err := try(t, zookeeper.Config{Chroot: "/made/for/us"}, "k", ttl, server.Addr); err != nil {
		t.Errorf("a chroot that can be created: %v", err)
	}
	ann := zookeeper.Config{User: "ann", Password: "secret"}
	if err := try(t, ann, "secret", ttl, server.Addr); err != nil {
		t.Errorf("with the user's password: %v", err)
	}
	ann.Password = "wrong"
	wants(t, "a wrong password", try(t, ann, "secret", ttl, server.Addr), false, "right")

	var said strings.Builder
	cfg := zookeeper.Config{Logger: slog.New(slog.NewTextHandler(&said, nil))}
	if err := try(t, cfg, "k", time.Hour, server.Addr); err != nil {
		t.Errorf("a TTL above maxSessionTimeout: %v", err)
	}
	if !strings.Contains(said.String(), "granted=1m0s") {
		t.Errorf("the log says: %s", said.String())
	}
}

// A server list may be wrong at first, and mended while clients wait.
func TestServerListMayChange(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	b := newBackend(t, zookeeper.Config{Chroot: "/locks"}, "127.0.0.1:1")
	c, err := lock.New(b, lock.Config{Wait: zktest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan struct{})
	c, err = c.With(func(cfg *lock.Config) {
		once := sync.OnceFunc(func() { close(failed) })
		cfg.Hooks.Waiting = func(lock.Event) { once() }
	})
	if err != nil {
		t.Fatal(err)
	}
	got := c.Request(context.Background(), "k")
	<-failed
	if err := b.SetServers([]string{server.Addr}); err != nil {
		t.Fatal(err)
	}
	result := <-got
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	release(t, result.Lease)
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// Waits that end at random moments leave no node: a lock that nobody releases
// would be held until its session ends.
func TestCancelledAttemptsLeaveNothing(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	c := client(t, lock.Config{}, server.Addr)
	release(t, acquire(t, c, "k"))
	var work sync.WaitGroup
	for range 10 {
		work.Go(func() {
			for range 100 {
				ctx, cancel := context.WithTimeout(context.Background(), rand.N(4*time.Millisecond))
				if lease, err := c.Acquire(ctx, "k"); err == nil {
					_ = lease.Release()
				}
				cancel()
			}
		})
	}
	work.Wait()
	nothingLeft(t, admin(t, server.Addr))
	release(t, acquire(t, c, "k"))
}

// The server is away for longer than the session: the lease is lost in time,
// and the next attempt has a session of its own.
func TestExpiredSessionIsLostAndReplaced(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	c := client(t, shortTTL, server.Addr)
	lease := acquire(t, c, "k")
	server.Freeze()
	select {
	case <-lease.Done():
	case <-time.After(zktest.Patience):
		t.Fatal("the lease outlives the servers' silence")
	}
	if !errors.Is(lease.Err(), lock.ErrLost) {
		t.Errorf("the lease ended with %v", lease.Err())
	}
	server.Thaw()
	_ = lease.Release()
	next := acquire(t, c, "k")
	if next.Token() == lease.Token() {
		t.Errorf("tokens %s and %s", lease.Token(), next.Token())
	}
	before, _ := lease.Fence()
	if after, ok := next.Fence(); !ok || after <= before {
		t.Errorf("fence %d after %d", after, before)
	}
	release(t, next)
}

// The waiter's session expires while its connection is held back. It takes
// another place, with a session of its own.
func TestWaiterOutlivesItsSession(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	conn := admin(t, server.Addr)
	held := acquire(t, client(t, lock.Config{}, server.Addr), "k")
	way := door.New(t, server.Addr)
	got := client(t, shortTTL, way.Addr).Request(context.Background(), "k")
	nodes := func(want int) {
		t.Helper()
		for {
			children, _, changed, err := conn.ChildrenW("/locks/k")
			if err != nil {
				t.Fatal(err)
			}
			if len(children) == want {
				return
			}
			select {
			case <-changed:
			case <-time.After(zktest.Patience):
				t.Fatalf("nodes: %q", children)
			}
		}
	}
	nodes(2)
	release := way.Hold("")
	nodes(1)
	release()
	nodes(2)
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if err := r.Lease.Release(); err != nil {
		t.Error(err)
	}
}

// Close returns although the server says nothing any more.
func TestCloseIsBoundedWhileTheServerIsSilent(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	c, err := lock.New(newBackend(t, zookeeper.Config{Chroot: "/locks"}, server.Addr),
		lock.Config{TTL: 5 * time.Second}) // outlasts Close and pauses of a busy machine
	if err != nil {
		t.Fatal(err)
	}
	lease := acquire(t, c, "k")
	server.Freeze()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) { // and the server is still silent
		t.Errorf("Close: %v", err)
	}
	if !errors.Is(lease.Err(), lock.ErrClosed) {
		t.Errorf("the lease ended with %v", lease.Err())
	}
	server.Thaw()
	nothingLeft(t, admin(t, server.Addr)) // the session expires
}
