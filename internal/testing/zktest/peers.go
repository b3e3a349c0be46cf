// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zktest

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Peer is another client of the lock, in a process of its own. It takes orders,
// see java/zookeeper.
type Peer struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Curator starts a JVM with Curator's InterProcessMutex, connected to servers.
// Its session lasts timeout milliseconds.
func Curator(t testing.TB, timeout int, servers ...string) *Peer {
	t.Helper()
	p := start(t, exec.Command("java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar",
		Jar(t)))
	p.Must("true", "open", strings.Join(servers, ","), timeout)
	return p
}

//go:embed kazoo.py
var kazooDriver string

// Kazoo starts a Python process with kazoo's Lock. patterns are those of
// kazoo's extra_lock_patterns.
func Kazoo(t testing.TB, timeout int, patterns []string, servers ...string) *Peer {
	t.Helper()
	cmd := exec.Command("python3", append([]string{"-u", "-c", kazooDriver}, patterns...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+kazooWheel(t))
	p := start(t, cmd)
	p.Must("true", "open", strings.Join(servers, ","), timeout)
	return p
}

func kazooWheel(t testing.TB) string {
	t.Helper()
	cache := os.Getenv("GETSETLOCK_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(user, "getsetlock")
	}
	found, _ := filepath.Glob(filepath.Join(cache, "kazoo-*.whl"))
	if len(found) == 0 {
		t.Fatalf("kazoo is not in %s; run: make prepare", cache)
	}
	return found[0]
}

func start(t testing.TB, cmd *exec.Cmd) *Peer {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	stay := make(chan struct{})
	go func() {
		runtime.LockOSThread() // Pdeathsig belongs to this thread
		started <- cmd.Start()
		<-stay
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	p := &Peer{t: t, cmd: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		p.Kill()
		_ = cmd.Wait()
		close(stay)
	})
	return p
}

// Kill ends the process as a crash does. Its session lives on until it expires.
func (p *Peer) Kill() { _ = p.cmd.Process.Kill() }

// Order sends an order and returns the answer without its "ok".
func (p *Peer) Order(words ...any) (string, error) {
	if _, err := fmt.Fprintln(p.in, words...); err != nil {
		return "", err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%v: %w", words, err)
	}
	answer, ok := strings.CutPrefix(strings.TrimSpace(line), "ok")
	if !ok {
		return "", fmt.Errorf("%v: %s", words, line)
	}
	return strings.TrimSpace(answer), nil
}

// Must fails the test if the answer is another one.
func (p *Peer) Must(want string, words ...any) {
	p.t.Helper()
	if got, err := p.Order(words...); err != nil || got != want {
		p.t.Fatalf("%v: %q, %v", words, got, err)
	}
}
