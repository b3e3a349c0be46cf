// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/lock"
)

// aged is an etcd that grants leases, tells its version, and knows nothing
// else.
type aged struct {
	member uint64 // the server's number in the cluster
	etcdserverpb.UnimplementedLeaseServer
	etcdserverpb.UnimplementedMaintenanceServer
}

func (aged) LeaseGrant(context.Context, *etcdserverpb.LeaseGrantRequest) (*etcdserverpb.LeaseGrantResponse,
	error) {
	return &etcdserverpb.LeaseGrantResponse{Header: &etcdserverpb.ResponseHeader{}, ID: 7, TTL: 60}, nil
}

func (a aged) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{MemberId: a.member},
		Version: "3.4.23"}, nil
}

// serve returns the server's address.
func (a aged) serve(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	etcdserverpb.RegisterLeaseServer(server, a)
	etcdserverpb.RegisterMaintenanceServer(server, a)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

// With -q the command's logger drops all; another one would print. The first
// server is named twice, and the last one's warning is awaited.
func TestWarningOfAnOldEtcdGoesToTheLogger(t *testing.T) {
	first, last := aged{member: 1}.serve(t), aged{member: 2}.serve(t)
	said := &said{until: last, told: make(chan struct{})}
	conn, err := openEtcd(t.Context(), backing.Address{Scheme: "etcd", Servers: []string{first, first, last}},
		backing.Options{Timeout: time.Minute, Clock: lock.Machine,
			Logger: slog.New(slog.NewTextHandler(said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Backend().Contract().Try(t.Context(), "k", time.Minute); err == nil {
		t.Error("a lock without a store")
	}
	select {
	case <-said.told:
	case <-time.After(time.Minute):
		t.Error("no warning")
	}
	_ = conn.Close()
	text := said.all.String()
	if !strings.Contains(text, "version=3.4.23") || strings.Count(text, first) != 1 {
		t.Errorf("said %q", text)
	}
}

// said keeps what a logger writes.
type said struct {
	until string
	told  chan struct{} // closed at the first record that has until
	once  sync.Once
	all   bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.all.Write(p)
	if strings.Contains(string(p), s.until) {
		s.once.Do(func() { close(s.told) })
	}
	return len(p), nil
}

func TestLockKeyEndsWithItsLease(t *testing.T) {
	for key, want := range map[string]struct {
		name  string
		lease int64
	}{
		"nightly/2040a207a89ad906":   {"nightly", 0x2040a207a89ad906},
		"nightly/f4a207c682dc05.2":   {"nightly", 0xf4a207c682dc05},
		"shop/stock/f4a207c682dc05":  {"shop/stock", 0xf4a207c682dc05},
		"nightly/0f4a207c682dc05":    {},
		"nightly/F4A207C682DC05":     {},
		"nightly/word":               {},
		"nightly/":                   {},
		"nightly":                    {},
		"/f4a207c682dc05":            {},
		"nightly/2040a207a89ad906ff": {},
	} {
		if name, lease := lockKey(key); name != want.name || lease != want.lease {
			t.Errorf("%s: %q, %x", key, name, lease)
		}
	}
}
