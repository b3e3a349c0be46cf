// SPDX-License-Identifier: Apache-2.0

//go:build real && linux

package stores

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/program"
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

// must sends an order to Curator and awaits its end.
func must(t *testing.T, curator *program.Peer, order ...any) {
	t.Helper()
	if _, err := curator.Order(order...); err != nil {
		t.Errorf("Curator: %v", err)
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
