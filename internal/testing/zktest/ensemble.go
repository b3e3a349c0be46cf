// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zktest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/door"
	"github.com/getsetlock/getsetlock/internal/testing/program"
)

// Ensemble is some servers that elect a leader. Between every two of them are
// links that can be frozen.
type Ensemble struct {
	Servers []*Server

	t     testing.TB
	links map[[2]int]*door.Door // from one server to another's port for followers
}

// StartEnsemble runs n servers until the test ends.
func StartEnsemble(t testing.TB, n int) *Ensemble {
	t.Helper()
	e := &Ensemble{t: t, links: map[[2]int]*door.Door{}}
	follow, elect := make([]string, n), make([]string, n)
	for i := range n {
		follow[i], elect[i] = program.Port(t), program.Port(t)
	}
	for i := range n {
		lines := []string{"initLimit=20", "syncLimit=8"}
		for j := range n {
			addr := "127.0.0.1:" + follow[j]
			if i != j {
				d := door.New(t, addr)
				e.links[[2]int{i, j}] = d
				addr = d.Addr
			}
			lines = append(lines, fmt.Sprintf("server.%d=%s:%s", j+1, addr, elect[j]))
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
	return e.links[[2]int{follower, leader}].Hold("")
}
