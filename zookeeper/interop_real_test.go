// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/testing/program"
	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// client returns a lock.Client of its own session, below /locks.
func client(t testing.TB, cfg lock.Config, servers ...string) *lock.Client {
	t.Helper()
	c, err := lock.New(newBackend(t, zookeeper.Config{Chroot: "/locks"}, servers...), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, c) })
	return c
}

func acquire(t testing.TB, c *lock.Client, key string) *lock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), zktest.Patience)
	defer cancel()
	lease, err := c.Acquire(ctx, key)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return lease
}

func release(t testing.TB, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(); err != nil {
		t.Errorf("Release: %v", err)
	}
}

var shortTTL = lock.Config{TTL: 2 * time.Second}

// waiters waits until so many nodes are below path.
func waiters(t testing.TB, conn *zk.Conn, path string, n int) {
	t.Helper()
	for end := time.Now().Add(zktest.Patience); ; {
		children, _, changed, err := conn.ChildrenW(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(children) == n {
			return
		}
		select {
		case <-changed:
		case <-time.After(time.Until(end)):
			t.Fatalf("%d nodes below %s, not %d: %q", len(children), path, n, children)
		}
	}
}

// increment adds 1 to the number in a file. Without mutual exclusion, updates
// are lost.
func increment(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600)
}

// 500 fit the time of make test; make check has 2,000.
var each = flag.Int("each", 500, "how often each contender takes the lock in the tests that count")

// Clients of three libraries count in one file. A lost update, or one that
// never came, changes the sum.
func TestCuratorGoAndOwnClientsLoseNoUpdate(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	count(t, server, *each, zktest.Curator(t, 10_000, server.Addr))
}

// Curator is left out, since it does not see kazoo's nodes.
func TestKazooGoAndOwnClientsLoseNoUpdate(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	persist(t, server, "count")
	count(t, server, *each/2, zktest.Kazoo(t, 10_000, []string{"-lock-"}, server.Addr))
}

// Curator sorts by what follows "lock-" in a node's name. Names of kazoo lack
// that, so Curator puts them after its own nodes and those of getsetlock.
func TestCuratorDoesNotSeeKazoo(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	persist(t, server, "k")
	kazoo := zktest.Kazoo(t, 10_000, []string{"-lock-"}, server.Addr)
	curator := zktest.Curator(t, 10_000, server.Addr)
	kazoo.Must("true", "acquire", "/locks/k", zktest.Patience.Milliseconds())
	curator.Must("true", "acquire", "/locks/k", zktest.Patience.Milliseconds())
}

// count lets a peer, go-zookeeper's Lock and two own clients count to 4·each.
func count(t *testing.T, server *zktest.Server, each int, peer *program.Peer) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "count")
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := zk.NewLock(admin(t, server.Addr), "/locks/count", zk.WorldACL(zk.PermAll))
	own := []*lock.Client{client(t, lock.Config{}, server.Addr), client(t, lock.Config{}, server.Addr)}
	var work sync.WaitGroup
	work.Go(func() {
		if _, err := peer.Order("count", "/locks/count", file, each); err != nil {
			t.Error(err)
		}
	})
	work.Go(func() {
		for range each {
			if err := errors.Join(foreign.Lock(), increment(file), foreign.Unlock()); err != nil {
				t.Errorf("go-zookeeper's Lock: %v", err)
				return
			}
		}
	})
	for _, c := range own {
		work.Go(func() {
			for range each {
				lease, err := c.Acquire(context.Background(), "count")
				if err == nil {
					err = errors.Join(increment(file), lease.Release())
				}
				if err != nil {
					t.Errorf("getsetlock: %v", err)
					return
				}
			}
		})
	}
	work.Wait()
	if text, _ := os.ReadFile(file); string(text) != strconv.Itoa(4*each) {
		t.Errorf("counted to %s, not %d", text, 4*each)
	}
}

// foreign is a lock of another library.
type foreign struct{ acquire, release func() error }

func ordered(p *program.Peer, path string) foreign {
	order := func(want string, words ...any) error {
		if got, err := p.Order(words...); err != nil || got != want {
			return fmt.Errorf("%v: %q, %w", words, got, err)
		}
		return nil
	}
	return foreign{
		func() error { return order("true", "acquire", path, zktest.Patience.Milliseconds()) },
		func() error { return order("", "release", path) },
	}
}

func TestForeignAndOwnWaitersWakeEachOther(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	conn := admin(t, server.Addr)
	persist(t, server, "kazoo")
	other := zk.NewLock(admin(t, server.Addr), "/locks/go-zookeeper", zk.WorldACL(zk.PermAll))
	c := client(t, lock.Config{}, server.Addr)
	for name, f := range map[string]foreign{
		"curator":      ordered(zktest.Curator(t, 10_000, server.Addr), "/locks/curator"),
		"kazoo":        ordered(zktest.Kazoo(t, 10_000, []string{"-lock-"}, server.Addr), "/locks/kazoo"),
		"go-zookeeper": {other.Lock, other.Unlock},
	} {
		t.Run(name, func(t *testing.T) { wakeEachOther(t, c, conn, name, f) })
	}
}

func wakeEachOther(t *testing.T, c *lock.Client, conn *zk.Conn, key string, f foreign) {
	if err := f.acquire(); err != nil {
		t.Fatal(err)
	}
	got := c.Request(context.Background(), key)
	waiters(t, conn, "/locks/"+key, 2)
	if err := f.release(); err != nil {
		t.Fatal(err)
	}
	result := <-got
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	done := make(chan error, 1)
	go func() { done <- f.acquire() }()
	waiters(t, conn, "/locks/"+key, 2)
	release(t, result.Lease)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryAcquire(context.Background(), key); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("TryAcquire while the other library holds: %v", err)
	}
	waiters(t, conn, "/locks/"+key, 1) // the refusal left nothing
	if err := f.release(); err != nil {
		t.Error(err)
	}
}

func TestCrashOfEitherSideFreesTheLock(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	curator := zktest.Curator(t, 2000, server.Addr)
	c := client(t, shortTTL, server.Addr)
	curator.Must("true", "acquire", "/locks/k", zktest.Patience.Milliseconds())
	curator.Kill()
	release(t, acquire(t, c, "k"))
	persist(t, server, "kazoo")
	kazoo := zktest.Kazoo(t, 2000, []string{"-lock-"}, server.Addr)
	kazoo.Must("true", "acquire", "/locks/kazoo", zktest.Patience.Milliseconds())
	kazoo.Kill()
	release(t, acquire(t, c, "kazoo"))

	// Close while the lock is held ends the session on this side only, as a
	// crash does.
	crashing := newBackend(t, zookeeper.Config{Chroot: "/locks", Timeout: zktest.Patience}, server.Addr)
	for {
		_, err := crashing.Contract().Try(context.Background(), "k", 2*time.Second)
		var p interface{ Passing() bool }
		if err == nil {
			break
		}
		// A busy machine may lose such a short session.
		if !errors.Is(err, lock.ErrHeld) && (!errors.As(err, &p) || !p.Passing()) {
			t.Fatal(err)
		}
	}
	if err := crashing.Close(); err != nil {
		t.Fatal(err)
	}
	heir := zktest.Curator(t, 2000, server.Addr)
	heir.Must("true", "acquire", "/locks/k", zktest.Patience.Milliseconds())
}

// persist makes the node of a lock, which would else be a container. A Lock of
// kazoo makes a missing node at its first use only, and fails when the server
// has deleted the container since.
func persist(t *testing.T, server *zktest.Server, name string) {
	t.Helper()
	conn := admin(t, server.Addr)
	for _, path := range []string{"/locks", "/locks/" + name} {
		_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		if err != nil && err != zk.ErrNodeExists {
			t.Fatal(err)
		}
	}
}

// kazoo sees the nodes of getsetlock only with a pattern for their names.
// Without it, kazoo takes a lock that is held. getsetlock sees kazoo's nodes
// either way.
func TestKazooNeedsAPatternToSeeOurs(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	seeing := zktest.Kazoo(t, 10_000, []string{"-lock-"}, server.Addr)
	blind := zktest.Kazoo(t, 10_000, nil, server.Addr)
	c, said := logging(t, zookeeper.Config{Chroot: "/locks"}, lock.Config{}, server.Addr)
	persist(t, server, "k")
	lease := acquire(t, c, "k")
	seeing.Must("false", "acquire", "/locks/k", 300)
	blind.Must("true", "acquire", "/locks/k", zktest.Patience.Milliseconds())
	blind.Must("", "release", "/locks/k")
	release(t, lease)
	blind.Must("true", "acquire", "/locks/k", zktest.Patience.Milliseconds())
	if _, err := c.TryAcquire(context.Background(), "k"); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("TryAcquire while kazoo holds: %v", err)
	}
	if n := said.count("extra_lock_patterns"); n != 1 {
		t.Errorf("%d warnings name kazoo's missing pattern: %s", n, said)
	}
}

// journal is a log that goroutines share.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *journal) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *journal) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// count returns how many lines contain a word.
func (l *journal) count(word string) (n int) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, word) {
			n++
		}
	}
	return n
}

// logging returns a lock.Client of its own session, and the Backend's log.
func logging(t testing.TB, cfg zookeeper.Config, of lock.Config, servers ...string) (*lock.Client, *journal) {
	t.Helper()
	said := new(journal)
	cfg.Logger = slog.New(slog.NewTextHandler(said, nil))
	c, err := lock.New(newBackend(t, cfg, servers...), of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, c) })
	return c, said
}

// closed closes a Client whose leases were released, unless the test failed
// before that.
func closed(t testing.TB, c *lock.Client) {
	t.Helper()
	wait := zktest.Patience
	if t.Failed() {
		wait = time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// A child that no library can parse stops go-zookeeper's Lock and leaves its
// node. getsetlock ignores the child, and waits until that session has ended.
func TestChildWithoutANumberIsIgnored(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	conn, other := admin(t, server.Addr), admin(t, server.Addr)
	c, said := logging(t, zookeeper.Config{Chroot: "/locks"}, lock.Config{}, server.Addr)
	release(t, acquire(t, c, "k"))
	if _, err := conn.Create("/locks/k/readme", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, c, "k"))
	if err := zk.NewLock(other, "/locks/k", zk.WorldACL(zk.PermAll)).Lock(); err == nil {
		t.Error("go-zookeeper's Lock parses such a child: say so in the documents")
	}
	if _, err := c.TryAcquire(context.Background(), "k"); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("TryAcquire beside a left node: %v", err)
	}
	other.Close()
	release(t, acquire(t, c, "k"))
	if said.count("readme") != 1 {
		t.Errorf("the child is not named once: %s", said)
	}
}
