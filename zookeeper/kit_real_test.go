// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// admin returns a bare client of the library.
func admin(t testing.TB, servers ...string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect(servers, 30*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// newBackend returns a Backend as another process would have.
func newBackend(t testing.TB, cfg zookeeper.Config, servers ...string) *zookeeper.Backend {
	t.Helper()
	b, err := zookeeper.New(servers, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wipe deletes a path and all below it.
func wipe(t testing.TB, conn *zk.Conn, path string) {
	t.Helper()
	children, _, err := conn.Children(path)
	if err != nil && err != zk.ErrNoNode {
		t.Fatal(err)
	}
	for _, child := range children {
		wipe(t, conn, path+"/"+child)
	}
	if err := conn.Delete(path, -1); err != nil && err != zk.ErrNoNode {
		t.Fatal(err)
	}
}

// seize deletes the holder's node and makes one of another client in its place,
// as no correct client does.
func seize(t testing.TB, conn *zk.Conn, path string) {
	t.Helper()
	children, _, err := conn.Children(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		if err := conn.Delete(path+"/"+child, -1); err != nil {
			t.Fatal(err)
		}
	}
	acl := zk.WorldACL(zk.PermAll)
	_, err = conn.Create(path+"/thief-", nil, zk.FlagSequence, acl)
	for err == zk.ErrNoNode { // the server has deleted the empty container
		if _, err = conn.Create(path, nil, 0, acl); err == nil || err == zk.ErrNodeExists {
			_, err = conn.Create(path+"/thief-", nil, zk.FlagSequence, acl)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestBackendPassesTheKit(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	conn := admin(t, server.Addr)
	locktest.Run(t, locktest.Traits{Session: true}, func(t *testing.T) *locktest.World {
		wipe(t, conn, "/kit")
		cuts := map[backend.Store]*zktest.Cut{}
		return &locktest.World{
			Backend: func() backend.Store {
				cut := new(zktest.Cut)
				b := newBackend(t, zookeeper.Config{Chroot: "/kit", Dial: cut.Dial}, server.Addr)
				cuts[b] = cut
				return b
			},
			Pass: time.Sleep,
			// The keeper looks for abandoned nodes twelve times a TTL.
			TTL: 1500 * time.Millisecond, FreeAfter: time.Second,
			RealTime: true,
			Seize:    func(key string) { seize(t, conn, "/kit/"+key) },
			Cut: func(b backend.Store) func() {
				cuts[b].On.Store(true)
				return func() { cuts[b].On.Store(false) }
			},
		}
	})
	names, _, err := conn.Children("/kit")
	if err != nil && err != zk.ErrNoNode {
		t.Fatal(err)
	}
	for _, name := range names {
		children, _, err := conn.Children("/kit/" + name)
		if err != nil && err != zk.ErrNoNode {
			t.Fatal(err)
		}
		children = slices.DeleteFunc(children, func(s string) bool { return strings.HasPrefix(s, "thief-") })
		if len(children) > 0 {
			t.Errorf("left below %s: %q", name, children)
		}
	}
}
