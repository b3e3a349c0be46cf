// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package zktest runs real ZooKeeper servers, and other clients of ZooKeeper's
// lock. scripts/prepare.sh builds the jar that it needs.
package zktest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/program"
)

// Patience is how long a test waits for what must come.
const Patience = 5 * time.Minute

// Tick is the tickTime of the servers. They keep sessions for at least two
// ticks.
const Tick = 500 * time.Millisecond

// Jar is the archive with the server, Curator and its driver.
func Jar(t testing.TB) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	jar := filepath.Join(filepath.Dir(file), "../../../java/zookeeper/target/zookeeper.jar")
	if _, err := os.Stat(jar); err != nil {
		t.Fatalf("%s is missing; run: make prepare", jar)
	}
	return jar
}

// Server is one ZooKeeper server.
type Server struct {
	Addr string // host:port for clients

	t   testing.TB
	dir string
	mu  sync.Mutex
	cmd *exec.Cmd
}

// Start runs one server until the test ends. Further lines of its configuration
// follow.
func Start(t testing.TB, lines ...string) *Server {
	t.Helper()
	s := configure(t, lines...)
	s.Run()
	s.await()
	return s
}

func configure(t testing.TB, lines ...string) *Server {
	t.Helper()
	port := program.Port(t)
	s := &Server{Addr: "127.0.0.1:" + port, t: t, dir: t.TempDir()}
	lines = append([]string{
		"dataDir=" + s.dir,
		"clientPortAddress=127.0.0.1",
		"clientPort=" + port,
		fmt.Sprintf("tickTime=%d", Tick.Milliseconds()),
		"maxClientCnxns=0",
		"maxSessionTimeout=60000",
		"4lw.commands.whitelist=srvr",
		"admin.enableServer=false",
	}, lines...)
	if err := os.WriteFile(s.config(), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

func (s *Server) config() string { return filepath.Join(s.dir, "zoo.cfg") }

// Reconfigure adds lines to the configuration. They count from the next Run,
// and replace earlier lines of the same name.
func (s *Server) Reconfigure(lines ...string) {
	s.t.Helper()
	text, err := os.ReadFile(s.config())
	if err == nil {
		text = append(text, strings.Join(lines, "\n")+"\n"...)
		err = os.WriteFile(s.config(), text, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Run starts the process.
func (s *Server) Run() {
	s.t.Helper()
	cmd := exec.Command("java", "-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto",
		"-Dzookeeper.forceSync=no", "-Dzookeeper.extendedTypesEnabled=true",
		"-Dznode.container.checkIntervalMs=1000",
		"-cp", Jar(s.t), "org.apache.zookeeper.server.quorum.QuorumPeerMain", s.config())
	program.Tie(cmd)
	said, err := os.OpenFile(filepath.Join(s.dir, "said"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	s.mu.Lock()
	s.cmd = cmd
	s.mu.Unlock()
}

// Kill ends the process as a crash does.
func (s *Server) Kill() { s.signal(syscall.SIGKILL) }

// Freeze stops the process, Thaw lets it run on.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(what syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(what)
	}
}

// Mode asks the server what it is: standalone, leader, follower, or nothing
// while it does not serve.
func (s *Server) Mode() string {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return ""
	}
	var said strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			break
		}
	}
	_, mode, _ := strings.Cut(said.String(), "Mode: ")
	mode, _, _ = strings.Cut(mode, "\n")
	return mode
}

// Said is what the process printed so far.
func (s *Server) Said() string {
	said, _ := os.ReadFile(filepath.Join(s.dir, "said"))
	return string(said)
}

// await waits until the server serves.
func (s *Server) await() {
	s.t.Helper()
	for end := time.Now().Add(Patience); s.Mode() == ""; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("the server does not serve after %v:\n%s", Patience, s.Said())
		}
	}
}
