// SPDX-License-Identifier: Apache-2.0

// Package program runs programs for tests: servers, and clients of other
// libraries that take orders.
package program

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Port returns a loopback port that nobody listens on. It lies below those that
// the system gives to connections and to listeners without a port of their own,
// so that most likely nobody takes it before the server does.
func Port(t testing.TB) string {
	t.Helper()
	const lowest, highest = 10_000, 32_000
	for range 1000 {
		port := strconv.Itoa(lowest + rand.IntN(highest-lowest))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// CacheDir returns the folder for downloaded files: GETSETLOCK_CACHE, otherwise
// getsetlock in the user's cache folder.
func CacheDir() (string, error) {
	if dir := os.Getenv("GETSETLOCK_CACHE"); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "getsetlock"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".cache", "getsetlock"), err
}

// Peer is a client in a process of its own. It takes orders, one a line, and
// answers each with a line that begins with "ok".
type Peer struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

// Start starts a peer, which ends with the test.
func Start(t testing.TB, cmd *exec.Cmd) *Peer {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	Tie(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Peer{t: t, cmd: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		p.Kill()
		_ = cmd.Wait()
	})
	return p
}

// Kill ends the process as a crash does.
func (p *Peer) Kill() { _ = p.cmd.Process.Kill() }

// Send sends an order.
func (p *Peer) Send(words ...any) error {
	_, err := fmt.Fprintln(p.in, words...)
	return err
}

// Answer returns the answer to the first order that was not answered yet,
// without its "ok".
func (p *Peer) Answer() (string, error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", err
	}
	answer, ok := strings.CutPrefix(strings.TrimSpace(line), "ok")
	if !ok {
		return "", fmt.Errorf("a peer says %q", line)
	}
	return strings.TrimSpace(answer), nil
}

// Order sends an order and returns the answer.
func (p *Peer) Order(words ...any) (string, error) {
	err := p.Send(words...)
	answer := ""
	if err == nil {
		answer, err = p.Answer()
	}
	if err != nil {
		err = fmt.Errorf("%v: %w", words, err)
	}
	return answer, err
}

// Must fails the test if the answer to an order is another one.
func (p *Peer) Must(want string, words ...any) {
	p.t.Helper()
	if got, err := p.Order(words...); err != nil || got != want {
		p.t.Fatalf("%v: %q, %v", words, got, err)
	}
}
