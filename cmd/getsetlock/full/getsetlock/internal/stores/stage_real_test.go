// SPDX-License-Identifier: Apache-2.0

//go:build real && linux

package stores

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/lock"
)

// root is the folder of the repository, as tests see it.
const root = "../../../../../.."

// on returns a stage whose verbs use the store at an address.
func on(t *testing.T, address string) *clitest.Stage {
	return &clitest.Stage{T: t, Clock: lock.Machine, Timeout: time.Minute, Patience: -1, Stores: All(),
		Vars: map[string]string{"GETSETLOCK_TARGET": address}}
}

// etcdServer builds the program that runs a member of etcd, once.
var etcdServer = sync.OnceValues(func() (string, error) {
	file, err := filepath.Abs(filepath.Join(root, "bin/etcd-serve")) // make clean deletes it
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", file, "./serve")
	build.Dir = filepath.Join(root, "etcd/internal/etcdtest")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building etcd: %w\n%s", err, said)
	}
	return file, nil
})

// startEtcd runs a member of etcd until the test ends, and returns host:port.
func startEtcd(t *testing.T, certificates ...string) string {
	t.Helper()
	file, err := etcdServer()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(file, append([]string{t.TempDir()}, certificates...)...)
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the member also ends when this process does
		_ = in.Close()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatalf("etcd did not start: %v\n%s", err, &trouble)
	}
	return strings.TrimSpace(address)
}

// zookeeperJar has the server, and a driver of Curator.
func zookeeperJar(t *testing.T) string {
	t.Helper()
	jar, err := filepath.Abs(filepath.Join(root, "java/zookeeper/target/zookeeper.jar"))
	if err == nil {
		_, err = os.Stat(jar)
	}
	if err != nil {
		t.Fatalf("%v; run: make prepare", err)
	}
	return jar
}

// java returns a small JVM. It is killed with this process.
func java(args ...string) *exec.Cmd {
	cmd := exec.Command("java", append([]string{"-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"-Dzookeeper.forceSync=no", "-Dzookeeper.extendedTypesEnabled=true"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// freePort returns a loopback port that nobody listens on. It lies below those
// that the system gives to connections and to listeners without a port of their
// own, so nobody takes it before the server does.
func freePort(t *testing.T) string {
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

// startZookeeper runs a server until the test ends, and returns host:port.
// Further lines of its configuration follow.
func startZookeeper(t *testing.T, lines ...string) string {
	t.Helper()
	port, dir := freePort(t), t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte("dataDir="+dir+"\nclientPortAddress=127.0.0.1\nclientPort="+port+
		"\ntickTime=500\nmaxSessionTimeout=60000\nmaxClientCnxns=0\nadmin.enableServer=false\n"+
		strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := java("-cp", zookeeperJar(t), "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address := "127.0.0.1:" + port
	// The command itself waits for a server that is away.
	s := on(t, "zookeeper://"+address)
	s.Timeout = 2 * time.Second // a server that starts may accept a connection and leave it at that
	if got := s.Run("wait", "--wait", "1m", "anything"); got.Code != 0 {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the server does not serve: %+v\n%s", got, said.String())
	}
	return address
}

// curator is a JVM with Curator's InterProcessMutex.
type curator struct {
	t   *testing.T
	in  interface{ Write([]byte) (int, error) }
	out *bufio.Reader
}

func startCurator(t *testing.T, server string) *curator {
	t.Helper()
	cmd := java("-jar", zookeeperJar(t))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := &curator{t, in, bufio.NewReader(said)}
	c.must("open", server, 30000)
	return c
}

// must sends an order and awaits its end.
func (c *curator) must(order ...any) {
	if _, err := fmt.Fprintln(c.in, order...); err != nil {
		c.t.Error(err)
		return
	}
	if line, err := c.out.ReadString('\n'); err != nil || !strings.HasPrefix(line, "ok") {
		c.t.Errorf("Curator: %v: %q, %v", order, line, err)
	}
}

// counter is a number in a file. Only a lock keeps two that add one apart.
type counter struct {
	t    *testing.T
	file string
}

func newCounter(t *testing.T) *counter {
	c := &counter{t, filepath.Join(t.TempDir(), "number")}
	if err := os.WriteFile(c.file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// script adds one.
func (c *counter) script() string {
	return fmt.Sprintf(`n=$(cat %[1]s); echo $((n + 1)) >%[1]s`, c.file)
}

func (c *counter) want(n int) {
	c.t.Helper()
	text, err := os.ReadFile(c.file)
	if got, _ := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || got != n {
		c.t.Errorf("%d of %d updates were kept, %v", got, n, err)
	}
}

// holding starts a verb hold and returns when it has the lock. end gives the
// lock back.
func holding(s *clitest.Stage, name string, flags ...string) (held *clitest.Started, end func()) {
	in, stop := net.Pipe()
	held = s.StartReading(in, append(append([]string{"hold"}, flags...), name)...)
	held.Out.Await("held ")
	return held, func() { _ = stop.Close() }
}
