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
	etcdserverpb.UnimplementedLeaseServer
	etcdserverpb.UnimplementedMaintenanceServer
}

func (aged) LeaseGrant(context.Context, *etcdserverpb.LeaseGrantRequest) (*etcdserverpb.LeaseGrantResponse,
	error) {
	return &etcdserverpb.LeaseGrantResponse{Header: &etcdserverpb.ResponseHeader{}, ID: 7, TTL: 60}, nil
}

func (aged) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{}, Version: "3.4.23"}, nil
}

// With -q the command's logger drops all; another one would print.
func TestWarningOfAnOldEtcdGoesToTheLogger(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	etcdserverpb.RegisterLeaseServer(server, aged{})
	etcdserverpb.RegisterMaintenanceServer(server, aged{})
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	said := &said{told: make(chan struct{})}
	conn, err := openEtcd(t.Context(), backing.Address{Scheme: "etcd", Servers: []string{l.Addr().String()}},
		backing.Options{Timeout: time.Minute, Clock: lock.Machine,
			Logger: slog.New(slog.NewTextHandler(said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Backend().Try(t.Context(), "k", time.Minute); err == nil {
		t.Error("a lock without a store")
	}
	select {
	case <-said.told:
	case <-time.After(time.Minute):
		t.Error("no warning")
	}
	if _ = conn.Close(); !strings.Contains(said.all.String(), "version=3.4.23") {
		t.Errorf("said %q", said.all.String())
	}
}

// said keeps what a logger writes.
type said struct {
	told chan struct{} // closed at the first record
	once sync.Once
	all  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.all.Write(p)
	s.once.Do(func() { close(s.told) })
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
