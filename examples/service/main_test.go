// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// asService is set for the test's own program where it is to be the service.
const asService = "RUN_AS_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		main()
		return
	}
	redistest.Main(m)
}

var background = context.Background()

// inPhase is a server whose record says observe.
func inPhase(t *testing.T) (*miniredis.Miniredis, *redis.Pool) {
	t.Helper()
	server := miniredis.RunT(t)
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", server.Addr())
	}}
	t.Cleanup(func() { pool.Close() })
	if _, err := fleet.Init(background, pool, fleet.Options{Namespace: "stock"}); err != nil {
		t.Fatal(err)
	}
	return server, pool
}

func members(t *testing.T, pool *redis.Pool) []migrate.MemberState {
	t.Helper()
	r, err := fleet.Status(background, pool, fleet.Options{Namespace: "stock"})
	if err != nil {
		t.Fatal(err)
	}
	return r.Members
}

// child is the service as a process of its own.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
}

func start(t *testing.T, env ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), asService+"=1", "LISTEN=127.0.0.1:0"), env...)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t, cmd, make(chan string, 100)}
	t.Cleanup(func() { cmd.Process.Kill() }) // does nothing once it has ended
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	return c
}

// says waits for a line with a text, and returns what follows that.
func (c *child) says(text string) string {
	c.t.Helper()
	patience := time.After(redistest.Patience)
	for {
		select {
		case line, open := <-c.lines:
			if !open {
				c.t.Fatalf("the service has ended and never said %q", text)
			}
			c.t.Log(line)
			if _, rest, found := strings.Cut(line, text); found {
				return rest
			}
		case <-patience:
			c.t.Fatalf("the service did not say %q", text)
		}
	}
}

// ended waits for the end of the service.
func (c *child) ended() error {
	for line := range c.lines {
		c.t.Log(line)
	}
	return c.cmd.Wait()
}

// A request waits for an old client's lock when SIGTERM comes.
func TestServiceFinishesItsRequestsOnSIGTERM(t *testing.T) {
	server, pool := inPhase(t)
	service := start(t, "REDIS_URL=redis://"+server.Addr())
	address := service.says("listening on ")
	if m := members(t, pool); len(m) != 1 || m[0].Name != "till" {
		t.Fatalf("the roster has %v", m)
	}

	server.Set("stock:42", strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)) // an old client's
	answered := make(chan string, 1)
	go func() {
		r, err := http.Post("http://"+address+"/orders/42", "", nil)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		answered <- strings.TrimSpace(r.Status + " " + string(body))
	}()
	service.says("waiting for stock:42")
	if err := service.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	service.says("stopping")
	server.Del("stock:42") // the old client is done
	service.says("sold one of 42")
	if got := <-answered; got != "200 OK" {
		t.Errorf("the request was answered by %q", got)
	}
	if err := service.ended(); err != nil {
		t.Errorf("the service ended with %v", err)
	}
	if m := members(t, pool); len(m) != 0 {
		t.Errorf("the roster still has %v", m)
	}
	if server.Exists("stock:42") {
		t.Error("a lock is left")
	}
	http.DefaultClient.CloseIdleConnections()
}

// A job that does not stop keeps its key until the TTL. The roster says how
// long gates have to wait for that.
func TestServiceThatLeavesALockIsLeaving(t *testing.T) {
	_, pool := inPhase(t)
	member, err := migrate.Join(background, pool, migrate.MemberConfig{Namespace: "stock"})
	if err != nil {
		t.Fatal(err)
	}
	locks, err := newLocks(pool, member)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locks.Acquire(background, "stock:42"); err != nil {
		t.Fatal(err)
	}
	if err := leave(locks, member, 0); err == nil {
		t.Error("nothing was said of the lock that is left")
	}
	if m := members(t, pool); len(m) != 1 || m[0].Leaving.Sub(m[0].Seen) < leaseTTL {
		t.Errorf("the roster has %v; want one that is leaving for a TTL", m)
	}
}

func TestServiceDoesNotStartWithoutAServer(t *testing.T) {
	server, _ := inPhase(t)
	address := server.Addr()
	server.Close()
	if err := run(background, "redis://"+address, ""); err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("%v; want the address that did not answer", err)
	}
}

// A service that restarts again and again because of its configuration must not
// leave a vanished member each time.
func TestServiceThatCannotListenLeavesTheRoster(t *testing.T) {
	server, pool := inPhase(t)
	if err := run(background, "redis://"+server.Addr(), "no address"); err == nil {
		t.Error("no error")
	}
	if m := members(t, pool); len(m) != 0 {
		t.Errorf("the roster has %v", m)
	}
}
