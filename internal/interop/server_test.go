//go:build real

package interop

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// startServer runs a redis-server of the test's own on a free port, without persistence, and returns its address.
func startServer(tb testing.TB) string {
	tb.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	addr := free.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	free.Close()
	cmd := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", tb.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatalf("these tests need redis-server, which `make prepare` installs: %v", err)
	}
	ready := make(chan bool, 1)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			// The wording differs between versions; what all of them say last, and before none of it, is the port.
			if strings.Contains(strings.ToLower(lines.Text()), "ready to accept connections") {
				ready <- true
			}
		}
		close(ready)
	}()
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-drained
		_ = cmd.Wait()
	})
	select {
	case ok := <-ready:
		if !ok {
			tb.Fatal("redis-server ended before it was ready")
		}
	case <-time.After(20 * time.Second):
		tb.Fatal("redis-server was not ready within 20 s")
	}
	return addr
}

// store is the tests' own view of the server: what others do to a key, and what is on it afterwards.
type store struct{ conn redis.Conn }

func openStore(tb testing.TB, addr string) store {
	tb.Helper()
	conn, err := redis.Dial("tcp", addr, redis.DialConnectTimeout(5*time.Second), redis.DialReadTimeout(5*time.Second))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return store{conn}
}

// put brings the key into the state that a word of the vectors names: missing, list, or hex:BYTES.
func (s store) put(key, state string) error {
	if _, err := s.conn.Do("DEL", key); err != nil {
		return err
	}
	switch {
	case state == "missing":
		return nil
	case state == "list":
		_, err := s.conn.Do("RPUSH", key, "x")
		return err
	}
	value, err := unhex(state)
	if err != nil {
		return err
	}
	_, err = s.conn.Do("SET", key, value)
	return err
}

// state is the word that put would need to bring the key to where it is.
func (s store) state(key string) (string, error) {
	kind, err := redis.String(s.conn.Do("TYPE", key))
	if err != nil {
		return "", err
	}
	switch kind {
	case "none":
		return "missing", nil
	case "list":
		return "list", nil
	case "string":
		value, err := redis.Bytes(s.conn.Do("GET", key))
		return hexWord(value), err
	}
	return "", fmt.Errorf("%s is a %s", key, kind)
}

// testContext ends a minute in, whatever hangs.
func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}
