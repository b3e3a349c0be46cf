//go:build linux

package zktest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Ensemble is some servers that elect a leader. Between every two of them are
// links that can be frozen.
type Ensemble struct {
	Servers []*Server

	t     testing.TB
	links map[[2]int]*link // from one server to another's port for followers
}

// StartEnsemble runs n servers until the test ends.
func StartEnsemble(t testing.TB, n int) *Ensemble {
	t.Helper()
	e := &Ensemble{t: t, links: map[[2]int]*link{}}
	follow, elect := make([]int, n), make([]int, n)
	for i := range n {
		follow[i], elect[i] = Port(t), Port(t)
	}
	for i := range n {
		lines := []string{"initLimit=20", "syncLimit=8"}
		for j := range n {
			port := follow[j]
			if i != j {
				l := newLink(t, port)
				e.links[[2]int{i, j}] = l
				port = l.port
			}
			lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", j+1, port, elect[j]))
		}
		s := configure(t, lines...)
		if err := os.WriteFile(filepath.Join(s.dir, "myid"), fmt.Append(nil, i+1), 0o600); err != nil {
			t.Fatal(err)
		}
		e.Servers = append(e.Servers, s)
	}
	for _, s := range e.Servers {
		s.Run()
	}
	for _, s := range e.Servers {
		s.await()
	}
	return e
}

// Await waits until every server serves.
func (e *Ensemble) Await() {
	e.t.Helper()
	for _, s := range e.Servers {
		s.await()
	}
}

// Addrs are the addresses for clients.
func (e *Ensemble) Addrs() []string {
	var addrs []string
	for _, s := range e.Servers {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Leader returns the number of the leader.
func (e *Ensemble) Leader() int {
	e.t.Helper()
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for i, s := range e.Servers {
			if s.Mode() == "leader" {
				return i
			}
		}
	}
	e.t.Fatal("no leader")
	return 0
}

// Freeze holds everything back that goes between a follower and the leader.
// Nothing is lost: thaw delivers it.
func (e *Ensemble) Freeze(follower, leader int) (thaw func()) {
	l := e.links[[2]int{follower, leader}]
	l.gate.Lock()
	return sync.OnceFunc(l.gate.Unlock)
}

// link forwards connections to a port, and stands still while its gate is
// locked.
type link struct {
	port int
	gate sync.RWMutex
}

func newLink(t testing.TB, to int) *link {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = at.Close() })
	l := &link{port: at.Addr().(*net.TCPAddr).Port}
	go func() {
		for {
			from, err := at.Accept()
			if err != nil {
				return
			}
			target, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", to))
			if err != nil {
				_ = from.Close()
				continue
			}
			go l.forward(from, target)
			go l.forward(target, from)
		}
	}()
	return l
}

func (l *link) forward(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		l.gate.RLock()
		_, failed := to.Write(buf[:n])
		l.gate.RUnlock()
		if err != nil || failed != nil {
			return
		}
	}
}
